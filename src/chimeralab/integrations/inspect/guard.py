"""The hook that nudges a looping sample, then stops it.

Inspect loads the hooks of every installed package, and a package installed to inspect logs must not
change evaluations. So this hook is opt-in: by `guarded()` in a task, or CHIMERA_GUARD=on for all.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from inspect_ai.hooks import BeforeModelGenerate, Hooks, SampleAttemptEnd, TaskStart, hooks
from inspect_ai.log import transcript
from inspect_ai.model import ChatMessage, ChatMessageUser
from inspect_ai.util import LimitExceededError

from chimeralab.detection.guard import TOLD
from chimeralab.detection.tools import Tools
from chimeralab.integrations.watch import SWITCH, Watch
from chimeralab.readers.evaluations import METADATA_KEY

ON = {"1", "on", "yes", "true"}
SETTINGS = "chimeralab_guard"
# A task that measures loops is never stopped.
UNGUARDED = {SETTINGS: {"enabled": False}}
NUDGE = {METADATA_KEY: {"speaker": "guard"}}
READ = {"role", "content", "tool_calls", "tool_call_id", "function", "error"}


def guarded(tools: Tools | None = None, enabled: bool = True) -> dict[str, Any]:
    """Make the metadata of a guarded task: `Task(..., metadata=guarded())`.

    `tools` are settings per tool, as in `Guard`. `enabled=False` exempts the task if all others are
    guarded.
    """
    Watch(tools=tools)  # rejects bad settings
    LoopGuard.asked_for = True
    return {SETTINGS: {"tools": dict(tools or {}), "enabled": enabled}}


@hooks(name="guard", description="nudges samples that loop, then stops them")
class LoopGuard(Hooks):
    """Checks the conversation before each model call."""

    asked_for = False

    def __init__(self) -> None:
        self._default = Watch()
        self._watches: dict[str, Watch] = {}  # by task, for those with settings
        # By sample and conversation, the nudges and after how many messages they were given, so
        # that later calls can show them again.
        self._nudges: dict[str, dict[int, list[tuple[int, ChatMessage]]]] = {}

    def enabled(self) -> bool:
        return self._default.enabled and (self.asked_for or _is_on())

    async def on_task_start(self, data: TaskStart) -> None:
        settings = (data.spec.metadata or {}).get(SETTINGS)
        if isinstance(settings, Mapping):
            self._watches[data.eval_id] = Watch(**settings)

    async def on_before_model_generate(self, data: BeforeModelGenerate) -> None:
        watch = self._watches.get(data.eval_id or "", self._default if _is_on() else None)
        if watch is None or data.sample_id is None:
            return
        talks = self._nudges.setdefault(data.sample_id, {})
        # The conversations of a sample, such as those of its subagents, have different openings.
        opening = hash(tuple((each.role, each.text) for each in data.input[:2]))
        nudges = talks.setdefault(opening, [])
        data.input[:] = _with_nudges(data.input, nudges)
        found = watch.follow_safely(_plain_messages(data.input), data.sample_id)
        if found is None:
            return
        transcript().info(
            {"action": found.action, "message": found.message, "loop": found.loop.as_dict()},
            source=METADATA_KEY,
        )
        if found.action == "stop":
            raise LimitExceededError(
                "custom",
                value=TOLD,
                limit=TOLD,
                message=found.message,
            )
        nudge = ChatMessageUser(content=found.message, metadata=NUDGE)
        nudges.append((len(data.input), nudge))
        data.input.append(nudge)

    async def on_sample_attempt_end(self, data: SampleAttemptEnd) -> None:
        self._nudges.pop(data.sample_id, None)


def _is_on() -> bool:
    return os.environ.get(SWITCH, "").strip().lower() in ON


def _with_nudges(
    messages: list[ChatMessage], nudges: list[tuple[int, ChatMessage]]
) -> Iterator[ChatMessage]:
    """Insert every nudge where it was given, since the agent's history has none of them.

    A retried call has them already. In a truncated history their places are unknown.
    """
    own = [message for message in messages if message.metadata != NUDGE]
    places = {after - n: nudge for n, (after, nudge) in enumerate(nudges)}
    for place in range(len(own) + 1):
        if place in places:
            yield places[place]
        yield from own[place : place + 1]


def _plain_messages(messages: list[ChatMessage]) -> Iterator[dict[str, Any]]:
    """Convert messages for the guard; a prompt that the solver repeats counts as system text.

    Reasoning is left out, since Inspect removes it from later calls.
    """
    seen: set[str] = set()
    for message in messages:
        fields = message.model_dump(include=READ, exclude_none=True)
        if isinstance(fields["content"], list):
            parts = [part for part in fields["content"] if part["type"] != "reasoning"]
            only_text = all(part["type"] == "text" for part in parts)
            fields["content"] = message.text if only_text else parts
        if message.role == "user":
            fields |= {"role": "system"} if message.text in seen else {}
            seen.add(message.text)
        yield fields
