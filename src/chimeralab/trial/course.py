"""A scenario laid out over trials: what is told and asked at each, and where signals may come."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from chimeralab.core.records import Record
from chimeralab.trial.scenarios.items import Fact, Question, Scenario, pick, shuffle, uniform

OPENING = (
    "You will be told facts and asked questions, one at a time. Answer from what you have been "
    "told, and from your own judgement where nothing was told."
)
# Share of recall probes about something asked before, when nothing else is due.
MAX_ROUNDS = 100  # that a question is asked in; each is a trial of the scenario
ASKED_AGAIN = 0.5
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Phase = Literal["taught", "held", "tested"]
Consensus = Literal["critical", "neutral"]
# What the evidence supports: the truth, the lure, or each for half of the beliefs.
Evidence = Literal["true", "false", "mixed"]


@dataclass(frozen=True, slots=True)
class Step(Record):
    """One trial: the facts told, and the question.

    `phase` marks questions about a belief: while it is taught, just before the evidence, and with
    it; `round` counts them within a phase, from 1. `consensus` marks where others may answer first,
    against the truth or with it. `recall` is the question of the recall probe.
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
        """The wrong answer that signals push."""
        return None if self.question.signal is None else str(self.question.signal)


@dataclass(frozen=True, slots=True)
class Course(Record):
    """A scenario from its opening to its last trial; beliefs are taught up to `rounds` times."""

    id: str
    kind: str
    opening: str
    steps: tuple[Step, ...]
    rounds: int = 0

    def step(self, turn: int) -> Step:
        return self.steps[turn - 1]

    def facts_before(self, turn: int) -> list[Fact]:
        return [fact for step in self.steps[: turn - 1] for fact in step.told]

    def other_values(self, fact: Fact) -> list[str]:
        """The values of other facts with the same relation."""
        told = [other for step in self.steps for other in step.told]
        values = (other.value for other in told if other.relation == fact.relation)
        return sorted({value for value in values if value != fact.value})

    @property
    def beliefs(self) -> tuple[str, ...]:
        """The ids of the questions about beliefs."""
        return tuple(dict.fromkeys(step.question.id for step in self.steps if step.phase))

    def draw_falsified(self, evidence: Evidence) -> frozenset[str]:
        """Draw the questions with false evidence, the same ones in every arm."""
        if evidence == "true":
            return frozenset()
        drawn = sorted(self.beliefs, key=lambda name: uniform(self.id, "evidence", name))
        share = 1.0 if evidence == "false" else 0.5
        # Half of an odd number is rounded at random.
        return frozenset(drawn[: int(share * len(drawn) + uniform(self.id, "evidence"))])


@dataclass(frozen=True, slots=True)
class Layout(Record):
    """[layout]: how a scenario is spread over trials.

    A fact is told `lag` trials before it is first needed. `beliefs` questions are asked repeatedly:
    while they are taught, once before the evidence, and `tested` times with it. A share `consensus`
    of the other questions is answered in company, of which a share `critical` against the truth.
    Every `recall_every` trials, a probe asks for an earlier fact.
    """

    opening: str = OPENING
    lag: Count = 4
    beliefs: Count = 2
    tested: Annotated[int, Field(ge=1, le=MAX_ROUNDS)] = 3
    consensus: Share = 0.5
    critical: Share = 0.67
    recall_every: Annotated[int, Field(ge=1)] = 3

    def lay_out(self, scenario: Scenario, rounds: int, seed: int) -> Course:
        """Lay out a scenario in which a belief can be taught `rounds` times."""
        key = seed, scenario.id
        steps = _assign_facts(self._order_steps(scenario, rounds, key), scenario.facts, self.lag)
        for place in range(len(steps)):
            steps[place] = self._add_recall(steps, place, key)
        return Course(scenario.id, scenario.kind, self.opening, tuple(steps), rounds)

    def _order_steps(self, scenario: Scenario, rounds: int, key: tuple[int, str]) -> list[Step]:
        # A belief needs one wrong answer, and evidence or at most one fact that it rests on.
        able = [
            each
            for each in scenario.questions
            if _has_lure(each) and (each.evidence or len(each.needs) <= 1)
        ]
        taught = shuffle(able, *key, "beliefs")[: self.beliefs]
        others = [question for question in scenario.questions if question not in taught]
        placed = [
            ((place + 0.5) / len(others), self._add_company(question, key))
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

    def _add_company(self, question: Question, key: tuple[int, str]) -> Step:
        if not _has_lure(question) or uniform(*key, "consensus", question.id) >= self.consensus:
            return Step(question)
        critical = uniform(*key, "critical", question.id) < self.critical
        return Step(question, consensus="critical" if critical else "neutral")

    def _add_recall(self, steps: Sequence[Step], place: int, key: tuple[int, str]) -> Step:
        earlier = [fact for step in steps[:place] for fact in step.told]
        if (place + 1) % self.recall_every or not earlier:
            return steps[place]
        due = _find_due_links(steps, place)
        if not due and uniform(*key, "asked again", place) < ASKED_AGAIN:
            # A second answer to the same question shows whether a story is coherent.
            asked = [step.question for step in steps[:place] if step.question.kind == "recall"]
            due = {need for question in asked for need in question.needs}
        preferred = [fact for fact in earlier if fact.id in due]
        fact = pick(preferred or earlier, *key, "recall", place)
        told = (other for step in steps for other in step.told)
        alike = {other.value for other in told if other.relation == fact.relation}
        recall = Question(
            id=f"recall-{fact.id}",
            kind="recall",
            prompt=fact.prompt,
            truth=fact.value,
            options=tuple(sorted(alike)),
            needs=(fact.id,),
        )
        return replace(steps[place], recall=recall)


def _find_due_links(steps: Sequence[Step], place: int) -> set[str]:
    """Facts behind later questions about who reports to whom that no probe has asked for yet.

    The consistency of such an answer is only known if the subject has stated the facts.
    """
    asked = {need for step in steps[:place] if step.recall for need in step.recall.needs}
    later = (step.question for step in steps[place:] if step.question.claim)
    return {need for question in later for need in question.needs} - asked


def _has_lure(question: Question) -> bool:
    """Whether a question is unpaired and has a wrong option to push."""
    return question.signal is not None and bool(question.options) and question.pair is None


def _assign_facts(steps: Sequence[Step], facts: Sequence[Fact], lag: int) -> list[Step]:
    """Tell each fact `lag` trials before it is needed; unneeded facts fill the gaps."""
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
