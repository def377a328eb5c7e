"""A middleware for agents of AG2."""

from collections.abc import Iterable
from typing import Any, Unpack

from chimeralab.core.extras import explain_missing_extra
from chimeralab.integrations.watch import LoopAllowance, Message, Watch, WatchSettings

with explain_missing_extra():
    from ag2.events import (
        HumanMessage,
        ModelRequest,
        ModelResponse,
        TextInput,
        ToolErrorEvent,
        ToolResultEvent,
    )
    from ag2.middleware import BaseMiddleware


USAGE = ("prompt_tokens", "completion_tokens")


class LoopGuard(LoopAllowance):
    """Adds a nudge to the model's input, and ends the run by raising `LoopDetected`.

    With `on_stop="refuse"`, the reason is the result of a repeated call instead.
    """

    def __init__(self, **settings: Unpack[WatchSettings]) -> None:
        self._watch = Watch(**settings)

    def __call__(self, event: Any, context: Any) -> BaseMiddleware:
        """Make the middleware of a turn, as AG2 asks for it."""
        return _GuardedTurn(event, context, self._watch)


class _GuardedTurn(BaseMiddleware):
    def __init__(self, event: Any, context: Any, watch: Watch) -> None:
        super().__init__(event, context)
        self._watch, self._messages = watch, list[Message]()

    async def on_llm_call(self, call_next: Any, events: Any, context: Any) -> Any:
        with self._watch.contain_errors():
            self._messages = _to_messages(events)
        found = self._watch.follow_safely(self._messages, str(context.stream.id))
        if found:
            found.raise_stop()
            events = [*events, ModelRequest([TextInput(found.message)])]
        return await call_next(events, context)

    async def on_tool_execution(self, call_next: Any, event: Any, context: Any) -> Any:
        found = None
        with self._watch.contain_errors():
            asked, key = (event.name, event.arguments), str(context.stream.id)
            found = self._watch.check_call(self._messages, *asked, key)
        if found:
            return ToolResultEvent.from_call(event, found.message)
        return await call_next(event, context)


def _to_messages(events: Iterable[Any]) -> list[Message]:
    """Convert the events of a history; those that repeat others are left out."""
    messages = list[Message]()
    for event in events:
        if isinstance(event, ModelRequest):
            messages.append({"role": "user", "content": _text(event.parts)})
        elif isinstance(event, HumanMessage):
            messages.append({"role": "user", "content": event.content})
        elif isinstance(event, ModelResponse):
            used = {name: getattr(event.usage, name) for name in USAGE}
            usage = {name: count for name, count in used.items() if count is not None}
            messages.append({**event.to_api(), **({"usage": usage} if usage else {})})
        elif isinstance(event, ToolErrorEvent):
            text = f"{type(event.error).__name__}: {event.error}"
            messages.append(
                {"role": "tool", "tool_call_id": event.parent_id, "content": text, "error": True}
            )
        elif isinstance(event, ToolResultEvent):
            text = _text(event.result.parts)
            messages.append({"role": "tool", "tool_call_id": event.parent_id, "content": text})
    return messages


def _text(parts: Iterable[Any]) -> str:
    """The text of the parts of a request or result; of an image, what it is."""
    return "\n".join(str(getattr(part, "content", part)) for part in parts)
