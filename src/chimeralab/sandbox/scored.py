"""From replies to one row: what was answered, whether it was right, and what was asked aside."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from chimeralab.core.records import Record
from chimeralab.sandbox.course import Course, Step
from chimeralab.sandbox.probes import read_choice, read_share
from chimeralab.sandbox.scenarios.items import Question
from chimeralab.sandbox.scene import Scene
from chimeralab.sandbox.scoring import Scorer
from chimeralab.sandbox.script import Script
from chimeralab.sandbox.stressors import Conformity
from chimeralab.sandbox.trials import Trial


@dataclass(frozen=True, slots=True)
class Scored(Record):
    """One trial of a session, with everything that was measured at it.

    `signal` is the answer that a stressor would push here, `bias` whether one did. `alone` is the
    option chosen before the others were heard, `belief` the stated chance of the lure, `noticed`
    whether the subject can say which answer a false signal gave. `recall_*` belong to the question
    about an earlier fact, told `recall_lag` trials before; an `intrusion` answers it with what was
    told of another. `states` is what an answer says of one fact, as person|relation|value, and
    `claim` the two people of a question about who reports to whom. `lag` is how long ago the oldest
    fact was told that the answer needs. `asked` replies were wanted and `unread` could not be read.
    """

    trial: int
    item: str
    kind: str
    options: int
    response: str | None
    truth: str
    correct: bool | None
    confidence: float | None
    weight: float | None
    novel: bool | None
    bias: bool
    signal: str | None
    pair: str | None
    frame: str | None
    phase: str | None
    round: int
    consensus: str | None
    needs: str
    lag: int | None
    disturbed: bool
    alone: str | None
    belief: float | None
    noticed: bool | None
    recall_lag: int | None
    recall_options: int | None
    recall_response: str | None
    recall_truth: str | None
    recall_correct: bool | None
    intrusion: bool | None
    states: str | None
    recall_states: str | None
    claim: str | None
    asked: int
    unread: int


@dataclass(frozen=True, slots=True)
class Place(Record):
    """Where a scored trial belongs."""

    session: str
    arm: str
    scenario: str
    repeat: int
    dose: float | None = None


class Placed(NamedTuple):
    """A scored trial and where it belongs."""

    place: Place
    row: Scored


class _Reader:
    """Reads replies, and counts those that it can't read."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self.asked = self.unread = 0

    def choice(self, text: str | None, question: Question) -> str | None:
        if text is None:
            return None
        free = text.strip() or None
        found = read_choice(text, question.options) if question.options else free
        self._count(found)
        return found

    def share(self, text: str | None) -> float | None:
        if text is None:
            return None
        found = read_share(text)
        self._count(found)
        return found

    def right(self, response: str | None, question: Question) -> bool | None:
        if response is None:
            return None
        if question.options:
            return response == str(question.truth)
        return self._scorer.score(response, question.truth).same

    def _count(self, found: object) -> None:
        self.asked += 1
        self.unread += found is None


def score(
    script: Script, turn: int, answers: Sequence[str], probed: Mapping[str, str], scorer: Scorer
) -> Scored:
    """The row of a turn, from its answer and the replies to its probes."""
    step, read = script.course.step(turn), _Reader(scorer)
    question = step.question
    scene = script.scene(turn, answers, probed.get("alone"))
    response = read.choice(answers[turn - 1], question)
    bias = bool(question.bias) or is_pushed(script, turn, scene)
    together = step.consensus is not None
    return Scored(
        trial=turn,
        item=question.id,
        kind=question.kind,
        options=len(question.options),
        response=response,
        truth=step.truth,
        correct=read.right(response, question),
        confidence=read.share(probed.get("confidence")),
        weight=question.weight,
        novel=question.novel,
        bias=bias,
        signal=step.lure if bias or step.consensus or step.phase else None,
        pair=f"with-others-{question.id}" if together else question.pair,
        frame="biased" if together else question.frame,
        phase=step.phase,
        round=step.round,
        consensus=step.consensus,
        needs=" ".join(question.needs),
        lag=_lag(script.course, question, turn),
        disturbed=any(each.action != "said" for each in scene.injections),
        alone=read.choice(probed.get("alone"), question),
        belief=read.share(probed.get("belief")),
        noticed=_noticed(read.choice(probed.get("noticed"), question), step),
        **_recalled(script.course, step, turn, probed.get("recall"), read),
        states=_stated(script.course, question, turn, response),
        claim="|".join(question.claim) if question.claim else None,
        asked=read.asked,
        unread=read.unread,
    )


def is_pushed(script: Script, turn: int, scene: Scene) -> bool:
    """Whether a false signal about this very question has been given, now or before."""
    step = script.course.step(turn)
    if step.consensus and any(each.stressor == "conformity" for each in scene.injections):
        others: Conformity = script.arm.stressors["conformity"]
        return others.errs(step.consensus)
    taught = script.arm.stressors.get("infallibility")
    if taught is None or script.arm.sham or step.phase is None:
        return False
    first = script.course.rounds - taught.rounds + 1
    return bool(taught.rounds) and (step.phase != "taught" or step.round > first)


def _noticed(named: str | None, step: Step) -> bool | None:
    return None if named is None else named == step.lure


def _lag(course: Course, question: Question, turn: int) -> int | None:
    told = {
        fact.id: number
        for number, step in enumerate(course.steps[:turn], start=1)
        for fact in step.told
    }
    lags = [turn - told[name] for name in question.needs if name in told]
    return max(lags, default=None)


def _recalled(
    course: Course, step: Step, turn: int, reply: str | None, read: _Reader
) -> dict[str, Any]:
    question = step.recall if reply is not None else None
    if question is None:
        names = ("lag", "options", "response", "truth", "correct", "states")
        return {**{f"recall_{name}": None for name in names}, "intrusion": None}
    response = read.choice(reply, question)
    right = read.right(response, question)
    return {
        "recall_lag": _lag(course, question, turn),
        "recall_options": len(question.options),
        "recall_response": response,
        "recall_truth": str(question.truth),
        "recall_correct": right,
        "recall_states": _stated(course, question, turn, response),
        "intrusion": None if right is None else _is_of_another(course, question, turn, response),
    }


def _is_of_another(course: Course, question: Question, turn: int, response: str | None) -> bool:
    """Whether an answer is what was told of another fact; one that was never told is a guess."""
    others = [fact for fact in course.told_before(turn + 1) if fact.id not in question.needs]
    return response != str(question.truth) and any(fact.value == response for fact in others)


def _stated(course: Course, question: Question, turn: int, response: str | None) -> str | None:
    """What an answer says of the one fact that it is about; None where it is about none or more."""
    facts = [fact for fact in course.told_before(turn + 1) if fact.id in question.needs]
    about_one = len(facts) == 1 and question.truth == facts[0].value
    if response is None or not about_one:
        return None
    return f"{facts[0].subject}|{facts[0].relation}|{response}"


def trials_of(rows: Sequence[Scored], place: Place) -> Iterator[Trial]:
    """The rows as the metrics read them: where others were heard, the answer alone comes first."""
    common: dict[str, Any] = {
        "session": place.session,
        "arm": place.arm,
        "scenario": place.scenario,
        "repeat": str(place.repeat),
        "dose": place.dose,
    }
    for row in rows:
        about = {name: getattr(row, name) for name in ("truth", "pair")}
        if row.alone is not None:
            yield Trial(
                **common, **about, trial=row.trial - 0.5, response=row.alone, frame="neutral"
            )
        kept = ("correct", "confidence", "weight", "novel", "bias", "response", "frame", "signal")
        yield Trial(
            **common, **about, trial=row.trial, **{name: getattr(row, name) for name in kept}
        )
