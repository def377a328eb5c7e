"""A `before_model_callback` for agents of Google's Agent Development Kit."""

from typing import Any, Unpack

from chimeralab.core.extras import explain_missing_extra
from chimeralab.integrations.watch import Message, Watch, WatchSettings

with explain_missing_extra():
    from google.adk.models import LlmResponse
    from google.genai.types import Content, Part


class LoopGuard:
    """Adds a nudge to the request; on stop, replies with the reason in place of the model."""

    def __init__(self, **settings: Unpack[WatchSettings]) -> None:
        self._watch = Watch(**settings)

    def __call__(self, callback_context: Any, llm_request: Any) -> Any:
        contents = llm_request.contents
        found = self._watch.follow(
            _to_message(part, c.role) for c in contents for part in c.parts or ()
        )
        if found is None:
            return None
        content = Content(role="user", parts=[Part(text=found.message)])
        if found.action == "stop":
            return LlmResponse(content=content.model_copy(update={"role": "model"}))
        contents.append(content)
        return None


def _to_message(part: Any, role: str) -> Message:
    if call := part.function_call:
        return {
            "role": "assistant",
            "tool_calls": [{"function": {"name": call.name, "arguments": call.args}}],
        }
    if answer := part.function_response:
        return {"role": "tool", "content": str(answer.response)}
    return {"role": role, "content": part.text or ""}
