"""One session of a trial: the subject is put through its script, and each trial is scored."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from chimeralab.runner.asking import Ended, Stored, ask_turn
from chimeralab.runner.interventions import Ask
from chimeralab.runner.journal import Event, Intervened
from chimeralab.runner.room import Room, nobody
from chimeralab.runner.talk import Said, Talk
from chimeralab.trial.hooks import Observation, Observed, at_answer, at_probe, at_question
from chimeralab.trial.marking import question_row, score
from chimeralab.trial.scene import Scene
from chimeralab.trial.scoring import Scorer
from chimeralab.trial.script import Script
from chimeralab.trial.trials import TrialRow


class TrialScored(NamedTuple):
    """A trial is over, its probes are answered, and its row is safe on disk."""

    row: TrialRow


class Examination:
    """Puts one subject through its script: asks in forks, puts stress on record, scores trials.

    The journal knows what is done already.
    """

    def __init__(self, talk: Talk, script: Script, room: Room) -> None:
        self._talk = talk
        self._script = script
        self._room = room
        self._scorer = Scorer()
        self._watched = room.publish is not nobody
        # An earlier run may have broken off between an event and its question.
        earlier = room.journal.events(talk.id)
        self._recorded = {(event.turn, event.kind) for event in earlier}

    async def ask(self, ask: Ask, said: Sequence[Said]) -> Stored | Ended:
        """Ask for the next turn, after what has to be asked in a fork before it."""
        script = self._script
        for probe in script.probes_before(ask.turn):
            ended = await self._probe(probe, ask, said)
            if ended is not None:
                return ended
        ask = replace(ask, probed=self._room.journal.probed(self._talk.id, ask.turn))
        shown = script.asked(ask.turn, [turn.text for turn in said], ask.probed)
        for event in events_of(shown.scene):
            if (event.turn, event.kind) not in self._recorded:
                self._room.journal.add_event(self._talk.id, event)
                self._room.publish(Intervened(self._talk.id, event))
        if self._watched:
            self._tell(ask.turn, at_question(question_row(script, ask.turn, shown.scene)))
        stored = await ask_turn(self._talk, ask, said, self._room)
        if self._watched and isinstance(stored, Stored):
            row = self._row(ask.turn, [*said, stored.said])
            self._tell(ask.turn, at_answer(row))
        return stored

    async def look_back(self, ask: Ask, said: Sequence[Said]) -> Ended | None:
        """Ask in forks what follows the last answer, and score it; None when all of it is done."""
        script = self._script
        if not said or self._room.journal.is_scored(self._talk.id, len(said)):
            return None
        for probe in script.probes_at(ask.turn):
            ended = await self._probe(probe, ask, said)
            if ended is not None:
                return ended
        await self._score(ask.turn, said)
        return None

    async def _probe(self, probe: str, ask: Ask, said: Sequence[Said]) -> Ended | None:
        probed = self._room.journal.probed(self._talk.id, ask.turn)
        if probe in probed:
            return None
        fork = replace(ask, probe=probe, probed=probed)
        result = await ask_turn(self._talk, fork, said, self._room)
        if isinstance(result, Ended):
            return result
        script = self._script
        if self._watched and len(said) >= ask.turn and script.probes[probe].observed:
            row = self._row(ask.turn, said)
            self._tell(ask.turn, at_probe(script.probes[probe], row))
        return None

    def _row(self, turn: int, said: Sequence[Said]) -> TrialRow:
        """The row of a turn, as far as it is known."""
        probed = self._room.journal.probed(self._talk.id, turn)
        row = score(self._script, turn, [each.text for each in said], probed, self._scorer)
        return replace(
            row,
            session=self._talk.id,
            arm=self._talk.condition,
            scenario=self._talk.prompt.id,
            repeat=self._talk.repeat,
            dose=self._script.arm.dose,
        )

    def _tell(self, turn: int, observed: Iterable[Observation]) -> None:
        for point, detail in observed:
            self._room.publish(Observed(point, self._talk.id, turn, detail))

    async def _score(self, turn: int, said: Sequence[Said]) -> None:
        row = self._row(turn, said)
        self._room.journal.add_trial(self._talk.id, row)
        await self._room.journal.settled()
        self._room.publish(TrialScored(row))


def events_of(scene: Scene) -> list[Event]:
    """What was done to a scene, one event for each stressor or countermeasure that did something.

    Verification makes them again: whatever is put on record depends on the scene alone.
    """
    done: dict[str, list[dict[str, Any]]] = {}
    for injection in scene.injections:
        detail = injection.as_dict()
        done.setdefault(detail.pop("stressor"), []).append(detail)
    turn = scene.present.turn
    return [Event(turn, name, {"injections": details}) for name, details in done.items()]
