"""A step callback for agents of smolagents."""

from typing import Any, Unpack

from chimeralab.core.extras import explain_missing_extra
from chimeralab.integrations.watch import (
    LoopAllowance,
    Message,
    Watch,
    WatchSettings,
    find_signed,
    without_refusals,
)

with explain_missing_extra():
    from smolagents import ActionStep, MemoryStep


class LoopGuard(LoopAllowance):
    """Adds a nudge to the step's observations, and ends the run by raising `LoopDetected`."""

    def __init__(self, **settings: Unpack[WatchSettings]) -> None:
        self._watch = Watch(**without_refusals(settings))

    def __call__(self, memory_step: ActionStep, agent: Any) -> None:
        steps = [*agent.memory.steps, memory_step]
        found = self._watch.follow_safely(
            message for step in steps for message in _to_messages(step)
        )
        if found:
            found.raise_stop()
            memory_step.observations = f"{memory_step.observations or ''}\n{found.message}"


def _to_messages(step: MemoryStep) -> list[Message]:
    if not isinstance(step, ActionStep):
        task = getattr(step, "task", None)
        return [{"role": "user" if task else "system", "content": str(task or "")}]
    calls = [
        {"function": {"name": c.name, "arguments": c.arguments}} for c in step.tool_calls or ()
    ]
    result, nudges = str(step.error or step.observations or ""), list[Message]()
    for nudge in find_signed(result)[-1:]:
        if nudge.end() == len(result):  # ours comes last
            result = result[: nudge.start()].removesuffix("\n")
            nudges.append({"role": "user", "content": nudge[0]})
    output: Message = {"role": "tool", "content": result}
    said = step.model_output if isinstance(step.model_output, str) else None
    request: Message = {"role": "assistant", "content": said, "tool_calls": calls}
    # The calls of a step share its observations, which are the result of each.
    return [request, *[output] * len(calls), *nudges]
