"""Subjects whose behaviour is known beforehand, for tests: they loop, escape or fail on order."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.models.phantom_lines import line, template
from chimeralab.models.seam import FailureKind, ModelFailure, Reply, Request

Count = Annotated[int, Field(ge=1)]
Turns = tuple[Count, ...]

REFUSAL = "I would rather not say."


@dataclass(frozen=True, slots=True)
class PhantomSettings(Record):
    """`use = "phantom"`. What it says hangs on `seed`, the conversation and the turn, nothing else.

    It says something new at every turn until `onset`, then does what `course` says. `relapse`
    goes round from `onset` to `escape`, is free, and goes round again from `back` on. Turns in
    `fail_turns` fail `fail_times` times before they are answered.
    """

    course: Literal["novel", "verbatim", "alternation", "template", "relapse", "script"] = "novel"
    onset: Count = 10
    escape: Count = 20
    back: Count = 30
    script: tuple[str, ...] = ()
    seed: int = 0
    latency: Annotated[float, Field(ge=0)] = 0.0
    fail_turns: Turns = ()
    fail_times: Count = 1
    fail_kind: FailureKind = "server"
    refuse_turns: Turns = ()

    def __post_init__(self) -> None:
        if self.course == "script" and not self.script:
            raise InputError("course = 'script' needs a script of one line or more")
        if self.course == "relapse" and not self.onset < self.escape < self.back:
            raise InputError(
                f"course = 'relapse' needs onset < escape < back; these are {self.onset}, "
                f"{self.escape} and {self.back}"
            )

    def open(self) -> "PhantomModel":
        return PhantomModel(self)


class PhantomModel:
    """Says what its settings say, and counts how often it has failed."""

    def __init__(self, settings: PhantomSettings) -> None:
        self._settings = settings
        self._failed: Counter[tuple[str, int]] = Counter()

    async def reply(self, request: Request) -> Reply:
        await asyncio.sleep(self._settings.latency)
        self._fail_on_order(request)
        refuses = request.turn in self._settings.refuse_turns
        course = COURSES[self._settings.course]
        text = REFUSAL if refuses else course(self._settings, request)
        return Reply(
            text=text,
            finish="refusal" if refuses else "stop",
            prompt_tokens=sum(len(message.content.split()) for message in request.messages),
            completion_tokens=len(text.split()),
            reported_model=f"phantom-{self._settings.course}",
        )

    def _fail_on_order(self, request: Request) -> None:
        place = request.conversation, request.turn
        ordered = request.turn in self._settings.fail_turns
        if ordered and self._failed[place] < self._settings.fail_times:
            self._failed[place] += 1
            raise ModelFailure(self._settings.fail_kind, f"fails at turn {request.turn} on order")


def _novel(settings: PhantomSettings, request: Request) -> str:
    return line(settings.seed, request.conversation, request.turn)


def _verbatim(settings: PhantomSettings, request: Request) -> str:
    return line(settings.seed, request.conversation, min(request.turn, settings.onset))


def _alternation(settings: PhantomSettings, request: Request) -> str:
    beyond = max(request.turn - settings.onset, 0)
    return line(settings.seed, request.conversation, request.turn - beyond + beyond % 2)


def _template(settings: PhantomSettings, request: Request) -> str:
    new = request.turn < settings.onset
    return _novel(settings, request) if new else template(request.turn)


def _relapse(settings: PhantomSettings, request: Request) -> str:
    number = min(request.turn, settings.back)
    if settings.onset <= request.turn < settings.escape:
        number = settings.onset
    return line(settings.seed, request.conversation, number)


def _script(settings: PhantomSettings, request: Request) -> str:
    return settings.script[(request.turn - 1) % len(settings.script)]


COURSES: dict[str, Callable[[PhantomSettings, Request], str]] = {
    "novel": _novel,
    "verbatim": _verbatim,
    "alternation": _alternation,
    "template": _template,
    "relapse": _relapse,
    "script": _script,
}
