"""What changes on open pages: patches that the server sends, and the browser puts in as text.

A patch names a place of a page (`data-live`) and says what stands there now. It carries text, a
class or a number, never markup, so that nothing a model wrote can become more than words.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from starlette.responses import StreamingResponse

from chimeralab.core.text import neutralize

Patch = dict[str, Any]
# So often is something sent that no page needs, to notice a browser that has gone.
SECONDS_OF_SILENCE = 15.0
# A page that does not keep up misses lines of a list rather than filling our memory.
MOST_LINES = 500


def patch(place: str, text: object = None, **more: Any) -> Patch:
    """What stands at a place now: its text, and if need be its `look` (class), `value`, `path`.

    >>> patch("turns", 7, look="busy")
    {'place': 'turns', 'text': '7', 'look': 'busy'}
    """
    return {"place": place, **({} if text is None else {"text": neutralize(str(text))}), **more}


def lines(place: str, *added: dict[str, str]) -> Patch:
    """Lines to be put at the end of a list."""
    return {"place": place, "lines": list(added)}


class Listener:
    """An open page: what it has not been told yet, the newest patch of each place."""

    def __init__(self) -> None:
        self.waiting: dict[str, Patch] = {}
        self.awake = asyncio.Event()

    def add(self, patches: Iterable[Patch]) -> None:
        for each in patches:
            before = self.waiting.get(each["place"], {})
            kept = [*before.get("lines", ()), *each.get("lines", ())][-MOST_LINES:]
            self.waiting[each["place"]] = {**before, **each, **({"lines": kept} if kept else {})}
        self.awake.set()

    def take(self) -> list[Patch]:
        taken, self.waiting = list(self.waiting.values()), {}
        self.awake.clear()
        return taken


class Feed:
    """Hands patches from whoever works (in any thread) to every open page."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @property
    def is_watched(self) -> bool:
        return bool(self._listeners)

    def publish(self, patches: Iterable[Patch]) -> None:
        """Tell all pages."""
        told = list(patches)
        if told and self._loop and self._listeners:
            self._loop.call_soon_threadsafe(self._tell, told)

    def _tell(self, patches: list[Patch]) -> None:
        for each in self._listeners:
            each.add(patches)

    def close(self) -> None:
        """End every stream, as the server stops; pages try again by themselves."""
        self._closed = True
        for each in self._listeners:
            each.awake.set()

    def stream(self, snapshot: Callable[[], Iterable[Patch]]) -> StreamingResponse:
        """The response that keeps a page up to date; it starts with how things stand."""
        self._loop = asyncio.get_running_loop()
        return StreamingResponse(self._messages(snapshot), media_type="text/event-stream")

    async def _messages(self, snapshot: Callable[[], Iterable[Patch]]) -> AsyncIterator[str]:
        listener = Listener()
        self._listeners.add(listener)
        try:
            so_far = await asyncio.to_thread(lambda: list(snapshot()))
            # What was told meanwhile is newer than what stood when that was looked up.
            meanwhile = listener.take()
            listener.add([*so_far, *meanwhile])
            while not self._closed:
                if patches := listener.take():
                    yield f"data: {json.dumps(patches)}\n\n"
                try:
                    await asyncio.wait_for(listener.awake.wait(), SECONDS_OF_SILENCE)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._listeners.discard(listener)
