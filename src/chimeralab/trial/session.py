"""One session of a trial: the subject is put through its script, and each trial is scored.

The row of a turn comes from what was asked, what was done, and what was replied.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from chimeralab.runner.converse import Ending, ask_turn
from chimeralab.runner.interventions import Ask
from chimeralab.runner.journal import Answer, Event, Intervention, RunContext, ignore_news
from chimeralab.runner.talk import Talk, TurnRecord
from chimeralab.trial.course import Course
from chimeralab.trial.hooks import HookEvent, Sightings, at_answer, at_probe, at_question
from chimeralab.trial.probes import Alone, Confidence, EarlierFact, ManipulationCheck, StatedBelief
from chimeralab.trial.replies import read_choice, read_share
from chimeralab.trial.scenarios.items import Question
from chimeralab.trial.scene import Injection, Scene
from chimeralab.trial.scoring import Scorer
from chimeralab.trial.script import Probed, Script
from chimeralab.trial.trials import Statement, TrialRow

T = TypeVar("T")


class Examination:
    """Puts one subject through its script: asks in forks, puts stress on record, scores trials.

    The journal knows what is done already.
    """

    def __init__(self, talk: Talk, script: Script, room: RunContext) -> None:
        self._talk = talk
        self._script = script
        self._room = room
        self._scorer = Scorer()
        self._watched = room.publish is not ignore_news
        # An earlier run may have broken off between an event and its question.
        earlier = room.journal.events(talk.id)
        self._recorded = {(event.turn, event.kind) for event in earlier}

    async def ask(self, ask: Ask, said: Sequence[TurnRecord]) -> tuple[TurnRecord, Answer] | Ending:
        """Ask for the next turn, after what has to be asked in a fork before it."""
        script = self._script
        for probe in script.probes_before(ask.turn):
            ended = await self._probe(probe, ask, said)
            if ended is not None:
                return ended
        ask = replace(ask, probed=self._room.journal.probe_replies(self._talk.id, ask.turn))
        scene = script.scene(ask.turn, [turn.text for turn in said], ask.probed)
        for event in list_events(scene):
            if (event.turn, event.kind) not in self._recorded:
                self._room.journal.add_event(self._talk.id, event)
                self._room.publish(Intervention(self._talk.id, event))
        if self._watched:
            self._tell(ask.turn, at_question(question_row(script, ask.turn, scene)))
        stored = await ask_turn(self._talk, ask, said, self._room)
        if self._watched and not isinstance(stored, Ending):
            row = self._row(ask.turn, [*said, stored[0]])
            self._tell(ask.turn, at_answer(row))
        return stored

    async def look_back(self, ask: Ask, said: Sequence[TurnRecord]) -> Ending | None:
        """Ask in forks what follows the last answer, and score it; None when all of it is done."""
        script = self._script
        if not said or self._room.journal.is_scored(self._talk.id, len(said)):
            return None
        for probe in script.probes_at(ask.turn):
            ended = await self._probe(probe, ask, said)
            if ended is not None:
                return ended
        row = self._row(ask.turn, said)
        self._room.journal.add_trial(self._talk.id, row)
        await self._room.journal.flush()
        self._room.publish(row)
        return None

    async def _probe(self, probe: str, ask: Ask, said: Sequence[TurnRecord]) -> Ending | None:
        probed = self._room.journal.probe_replies(self._talk.id, ask.turn)
        if probe in probed:
            return None
        fork = replace(ask, probe=probe, probed=probed)
        result = await ask_turn(self._talk, fork, said, self._room)
        if isinstance(result, Ending):
            return result
        script = self._script
        if self._watched and len(said) >= ask.turn and script.probes[probe].observed:
            row = self._row(ask.turn, said)
            self._tell(ask.turn, at_probe(script.probes[probe], row))
        return None

    def _row(self, turn: int, said: Sequence[TurnRecord]) -> TrialRow:
        """The row of a turn, as far as it is known."""
        probed = self._room.journal.probe_replies(self._talk.id, turn)
        row = score(self._script, turn, [each.text for each in said], probed, self._scorer)
        return replace(
            row,
            session=self._talk.id,
            arm=self._talk.condition,
            scenario=self._talk.prompt.id,
            repeat=self._talk.repeat,
            dose=self._script.arm.dose,
        )

    def _tell(self, turn: int, observed: Sightings) -> None:
        for point, detail in observed:
            self._room.publish(HookEvent(point, self._talk.id, turn, detail))


def list_events(scene: Scene) -> list[Event]:
    """What was done to a scene, one event for each stressor or countermeasure that did something.

    Verification makes them again: whatever is put on record depends on the scene alone.
    """
    done: dict[str, list[dict[str, Any]]] = {}
    for injection in scene.injections:
        detail = injection.as_dict()
        done.setdefault(detail.pop("stressor"), []).append(detail)
    turn = scene.present.turn
    return [Event(turn, name, {"injections": details}) for name, details in done.items()]


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
        self._told = {fact.id: fact for fact in course.facts_before(turn + 1)}
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


def question_row(script: Script, turn: int, scene: Scene) -> TrialRow:
    """The row of a turn, whose scene this is, before it is answered: what is asked, and what is
    done to the subject. Whoever knows the session enters it."""
    step = script.course.step(turn)
    question, together = step.question, step.consensus is not None
    stressors = () if script.arm.sham else script.arm.stressors.values()
    pushed = any(each.pushes(script.course, turn) for each in stressors)
    shown_false = step.phase == "tested" and script.is_falsified(question)
    bias = bool(question.bias) or pushed or shown_false
    # Where all of it is true, as it always was, nothing is said about the evidence.
    false = None if script.evidence_shown == "true" else script.is_falsified(question)
    evidence = None if step.phase is None or false is None else "false" if false else "true"
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
        evidence=evidence,
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
    scene = script.scene(turn, answers, probed)
    response = read.choice(answers[turn - 1], question)
    named = read.choice(probed.get(ManipulationCheck.name), question)
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
