"""Callbacks for agents of Google's Agent Development Kit."""

import json
from collections.abc import Iterator
from typing import Any, Unpack

from chimeralab.core.extras import explain_missing_extra
from chimeralab.integrations.watch import (
    MAX_CONVERSATIONS,
    LoopAllowance,
    Message,
    Watch,
    WatchSettings,
)

with explain_missing_extra():
    from google.adk.models import LlmResponse
    from google.genai.types import Content, Part


# How ADK begins what another agent said, which comes in the role of the user.
OTHER_AGENT = "For context:"


class LoopGuard(LoopAllowance):
    """Adds a nudge to the request; on stop, replies with the reason in place of the model.

    With `on_stop="refuse"`, `before_tool` replies with the reason in place of the tool.
    """

    def __init__(self, **settings: Unpack[WatchSettings]) -> None:
        self._watch = Watch(**settings)
        self._requests: dict[str, list[Message]] = {}

    def __call__(self, callback_context: Any, llm_request: Any) -> Any:
        contents, messages = llm_request.contents, list[Message]()
        with self._watch.contain_errors():
            messages = [message for each in contents for message in _to_messages(each)]
            self._keep(callback_context, messages)
        name, run = callback_context.agent_name, callback_context.invocation_id
        found = self._watch.follow_safely(messages, name, run)
        if found is None:
            return None
        content = Content(role="user", parts=[Part(text=found.message)])
        if found.action == "stop":
            return LlmResponse(content=content.model_copy(update={"role": "model"}))
        contents.append(content)
        return None

    def before_tool(self, tool: Any, args: dict[str, Any], tool_context: Any) -> Any:
        """The `before_tool_callback` for `on_stop="refuse"`."""
        found = None
        with self._watch.contain_errors():
            messages = self._requests.get(_name(tool_context), [])
            name = tool_context.agent_name
            found = self._watch.check_call(messages, tool.name, args, name)
        return found and {"error": found.message}

    def _keep(self, context: Any, messages: list[Message]) -> None:
        """Keep the last request of each agent in each run, for `before_tool`."""
        self._requests.pop(_name(context), None)
        self._requests[_name(context)] = messages
        if len(self._requests) > MAX_CONVERSATIONS:
            del self._requests[next(iter(self._requests))]


def _name(context: Any) -> str:
    return f"{context.invocation_id} {context.agent_name}"


def _to_messages(content: Any) -> Iterator[Message]:
    """Convert a content: its calls are one message, and so are its texts."""
    parts = content.parts or ()
    texts = [part.text for part in parts if part.text and not part.thought]
    calls = [part.function_call for part in parts if part.function_call]
    answers = [part.function_response for part in parts if part.function_response]
    for answer in answers:
        yield {"role": "tool", "tool_call_id": answer.id, "content": _result(answer.response)}
    if calls:
        listed = [{"id": c.id, "function": {"name": c.name, "arguments": c.args}} for c in calls]
        yield {"role": "assistant", "content": "\n".join(texts), "tool_calls": listed}
    elif not answers:
        other = texts and texts[0].startswith(OTHER_AGENT)
        yield {"role": "system" if other else content.role, "content": "\n".join(texts)}


def _result(response: Any) -> str:
    """A result as text: ADK wraps a text into an object."""
    values = list(response.values()) if isinstance(response, dict) else []
    return (
        values[0]
        if len(values) == 1 and isinstance(values[0], str)
        else json.dumps(response, default=str, sort_keys=True)
    )
