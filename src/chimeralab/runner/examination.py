"""Puts one subject through its script: asks aside, steps in on record, and scores every trial."""

from collections.abc import Sequence
from dataclasses import replace

from chimeralab.runner.asking import Ended, Stored, ask_turn
from chimeralab.runner.countermeasures import Ask
from chimeralab.runner.journal import Intervened, TrialScored, events_of
from chimeralab.runner.room import Room
from chimeralab.runner.talk import Said, Talk
from chimeralab.sandbox.hooks import Observed, observations
from chimeralab.sandbox.probes import Probe
from chimeralab.sandbox.scored import SessionPlace
from chimeralab.sandbox.scoring import Scorer
from chimeralab.sandbox.script import Script, score


class Examination:
    """One session. Without a script it only asks; the journal knows what is done already."""

    def __init__(self, talk: Talk, room: Room) -> None:
        self._talk = talk
        self._room = room
        self._scorer = Scorer()
        # An earlier run may have broken off between an event and its question.
        earlier = room.journal.events(talk.id) if talk.script else ()
        self._recorded = {(event.turn, event.kind) for event in earlier}

    async def ask(self, ask: Ask, said: Sequence[Said]) -> Stored | Ended:
        """Ask for the next turn, after what has to be asked aside before it."""
        script = self._talk.script
        if script is None:
            return await ask_turn(self._talk, ask, said, self._room)
        if "alone" in script.probes_at(ask.turn):
            ended = await self._probe("alone", ask, said)
            if ended is not None:
                return ended
        ask = replace(ask, aside=self._room.journal.probed(self._talk.id, ask.turn))
        self._step_in(script, ask, said)
        return await ask_turn(self._talk, ask, said, self._room)

    async def look_back(self, ask: Ask, said: Sequence[Said]) -> Ended | None:
        """Ask aside what follows the last answer, and score it; None when all of it is done."""
        script = self._talk.script
        if script is None or not said or self._room.journal.is_scored(self._talk.id, len(said)):
            return None
        for probe in script.probes_at(ask.turn):
            ended = await self._probe(probe, ask, said)
            if ended is not None:
                return ended
        self._score(script, ask.turn, said)
        return None

    async def _probe(self, probe: Probe, ask: Ask, said: Sequence[Said]) -> Ended | None:
        aside = self._room.journal.probed(self._talk.id, ask.turn)
        if probe in aside:
            return None
        aside_ask = replace(ask, probe=probe, aside=aside)
        result = await ask_turn(self._talk, aside_ask, said, self._room)
        return result if isinstance(result, Ended) else None

    def _step_in(self, script: Script, ask: Ask, said: Sequence[Said]) -> None:
        """Put on record what the subject is about to be shown, once for whoever did it."""
        scene = script.scene(ask.turn, [turn.text for turn in said], ask.aside.get("alone"))
        for event in events_of(scene):
            if (event.turn, event.kind) not in self._recorded:
                self._room.journal.add_event(self._talk.id, event)
                self._room.publish(Intervened(self._talk.id, event))

    def _score(self, script: Script, turn: int, said: Sequence[Said]) -> None:
        talk, journal = self._talk, self._room.journal
        answers = [each.text for each in said]
        row = score(script, turn, answers, journal.probed(talk.id, turn), self._scorer)
        journal.add_trial(talk.id, row)
        for point, detail in observations(row):
            self._room.publish(Observed(point, talk.id, turn, detail))
        place = SessionPlace(talk.id, talk.condition, talk.prompt.id, talk.repeat, script.arm.dose)
        self._room.publish(TrialScored(place, row))
