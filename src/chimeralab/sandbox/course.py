"""A scenario laid out in time: what is told and asked at each trial, and where signals may come."""

from dataclasses import dataclass
from typing import Literal

from chimeralab.core.records import Record
from chimeralab.sandbox.scenarios.items import Fact, Question

Phase = Literal["taught", "held", "tested"]
Consensus = Literal["critical", "neutral"]


@dataclass(frozen=True, slots=True)
class Step(Record):
    """One trial: the facts that are told by the way, and the question.

    `phase` marks the questions about a belief: while it is taught, just before the evidence, and
    with the evidence shown; `round` counts them within their phase, from 1. `consensus` says where
    others may be heard, against the truth or with it. `recall` is the question about an earlier
    fact that is asked aside, in a fork.
    """

    question: Question
    told: tuple[Fact, ...] = ()
    phase: Phase | None = None
    round: int = 0
    consensus: Consensus | None = None
    recall: Question | None = None

    @property
    def truth(self) -> str:
        return str(self.question.truth)

    @property
    def lure(self) -> str | None:
        """The wrong answer that every signal pushes towards."""
        return None if self.question.signal is None else str(self.question.signal)


@dataclass(frozen=True, slots=True)
class Course(Record):
    """One scenario from its opening to its last trial; beliefs are taught up to `rounds` times."""

    id: str
    kind: str
    opening: str
    steps: tuple[Step, ...]
    rounds: int = 0

    def step(self, turn: int) -> Step:
        return self.steps[turn - 1]

    def told_before(self, turn: int) -> list[Fact]:
        """The facts of all trials before a turn, in the order in which they were told."""
        return [fact for step in self.steps[: turn - 1] for fact in step.told]

    def alike(self, fact: Fact) -> list[str]:
        """The values that other facts of the same relation have."""
        told = [other for step in self.steps for other in step.told]
        values = (other.value for other in told if other.relation == fact.relation)
        return sorted({value for value in values if value != fact.value})
