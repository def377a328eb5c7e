"""A capability for agents of Pydantic AI."""

from collections.abc import Iterable
from typing import Any, Unpack

from chimeralab.core.extras import explain_missing_extra
from chimeralab.integrations.watch import LoopAllowance, Message, Watch, WatchSettings

with explain_missing_extra():
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import SkipToolExecution
    from pydantic_ai.messages import ModelMessage, ModelResponse


class LoopGuard(LoopAllowance, AbstractCapability[Any]):
    """Adds a nudge to the conversation, and ends the run by raising `LoopDetected`.

    With `on_stop="refuse"`, the reason is the result of a repeated call instead.
    """

    def __init__(self, **settings: Unpack[WatchSettings]) -> None:
        self._watch = Watch(**settings)

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        found = self._watch.follow_safely(_messages(request_context.messages))
        if found:
            found.raise_stop()
            ctx.enqueue(found.message)
        return request_context

    async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        found = None
        with self._watch.contain_errors():
            found = self._watch.check_call(_messages(ctx.messages), call.tool_name, call.args)
        if found:
            raise SkipToolExecution(found.message)
        return args


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
            continue
        for part in message.parts:
            if part.part_kind == "user-prompt":
                said = [part.content] if isinstance(part.content, str) else part.content
                texts = [text for text in said if isinstance(text, str)]
                yield {"role": "user", "content": "\n".join(texts)}
            elif part.part_kind == "tool-return" and part.tool_name:
                text = part.model_response_str()
                yield {"role": "tool", "tool_call_id": part.tool_call_id, "content": text}
            elif part.part_kind == "retry-prompt" and part.tool_name:
                text = part.model_response()
                yield {"role": "tool", "tool_call_id": part.tool_call_id, "content": text}
            else:
                yield {"role": "system", "content": ""}
