"""Marking: the row of a turn, from what was asked, what was done, and what was replied."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from chimeralab.trial.course import Course
from chimeralab.trial.probes import Alone, Confidence, EarlierFact, Noticed, StatedBelief
from chimeralab.trial.replies import read_choice, read_share
from chimeralab.trial.scenarios.items import Question
from chimeralab.trial.scene import Injection, Scene
from chimeralab.trial.scoring import Scorer
from chimeralab.trial.script import Probed, Script
from chimeralab.trial.trials import Statement, TrialRow

T = TypeVar("T")


def lag_of(course: Course, turn: int, question: Question) -> int | None:
    """How long before a turn the oldest fact was told that a question needs."""
    told = (
        turn - number
        for number, step in enumerate(course.steps[:turn], start=1)
        for fact in step.told
        if fact.id in question.needs
    )
    return max(told, default=None)


class _Reader:
    """Reads the replies of one turn, and counts those that it can't read."""

    def __init__(self, course: Course, turn: int, scorer: Scorer) -> None:
        self._told = {fact.id: fact for fact in course.told_before(turn + 1)}
        self._course = course
        self._turn = turn
        self._scorer = scorer
        self.asked = self.unread = 0

    def choice(self, text: str | None, question: Question) -> str | None:
        if text is None:
            return None
        free = text.strip() or None
        return self._counted(read_choice(text, question.options) if question.options else free)

    def share(self, text: str | None) -> float | None:
        return None if text is None else self._counted(read_share(text))

    def right(self, response: str | None, question: Question) -> bool | None:
        if response is None:
            return None
        if question.options:
            return response == str(question.truth)
        told = (fact for fact in self._told.values() if fact.id not in question.needs)
        rivals = {fact.value for fact in told} - {str(question.truth)}
        accepted = question.accepts or question.truth
        return self._scorer.score(response, accepted, question.prompt, sorted(rivals)).same

    def stated(self, response: str | None, question: Question) -> Statement | None:
        """What an answer says of the one fact that it is about; None where it is about none or
        several."""
        facts = [self._told[name] for name in question.needs if name in self._told]
        if response is None or len(facts) != 1 or question.truth != facts[0].value:
            return None
        return Statement(facts[0].subject, facts[0].relation, response)

    def recalled(self, text: str | None, question: Question | None) -> dict[str, Any]:
        """The columns of a question about an earlier fact; none where it was not asked."""
        if text is None or question is None:
            return {}
        response = self.choice(text, question)
        right = self.right(response, question)
        # What was told of another fact comes from memory; what was never told is a guess.
        others = {fact.value for fact in self._told.values() if fact.id not in question.needs}
        of_another = response != str(question.truth) and response in others
        return {
            "recall_lag": lag_of(self._course, self._turn, question),
            "recall_options": len(question.options),
            "recall_response": response,
            "recall_truth": str(question.truth),
            "recall_correct": right,
            "intrusion": None if right is None else of_another,
            "recall_states": self.stated(response, question),
        }

    def _counted(self, found: T) -> T:
        self.asked += 1
        self.unread += found is None
        return found


def is_gone(course: Course, turn: int, done: Iterable[Injection]) -> bool:
    """Whether the fact that is asked for in a fork can't be read there any more, by what was done:
    neither where it was told nor in anything that rests on it, such as an answer."""
    recall, done = course.step(turn).recall, tuple(done)
    removed = {each.turn for each in done if each.action == "removed"}
    altered = {each.text for each in done if each.action == "altered"}
    said = [each.text for each in done if each.action == "said"]
    for number, step in enumerate(course.steps[:turn], start=1):
        asked = [fact for fact in step.told if recall and fact.id in recall.needs]
        for fact in asked:
            if number not in removed and fact.text not in altered:
                return False
            if any(fact.text in text for text in said):
                return False
        # Of an episode that is gone, evidence and the voices of others may be left.
        left = number not in removed or step.phase == "tested" or step.consensus is not None
        if left and recall and {*step.question.needs} & {*recall.needs}:
            return False
    return recall is not None


def _evidence(script: Script, turn: int) -> str | None:
    """Whether the evidence about a belief is true; None where all of it is, as it always was."""
    step = script.course.step(turn)
    if step.phase is None or script.evidence_shown == "true":
        return None
    return "false" if script.is_falsified(step.question) else "true"


def question_row(script: Script, turn: int, scene: Scene) -> TrialRow:
    """The row of a turn, whose scene this is, before it is answered: what is asked, and what is
    done to the subject. Whoever knows the session enters it."""
    step = script.course.step(turn)
    question, together = step.question, step.consensus is not None
    stressors = () if script.arm.sham else script.arm.stressors.values()
    pushed = any(each.pushes(script.course, turn) for each in stressors)
    shown_false = step.phase == "tested" and script.is_falsified(question)
    bias = bool(question.bias) or pushed or shown_false
    return TrialRow(
        session="",
        trial=turn,
        item=question.id,
        kind=question.kind,
        options=len(question.options),
        truth=step.truth,
        weight=question.weight,
        novel=question.novel,
        pair=f"with-others-{question.id}" if together else question.pair,
        frame="biased" if together else question.frame,
        phase=step.phase,
        round=step.round,
        consensus=step.consensus,
        needs=question.needs,
        lag=lag_of(script.course, turn, question),
        claim=question.claim,
        evidence=_evidence(script, turn),
        signal=step.lure if bias or step.consensus or step.phase else None,
        bias=bias,
        disturbed=any(each.action != "said" for each in scene.injections),
        stands=script.stands(turn),
    )


def score(
    script: Script, turn: int, answers: Sequence[str], probed: Probed, scorer: Scorer
) -> TrialRow:
    """The row of a turn, from its answer and the replies to its probes so far."""
    step, read = script.course.step(turn), _Reader(script.course, turn, scorer)
    question = step.question
    scene = script.asked(turn, answers, probed).scene
    response = read.choice(answers[turn - 1], question)
    named = read.choice(probed.get(Noticed.name), question)
    recalled = read.recalled(probed.get(EarlierFact.name), step.recall)
    row = replace(
        question_row(script, turn, scene),
        response=response,
        correct=read.right(response, question),
        states=read.stated(response, question),
        alone=read.choice(probed.get(Alone.name), question),
        confidence=read.share(probed.get(Confidence.name)),
        belief=read.share(probed.get(StatedBelief.name)),
        noticed=None if named is None else named == step.lure,
        gone=is_gone(script.course, turn, scene.injections) if recalled else None,
        **recalled,
    )
    return replace(row, asked=read.asked, unread=read.unread)
