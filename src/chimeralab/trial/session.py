"""One session of a trial: ask the questions and probes of a script, and score each trial."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from chimeralab.runner.converse import Ending, ask_turn
from chimeralab.runner.interventions import Ask
from chimeralab.runner.journal import Answer, Event, Intervention, RunContext, ignore_news
from chimeralab.runner.talk import Talk, TurnRecord
from chimeralab.trial.course import Course
from chimeralab.trial.hooks import HookEvent, Observations, at_answer, at_probe, at_question
from chimeralab.trial.probes import (
    Confidence,
    EarlierFact,
    ManipulationCheck,
    PrivateAnswer,
    StatedBelief,
)
from chimeralab.trial.replies import read_choice, read_share
from chimeralab.trial.scenarios.items import Question
from chimeralab.trial.scene import Injection, Scene
from chimeralab.trial.scoring import Scorer
from chimeralab.trial.script import Replies, Script
from chimeralab.trial.trials import Statement, TrialRow

T = TypeVar("T")


class Examination:
    """Runs one session: asks questions and probes, records manipulations, scores trials.

    The journal knows what is already done.
    """

    def __init__(self, talk: Talk, script: Script, context: RunContext) -> None:
        self._talk = talk
        self._script = script
        self._context = context
        self._journal = context.journal
        self._scorer = Scorer()
        self._observed = context.publish is not ignore_news
        # An earlier run may have stopped between an event and its question.
        earlier = context.journal.events(talk.id)
        self._recorded = {(event.turn, event.kind) for event in earlier}

    async def ask(
        self, ask: Ask, history: Sequence[TurnRecord]
    ) -> tuple[TurnRecord, Answer] | Ending:
        """Ask the probes that come before an answer, then the question."""
        script, turn = self._script, ask.turn
        if ending := await self._ask_probes(script.probes_before(turn), ask, history):
            return ending
        ask = replace(ask, probed=self._journal.probe_replies(self._talk.id, turn))
        scene = script.scene(turn, [each.text for each in history], ask.probed)
        for event in list_events(scene):
            if (event.turn, event.kind) not in self._recorded:
                self._journal.add_event(self._talk.id, event)
                self._context.publish(Intervention(self._talk.id, event))
        if self._observed:
            self._publish(turn, at_question(question_row(script, turn, scene)))
        stored = await ask_turn(self._talk, ask, history, self._context)
        if self._observed and not isinstance(stored, Ending):
            self._publish(turn, at_answer(self._score(turn, [*history, stored[0]])))
        return stored

    async def look_back(self, ask: Ask, history: Sequence[TurnRecord]) -> Ending | None:
        """Ask the probes that follow the last answer, and store its row; None when done."""
        if not history or self._journal.is_scored(self._talk.id, len(history)):
            return None
        if ending := await self._ask_probes(self._script.probes_at(ask.turn), ask, history):
            return ending
        row = self._score(ask.turn, history)
        self._journal.add_trial(self._talk.id, row)
        await self._journal.flush()
        self._context.publish(row)
        return None

    async def _ask_probes(
        self, probes: Iterable[str], ask: Ask, history: Sequence[TurnRecord]
    ) -> Ending | None:
        for name in probes:
            probed = self._journal.probe_replies(self._talk.id, ask.turn)
            if name in probed:
                continue
            fork = replace(ask, probe=name, probed=probed)
            result = await ask_turn(self._talk, fork, history, self._context)
            if isinstance(result, Ending):
                return result
            probe = self._script.probes[name]
            if self._observed and len(history) >= ask.turn and probe.observed:
                self._publish(ask.turn, at_probe(probe, self._score(ask.turn, history)))
        return None

    def _score(self, turn: int, history: Sequence[TurnRecord]) -> TrialRow:
        """The row of a turn, as far as it is known."""
        probed = self._journal.probe_replies(self._talk.id, turn)
        row = score(self._script, turn, [each.text for each in history], probed, self._scorer)
        return replace(
            row,
            session=self._talk.id,
            arm=self._talk.condition,
            scenario=self._talk.prompt.id,
            repeat=self._talk.repeat,
            dose=self._script.arm.dose,
        )

    def _publish(self, turn: int, observations: Observations) -> None:
        for point, detail in observations:
            self._context.publish(HookEvent(point, self._talk.id, turn, detail))


def list_events(scene: Scene) -> list[Event]:
    """One event for each stressor or countermeasure that acted on a scene.

    They depend on the scene alone, so that verification can derive them again.
    """
    by_name: dict[str, list[dict[str, Any]]] = {}
    for injection in scene.injections:
        detail = injection.as_dict()
        by_name.setdefault(detail.pop("stressor"), []).append(detail)
    turn = scene.present.turn
    return [Event(turn, name, {"injections": details}) for name, details in by_name.items()]


def compute_lag(course: Course, turn: int, question: Question) -> int | None:
    """How many turns ago the oldest fact that a question needs was told."""
    lags = (
        turn - number
        for number, step in enumerate(course.steps[:turn], start=1)
        for fact in step.told
        if fact.id in question.needs
    )
    return max(lags, default=None)


class _Reader:
    """Reads the replies of one turn, and counts those that can't be read."""

    def __init__(self, course: Course, turn: int, scorer: Scorer) -> None:
        self._told = {fact.id: fact for fact in course.facts_before(turn + 1)}
        self._course = course
        self._turn = turn
        self._scorer = scorer
        self.asked = self.unread = 0

    def read_choice(self, text: str | None, question: Question) -> str | None:
        if text is None:
            return None
        free = text.strip() or None
        return self._count(read_choice(text, question.options) if question.options else free)

    def read_share(self, text: str | None) -> float | None:
        return None if text is None else self._count(read_share(text))

    def is_right(self, response: str | None, question: Question) -> bool | None:
        if response is None:
            return None
        if question.options:
            return response == str(question.truth)
        rivals = self._other_values(question) - {str(question.truth)}
        accepted = question.accepts or question.truth
        return self._scorer.score(response, accepted, question.prompt, sorted(rivals)).same

    def find_statement(self, response: str | None, question: Question) -> Statement | None:
        """What an answer states about a fact, if the question asks for exactly one."""
        facts = [self._told[name] for name in question.needs if name in self._told]
        if response is None or len(facts) != 1 or question.truth != facts[0].value:
            return None
        return Statement(facts[0].subject, facts[0].relation, response)

    def read_recall(self, text: str | None, question: Question | None) -> dict[str, Any]:
        """The columns of the recall probe; none if it was not asked."""
        if text is None or question is None:
            return {}
        response = self.read_choice(text, question)
        right = self.is_right(response, question)
        # The value of another fact comes from memory; a value never told is a guess.
        confused = response != str(question.truth) and response in self._other_values(question)
        return {
            "recall_lag": compute_lag(self._course, self._turn, question),
            "recall_options": len(question.options),
            "recall_response": response,
            "recall_truth": str(question.truth),
            "recall_correct": right,
            "intrusion": None if right is None else confused,
            "recall_states": self.find_statement(response, question),
        }

    def _other_values(self, question: Question) -> set[str]:
        return {fact.value for fact in self._told.values() if fact.id not in question.needs}

    def _count(self, found: T) -> T:
        self.asked += 1
        self.unread += found is None
        return found


def is_gone(course: Course, turn: int, injections: Iterable[Injection]) -> bool:
    """Whether the fact of the recall probe can't be read any more, neither where it was told nor
    in anything that depends on it, such as an answer."""
    recall, injections = course.step(turn).recall, tuple(injections)
    removed = {each.turn for each in injections if each.action == "removed"}
    altered = {each.text for each in injections if each.action == "altered"}
    said = [each.text for each in injections if each.action == "said"]
    for number, step in enumerate(course.steps[:turn], start=1):
        asked = [fact for fact in step.told if recall and fact.id in recall.needs]
        for fact in asked:
            if number not in removed and fact.text not in altered:
                return False
            if any(fact.text in text for text in said):
                return False
        # Evidence and the voices of others may remain of a removed episode.
        left = number not in removed or step.phase == "tested" or step.consensus is not None
        if left and recall and {*step.question.needs} & {*recall.needs}:
            return False
    return recall is not None


def question_row(script: Script, turn: int, scene: Scene) -> TrialRow:
    """The row of a turn before its answer: the question and the manipulations.

    The session is filled in later.
    """
    step = script.course.step(turn)
    question, in_company = step.question, step.consensus is not None
    stressors = () if script.arm.sham else script.arm.stressors.values()
    pushed = any(each.pushes(script.course, turn) for each in stressors)
    shown_false = step.phase == "tested" and script.is_falsified(question)
    bias = bool(question.bias) or pushed or shown_false
    evidence = None
    if step.phase is not None and script.evidence_mode != "true":
        evidence = "false" if script.is_falsified(question) else "true"
    return TrialRow(
        session="",
        trial=turn,
        item=question.id,
        kind=question.kind,
        options=len(question.options),
        truth=step.truth,
        weight=question.weight,
        novel=question.novel,
        pair=f"with-others-{question.id}" if in_company else question.pair,
        frame="biased" if in_company else question.frame,
        phase=step.phase,
        round=step.round,
        consensus=step.consensus,
        needs=question.needs,
        lag=compute_lag(script.course, turn, question),
        claim=question.claim,
        evidence=evidence,
        signal=step.lure if bias or step.consensus or step.phase else None,
        bias=bias,
        disturbed=any(each.action != "said" for each in scene.injections),
        stands=script.stands(turn),
    )


def score(
    script: Script, turn: int, answers: Sequence[str], probed: Replies, scorer: Scorer
) -> TrialRow:
    """The row of a turn, from its answer and the replies to its probes so far."""
    step, reader = script.course.step(turn), _Reader(script.course, turn, scorer)
    question = step.question
    scene = script.scene(turn, answers, probed)
    response = reader.read_choice(answers[turn - 1], question)
    named = reader.read_choice(probed.get(ManipulationCheck.name), question)
    recall = reader.read_recall(probed.get(EarlierFact.name), step.recall)
    row = replace(
        question_row(script, turn, scene),
        response=response,
        correct=reader.is_right(response, question),
        states=reader.find_statement(response, question),
        alone=reader.read_choice(probed.get(PrivateAnswer.name), question),
        confidence=reader.read_share(probed.get(Confidence.name)),
        belief=reader.read_share(probed.get(StatedBelief.name)),
        noticed=None if named is None else named == step.lure,
        gone=is_gone(script.course, turn, scene.injections) if recall else None,
        **recall,
    )
    return replace(row, asked=reader.asked, unread=reader.unread)
