"""Run hooks for the OpenAI Agents SDK."""

from collections.abc import Iterable
from typing import Any, Unpack

from chimeralab.core.extras import explain_missing_extra
from chimeralab.integrations.watch import Message, Watch, WatchSettings

with explain_missing_extra():
    from agents import RunHooks


class LoopGuard(RunHooks):
    """Adds a nudge to the model's input, and ends the run by raising `LoopDetected`."""

    def __init__(self, **settings: Unpack[WatchSettings]) -> None:
        self._watch = Watch(**settings)

    async def on_llm_start(
        self, context: Any, agent: Any, system_prompt: str | None, input_items: list[Any]
    ) -> None:
        found = self._watch.follow(_messages(input_items))
        if found:
            found.raise_stop()
            input_items.append({"role": "user", "content": found.message})


def _messages(items: Iterable[Any]) -> Iterable[Message]:
    """Convert input items to messages, function calls and function results."""
    for item in items:
        match item.get("type", "message"):
            case "message":
                yield {"role": item["role"], "content": item.get("content")}
            case "function_call":
                yield {"role": "assistant", "content": None, "tool_calls": [dict(item)]}
            case "function_call_output":
                output = {key: item.get(key) for key in ("type", "call_id", "output")}
                yield {"role": "tool", "content": [output]}
