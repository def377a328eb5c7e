"""The hook that nudges a looping sample, and stops it when that does not help.

Inspect loads the hooks of every installed package. A package that somebody has installed to look at
logs must not change what their evaluations measure, so this one acts only where it is asked for: in
tasks with `guarded()`, or in all of them with CHIMERA_GUARD=on.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from inspect_ai.hooks import BeforeModelGenerate, Hooks, SampleAttemptEnd, TaskStart, hooks
from inspect_ai.log import transcript
from inspect_ai.model import ChatMessage, ChatMessageUser
from inspect_ai.util import LimitExceededError

from chimeralab.detection.guard import PATIENCE_AFTER_NUDGE, Tools
from chimeralab.integrations.watch import SWITCH, Watch
from chimeralab.readers.evaluations import OURS

ON = {"1", "on", "yes", "true"}
SETTINGS = "chimeralab_guard"
# A task whose outcome is the loop itself is never cut short.
UNGUARDED = {SETTINGS: {"enabled": False}}
NUDGE = {OURS: {"speaker": "guard"}}
READ = {"role", "content", "tool_calls", "tool_call_id", "function", "error"}


def guarded(tools: Tools | None = None, enabled: bool = True) -> dict[str, Any]:
    """The metadata of a task whose samples are guarded: `Task(..., metadata=guarded())`.

    `tools` are settings per tool, as a `Guard` takes them. `enabled=False` keeps the task out where
    all others are guarded.
    """
    Watch(tools=tools)  # refuses what can't be used
    LoopGuard.asked_for = True
    return {SETTINGS: {"tools": dict(tools or {}), "enabled": enabled}}


@hooks(name="guard", description="nudges samples that loop, then stops them")
class LoopGuard(Hooks):
    """Looks at the conversation before each call of a model."""

    asked_for = False

    def __init__(self) -> None:
        self._default = Watch()
        self._watches: dict[str, Watch] = {}  # of tasks with settings
        # By sample and conversation, what a model was told, and after how many messages: its next
        # calls show it there again.
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
        # The conversations of a sample, such as those of its sub-agents, differ in how they begin.
        opening = hash(tuple((each.role, each.text) for each in data.input[:2]))
        nudges = talks.setdefault(opening, [])
        data.input[:] = _with_nudges(data.input, nudges)
        found = watch.follow(_plain_messages(data.input), data.sample_id)
        if found is None:
            return
        transcript().info(
            {"action": found.action, "message": found.message, "loop": found.loop.as_dict()},
            source=OURS,
        )
        if found.action == "stop":
            raise LimitExceededError(
                "custom",
                value=PATIENCE_AFTER_NUDGE,
                limit=PATIENCE_AFTER_NUDGE,
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
    """The messages with every nudge where it was given: the agent's own history has none.

    A retried call has them already; in a history that was cut, nobody knows where they belong.
    """
    own = [message for message in messages if message.metadata != NUDGE]
    places = {after - n: nudge for n, (after, nudge) in enumerate(nudges)}
    for place in range(len(own) + 1):
        if place in places:
            yield places[place]
        yield from own[place : place + 1]


def _plain_messages(messages: list[ChatMessage]) -> Iterator[dict[str, Any]]:
    """The messages as a guard reads them; a prompt that the solver repeats is nobody's words.

    Thoughts are left out: Inspect takes them out later on.
    """
    heard: set[str] = set()
    for message in messages:
        fields = message.model_dump(include=READ, exclude_none=True)
        if isinstance(fields["content"], list):
            parts = [part for part in fields["content"] if part["type"] != "reasoning"]
            only_text = all(part["type"] == "text" for part in parts)
            fields["content"] = message.text if only_text else parts
        if message.role == "user":
            fields |= {"role": "system"} if message.text in heard else {}
            heard.add(message.text)
        yield fields
