"""A model context for agents of AutoGen."""

from typing import Any, Unpack

from chimeralab.core.extras import explain_missing_extra
from chimeralab.integrations.watch import (
    LoopAllowance,
    Message,
    Watch,
    WatchSettings,
    without_refusals,
)

with explain_missing_extra():
    from autogen_core.model_context import UnboundedChatCompletionContext
    from autogen_core.models import LLMMessage, UserMessage


class LoopGuard(LoopAllowance, UnboundedChatCompletionContext):
    """Adds a nudge to the model's context, and ends the run by raising `LoopDetected`.

    A termination condition could only stop the run, not nudge the model.
    """

    def __init__(self, **settings: Unpack[WatchSettings]) -> None:
        super().__init__()
        self._watch = Watch(**without_refusals(settings))

    async def get_messages(self) -> list[LLMMessage]:
        messages: list[LLMMessage] = await super().get_messages()
        found = self._watch.follow_safely(each for said in messages for each in _to_messages(said))
        if found:
            found.raise_stop()
            messages.append(UserMessage(content=found.message, source="guard"))
        return messages


def _to_messages(message: Any) -> list[Message]:
    role = {"UserMessage": "user", "AssistantMessage": "assistant"}.get(message.type, "system")
    if role == "user" and not message.source.startswith("user"):
        # The other agents of a team: they don't step in as a person does.
        return [{"role": "assistant", "name": message.source, "content": _text(message.content)}]
    if role == "user":
        return [{"role": role, "content": _text(message.content)}]
    if isinstance(message.content, str):
        return [{"role": role, "content": message.content}]
    if role == "assistant":
        return [{"role": role, "tool_calls": [vars(call) for call in message.content]}]
    results = message.content if message.type == "FunctionExecutionResultMessage" else []
    return [
        {"role": "tool", "tool_call_id": r.call_id, "content": r.content, "error": bool(r.is_error)}
        for r in results
    ]


def _text(content: Any) -> str:
    """The text of a message, which may have images, too."""
    parts = [content] if isinstance(content, str) else content
    return "\n".join(part for part in parts if isinstance(part, str))
