"""Live updates of open pages by server-sent events.

A patch names an element (`data-live`) and its new text, class or value. It never carries markup, so
model output stays text.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from starlette.responses import StreamingResponse

from chimeralab.core.text import neutralize

Patch = dict[str, Any]
# A keep-alive comment detects browsers that are gone.
KEEP_ALIVE_SECONDS = 15.0
# A slow page misses lines rather than filling up memory.
MAX_LINES = 500


def patch(place: str, text: object = None, **more: Any) -> Patch:
    """Make a patch for an element: its text, and optionally `look` (class), `value` or `path`.

    >>> patch("turns", 7, look="busy")
    {'place': 'turns', 'text': '7', 'look': 'busy'}
    """
    return {"place": place, **({} if text is None else {"text": neutralize(str(text))}), **more}


def lines(place: str, *added: dict[str, str]) -> Patch:
    """Make a patch that appends lines to a list."""
    return {"place": place, "lines": list(added)}


class Listener:
    """Pending patches of an open page, merged by element."""

    def __init__(self) -> None:
        self.waiting: dict[str, Patch] = {}
        self.awake = asyncio.Event()

    def add(self, patches: Iterable[Patch]) -> None:
        for each in patches:
            before = self.waiting.get(each["place"], {})
            kept = [*before.get("lines", ()), *each.get("lines", ())][-MAX_LINES:]
            self.waiting[each["place"]] = {**before, **each, **({"lines": kept} if kept else {})}
        self.awake.set()

    def take(self) -> list[Patch]:
        taken, self.waiting = list(self.waiting.values()), {}
        self.awake.clear()
        return taken


class Feed:
    """Publish patches from any thread to every open page."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @property
    def is_watched(self) -> bool:
        return bool(self._listeners)

    def publish(self, patches: Iterable[Patch]) -> None:
        pending = list(patches)

        def deliver() -> None:
            for each in self._listeners:
                each.add(pending)

        if pending and self._loop and self._listeners:
            self._loop.call_soon_threadsafe(deliver)

    def close(self) -> None:
        """End every stream as the server stops; pages reconnect by themselves."""
        self._closed = True
        for each in self._listeners:
            each.awake.set()

    def stream(self, snapshot: Callable[[], Iterable[Patch]]) -> StreamingResponse:
        """Stream updates to a page, starting with a snapshot."""
        self._loop = asyncio.get_running_loop()
        return StreamingResponse(self._messages(snapshot), media_type="text/event-stream")

    async def _messages(self, snapshot: Callable[[], Iterable[Patch]]) -> AsyncIterator[str]:
        listener = Listener()
        self._listeners.add(listener)
        try:
            current = await asyncio.to_thread(lambda: list(snapshot()))
            # Patches that arrived meanwhile are newer than the snapshot.
            listener.add([*current, *listener.take()])
            while not self._closed:
                if patches := listener.take():
                    yield f"data: {json.dumps(patches)}\n\n"
                try:
                    await asyncio.wait_for(listener.awake.wait(), KEEP_ALIVE_SECONDS)
                except TimeoutError:
                    yield ": keep-alive\n\n"
        finally:
            self._listeners.discard(listener)
