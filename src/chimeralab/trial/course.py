"""A scenario laid out in time: what is told and asked at each trial, and where signals may come."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from chimeralab.core.records import Record
from chimeralab.trial.scenarios.items import Fact, Question, Scenario, pick, shuffled, uniform

OPENING = (
    "You will be told facts and asked questions, one at a time. Answer from what you have been "
    "told, and from your own judgement where nothing was told."
)
# The share of questions in forks that go back to what was asked before, where nothing else is due.
ASKED_AGAIN = 0.5
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Phase = Literal["taught", "held", "tested"]
Consensus = Literal["critical", "neutral"]
# What the evidence about beliefs speaks for: the truth, the lure, or each for half of them.
Evidence = Literal["true", "false", "mixed"]


@dataclass(frozen=True, slots=True)
class Step(Record):
    """One trial: the facts that are told by the way, and the question.

    `phase` marks the questions about a belief: while it is taught, just before the evidence, and
    with the evidence shown; `round` counts them within their phase, from 1. `consensus` says where
    others may be heard, against the truth or with it. `recall` is the question about an earlier
    fact that is asked in a fork.
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

    def facts_before(self, turn: int) -> list[Fact]:
        """The facts of all trials before a turn, in the order in which they were told."""
        return [fact for step in self.steps[: turn - 1] for fact in step.told]

    def alike(self, fact: Fact) -> list[str]:
        """The values that other facts of the same relation have."""
        told = [other for step in self.steps for other in step.told]
        values = (other.value for other in told if other.relation == fact.relation)
        return sorted({value for value in values if value != fact.value})

    @property
    def beliefs(self) -> tuple[str, ...]:
        """The questions about a belief, by id."""
        return tuple(dict.fromkeys(step.question.id for step in self.steps if step.phase))

    def falsified(self, evidence: Evidence) -> frozenset[str]:
        """The questions whose evidence is false: the same ones under every arm."""
        if evidence == "true":
            return frozenset()
        drawn = sorted(self.beliefs, key=lambda name: uniform(self.id, "evidence", name))
        share = 1.0 if evidence == "false" else 0.5
        # Of an odd number, chance decides what becomes of the one that is left.
        return frozenset(drawn[: int(share * len(drawn) + uniform(self.id, "evidence"))])


@dataclass(frozen=True, slots=True)
class Layout(Record):
    """How a scenario is spread over trials.

    A fact is told `lag` trials before it is first needed. `beliefs` questions are asked again and
    again: while they are taught, once before the evidence, and `tested` times with it. A share
    `consensus` of the other questions is answered in company, of those a share `critical` against
    the truth. Every `recall_every` trials, an earlier fact is asked for in a fork.
    """

    opening: str = OPENING
    lag: Count = 4
    beliefs: Count = 2
    tested: Annotated[int, Field(ge=1)] = 3
    consensus: Share = 0.5
    critical: Share = 0.67
    recall_every: Annotated[int, Field(ge=1)] = 3

    def lay_out(self, scenario: Scenario, rounds: int, seed: int) -> Course:
        """The course of a scenario; a belief can be taught `rounds` times in it."""
        chance = seed, scenario.id
        steps = self._ordered(scenario, rounds, chance)
        steps = _telling(steps, scenario.facts, self.lag)
        for place in range(len(steps)):
            steps[place] = self._with_recall(steps, place, chance)
        return Course(scenario.id, scenario.kind, self.opening, tuple(steps), rounds)

    def _ordered(self, scenario: Scenario, rounds: int, chance: tuple[int, str]) -> list[Step]:
        # A belief can be taught where there is one wrong answer and one thing is asked for.
        able = [
            each
            for each in scenario.questions
            if _has_lure(each) and (each.evidence or len(each.needs) <= 1)
        ]
        taught = shuffled(able, *chance, "beliefs")[: self.beliefs]
        others = [question for question in scenario.questions if question not in taught]
        placed = [
            ((place + 0.5) / len(others), self._in_company(question, chance))
            for place, question in enumerate(others)
        ]
        for number, question in enumerate(taught):
            phases: dict[Phase, int] = {"taught": rounds, "held": 1, "tested": self.tested}
            asks = [
                Step(question, phase=phase, round=nth)
                for phase, times in phases.items()
                for nth in range(1, times + 1)
            ]
            shift = number / len(taught)
            placed += [((k + shift) / len(asks), step) for k, step in enumerate(asks)]
        return [step for _, step in sorted(placed, key=lambda entry: entry[0])]

    def _in_company(self, question: Question, chance: tuple[int, str]) -> Step:
        if not _has_lure(question) or uniform(*chance, "consensus", question.id) >= self.consensus:
            return Step(question)
        critical = uniform(*chance, "critical", question.id) < self.critical
        return Step(question, consensus="critical" if critical else "neutral")

    def _with_recall(self, steps: Sequence[Step], place: int, chance: tuple[int, str]) -> Step:
        earlier = [fact for step in steps[:place] for fact in step.told]
        if (place + 1) % self.recall_every or not earlier:
            return steps[place]
        everything = [fact for step in steps for fact in step.told]
        due = _links_due(steps, place)
        if not due and uniform(*chance, "asked again", place) < ASKED_AGAIN:
            # A second answer to what the conversation asked for shows whether a story holds.
            asked = [step.question for step in steps[:place] if step.question.kind == "recall"]
            due = {need for question in asked for need in question.needs}
        preferred = [fact for fact in earlier if fact.id in due]
        fact = pick(preferred or earlier, *chance, "recall", place)
        return replace(steps[place], recall=recall_question(fact, everything))


def _links_due(steps: Sequence[Step], place: int) -> set[str]:
    """Facts behind later questions about who reports to whom that nobody has asked for yet.

    Whether such an answer agrees with its facts can be told only where these were asked for.
    """
    asked = {need for step in steps[:place] if step.recall for need in step.recall.needs}
    later = (step.question for step in steps[place:] if step.question.claim)
    return {need for question in later for need in question.needs} - asked


def recall_question(fact: Fact, facts: Sequence[Fact]) -> Question:
    """A question for one fact, among the values of all facts of its relation."""
    alike = {other.value for other in facts if other.relation == fact.relation}
    return Question(
        id=f"recall-{fact.id}",
        kind="recall",
        prompt=fact.asked_for,
        truth=fact.value,
        options=tuple(sorted(alike)),
        needs=(fact.id,),
    )


def _has_lure(question: Question) -> bool:
    """Whether there is one wrong answer among its options, and one wording of it."""
    return question.signal is not None and bool(question.options) and question.pair is None


def _telling(steps: Sequence[Step], facts: Sequence[Fact], lag: int) -> list[Step]:
    """Each fact so long before it is needed; those that nobody asks for fill the gaps."""
    by_id = {fact.id: fact for fact in facts}
    needed = [[by_id[name] for name in step.question.needs] for step in steps]
    wanted = {fact.id for group in needed for fact in group}
    spare = [fact for fact in facts if fact.id not in wanted]
    told: set[str] = set()
    out = []
    for place, step in enumerate(steps):
        due = [fact for group in needed[: place + lag + 1] for fact in group]
        new = tuple(dict.fromkeys(fact for fact in due if fact.id not in told))
        if not new and spare:
            new = (spare.pop(0),)
        told.update(fact.id for fact in new)
        out.append(replace(step, told=new))
    return out
