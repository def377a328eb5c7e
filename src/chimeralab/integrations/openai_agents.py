"""Run hooks for the OpenAI Agents SDK."""

from collections.abc import Iterable, Mapping
from itertools import groupby
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
    from agents import RunHooks


class LoopGuard(LoopAllowance, RunHooks):
    """Adds a nudge to the model's input, and ends the run by raising `LoopDetected`."""

    def __init__(self, **settings: Unpack[WatchSettings]) -> None:
        self._watch = Watch(**without_refusals(settings))

    async def on_llm_start(
        self, context: Any, agent: Any, system_prompt: str | None, input_items: list[Any]
    ) -> None:
        found = self._watch.follow_safely(_messages(input_items))
        if found:
            found.raise_stop()
            input_items.append({"role": "user", "content": found.message})


CALL, OUTPUT = "_call", "_call_output"


def _messages(items: Iterable[Any]) -> Iterable[Message]:
    """Convert input items to messages, tool calls and their results.

    The calls of one response are one message. A result names its call by the `call_id` (`call_…`),
    while the `id` (`fc_…`) is that of the item.
    """
    spoken = (item for item in items if item.get("type") != "reasoning")
    for is_call, group in groupby(spoken, lambda item: str(item.get("type")).endswith(CALL)):
        if is_call:
            calls = list(group)
            yield {"role": "assistant", "content": None, "tool_calls": list(map(_call, calls))}
            # Tools that the model's server runs have their results in the call.
            done = [call for call in calls if call.get("output") is not None]
            yield from (_result(call) for call in done)
            continue
        for item in group:
            if str(item.get("type")).endswith(OUTPUT):
                yield _result(item)
            elif "role" in item:
                yield {"role": item["role"], "content": item.get("content")}


def _call(item: Mapping[str, Any]) -> dict[str, Any]:
    given = ("arguments", "input", "action", "operation", "code", "queries")
    arguments = next((item[key] for key in given if item.get(key) is not None), None)
    function = {"name": item.get("name") or item["type"], "arguments": arguments}
    return {"id": _name(item), "function": function}


def _result(item: Mapping[str, Any]) -> Message:
    part = {"type": "tool_result", "tool_use_id": _name(item), "content": item.get("output")}
    return {"role": "tool", "content": [part]}


def _name(item: Mapping[str, Any]) -> str:
    return str(item.get("call_id") or item.get("id"))
