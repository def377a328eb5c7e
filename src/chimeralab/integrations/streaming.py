"""Streams of models, ended where they begin to repeat themselves.

Chunks are those of the OpenAI SDK, of LiteLLM and of Anthropic's events; others pass untouched.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from typing import Any, Literal, Unpack

from chimeralab.core.errors import InputError, LoopDetected
from chimeralab.detection.streams import MessageStreams, StreamCut
from chimeralab.integrations.watch import Watch, WatchSettings

MAX_STREAMS = 64  # choices or agents that are streamed at once
OnCut = Literal["raise", "end"]
# By type of event, or of its delta: the field that has the text, and whether that is reasoning.
EVENTS = {
    "response.output_text.delta": ("delta", False),
    "response.refusal.delta": ("delta", False),
    "response.reasoning_text.delta": ("delta", True),
    "response.reasoning_summary_text.delta": ("delta", True),
    "text_delta": ("text", False),
    "thinking_delta": ("thinking", True),
}


class StreamGuard:
    """Judges the chunks of one stream; nothing that goes wrong inside it reaches the host."""

    def __init__(self, watch: Watch) -> None:
        self._watch, self._broken = watch, not watch.enabled
        self._streams: dict[Any, MessageStreams] = {}

    def judge(self, chunk: Any) -> StreamCut | None:
        """Take in a chunk; return the cut when it is time."""
        cut = None
        if self._broken:
            return cut
        self._broken = True  # unless all goes well
        with self._watch.contain_errors():
            for key, text, reasoning in read_deltas(chunk):
                if text is None:
                    self._streams.pop(key, None)
                else:
                    cut = cut or self._find(key).feed(text, reasoning=reasoning)
            self._broken = False
        return cut

    def _find(self, key: Any) -> MessageStreams:
        if key not in self._streams:
            if len(self._streams) >= MAX_STREAMS:
                del self._streams[next(iter(self._streams))]
            self._streams[key] = MessageStreams()
        return self._streams[key]


def guard_stream(
    chunks: Iterable[Any], *, on_cut: OnCut = "raise", **settings: Unpack[WatchSettings]
) -> Iterator[Any]:
    """Pass on the chunks of a stream up to where it is to be cut.

    There it is closed, and `LoopDetected` is raised, or, with ``on_cut="end"``, a last chunk says
    that the model was stopped at its length.
    """
    guard = _start(on_cut, settings)

    def pass_on() -> Iterator[Any]:
        for chunk in chunks:
            if cut := guard.judge(chunk):
                with suppress(Exception):
                    getattr(chunks, "close", lambda: None)()
                yield from _end(chunk, cut, on_cut)
                return
            yield chunk

    return pass_on()


def guard_async_stream(
    chunks: AsyncIterable[Any], *, on_cut: OnCut = "raise", **settings: Unpack[WatchSettings]
) -> AsyncIterator[Any]:
    """`guard_stream` for async code."""
    return pass_on_async(chunks, _start(on_cut, settings), on_cut)


async def pass_on_async(
    chunks: AsyncIterable[Any], guard: StreamGuard, on_cut: OnCut
) -> AsyncIterator[Any]:
    """Pass on the chunks that a guard lets pass."""
    async for chunk in chunks:
        if cut := guard.judge(chunk):
            close = getattr(chunks, "aclose", None) or getattr(chunks, "close", None)
            with suppress(Exception):
                if close is not None:
                    await close()
            for last in _end(chunk, cut, on_cut):
                yield last
            return
        yield chunk


def _start(on_cut: OnCut, settings: WatchSettings) -> StreamGuard:
    if on_cut not in ("raise", "end"):
        raise InputError(f"on_cut is {on_cut!r}; expected 'raise' or 'end'")
    return StreamGuard(Watch(**settings))


def _end(chunk: Any, cut: StreamCut, on_cut: OnCut) -> Iterator[Any]:
    """Raise, or make the last chunk of a stream from the one at which it is cut."""
    if on_cut == "raise":
        raise_cut(cut)
    choices = get(chunk, "choices")
    if not choices:
        return
    last = deepcopy(chunk)
    for choice in get(last, "choices"):
        delta = get(choice, "delta")
        for name in ("content", "reasoning_content", "reasoning", "tool_calls"):
            if get(delta, name) is not None:
                _put(delta, name, None)
        _put(choice, "finish_reason", "length")
    yield last


def raise_cut(cut: StreamCut) -> None:
    """Raise `LoopDetected` for a stream."""
    raise LoopDetected(f"Loop guard: cut. {cut.what}.", cut.loop)


def read_deltas(chunk: Any) -> Iterator[tuple[Any, str | None, bool]]:
    """Read the pieces of text of a chunk: of which stream, the text, and whether it is reasoning.

    A stream that begins again has None as its text.
    """
    choices = get(chunk, "choices")
    if choices:
        for choice in choices:
            delta, key = get(choice, "delta"), get(choice, "index")
            thought = get(delta, "reasoning_content") or get(delta, "reasoning")
            for text, reasoning in ((thought, True), (get(delta, "content"), False)):
                if isinstance(text, str) and text:
                    yield key, text, reasoning
        return
    key = get(chunk, "parent_tool_use_id")  # of a subagent of Claude
    event = get(chunk, "event")
    event = chunk if event is None or isinstance(event, str) else event
    if get(event, "type") in ("message_start", "response.created"):
        yield key, None, False
    for part in (event, get(event, "delta")):
        name, reasoning = EVENTS.get(get(part, "type") or "", ("", False))
        text = get(part, name) if name else None
        if isinstance(text, str) and text:
            yield key, text, reasoning


def get(holder: Any, name: str) -> Any:
    """A field of a mapping or an object; None for what has none."""
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _put(holder: Any, name: str, value: Any) -> None:
    if isinstance(holder, dict):
        holder[name] = value
    else:
        setattr(holder, name, value)
