"""A capability for agents of Pydantic AI."""

from collections.abc import Iterable
from typing import Any, Unpack

from chimeralab.core.extras import extra_named
from chimeralab.integrations.watch import Message, Watch, WatchSettings

with extra_named():
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse


class LoopGuard(AbstractCapability[Any]):
    """Adds a nudge to the conversation, and ends the run by raising `LoopDetected`."""

    def __init__(self, **settings: Unpack[WatchSettings]) -> None:
        self._watch = Watch(**settings)

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        found = self._watch.follow(_messages(request_context.messages))
        if found:
            found.raise_stop()
            ctx.enqueue(found.message)
        return request_context


def _messages(history: Iterable[ModelMessage]) -> Iterable[Message]:
    for message in history:
        if isinstance(message, ModelResponse):
            calls = [
                {
                    "id": call.tool_call_id,
                    "function": {"name": call.tool_name, "arguments": call.args},
                }
                for call in message.tool_calls
            ]
            yield {"role": "assistant", "content": message.text, "tool_calls": calls}
        else:
            yield from (_part(part) for part in message.parts)


def _part(part: ModelRequestPart) -> Message:
    match part.part_kind:
        case "user-prompt":
            said = part.content if isinstance(part.content, str) else list(part.content)
            texts = [said] if isinstance(said, str) else [t for t in said if isinstance(t, str)]
            return {"role": "user", "content": "\n".join(texts)}
        case "tool-return" | "retry-prompt" if part.tool_name:
            text = (
                part.model_response_str()
                if part.part_kind == "tool-return"
                else part.model_response()
            )
            return {"role": "tool", "tool_call_id": part.tool_call_id, "content": text}
        case _:
            return {"role": "system", "content": ""}
