"""One conversation turn by turn, watched or examined as its plan says, and many side by side."""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from chimeralab.core.records import Turn, plain_value
from chimeralab.runner.asking import Ended, Stored, ask_turn
from chimeralab.runner.interventions import Ask, Trim, due, name_of
from chimeralab.runner.journal import (
    Event,
    Intervened,
    TalkEnded,
    TrialScored,
    TurnStored,
    events_of,
)
from chimeralab.runner.room import Room, nobody
from chimeralab.runner.talk import Said, Talk
from chimeralab.trial.hooks import Observation, Observed, at_answer, at_probe, at_question
from chimeralab.trial.marking import posed_at, pressed_at, score
from chimeralab.trial.scored import Scored, SessionPlace
from chimeralab.trial.scoring import Scorer
from chimeralab.trial.script import Script

# Conversations that start at one moment stay in step: all wait for the last question to be sent,
# and then for one another's answers. So they start apart, by what a turn takes of a core.
PACE = 0.005


async def converse(talk: Talk, room: Room) -> Ended:
    """Run one conversation, from wherever the journal says that it stands."""
    said = list(room.journal.said(talk.id))
    lookout, examination = Lookout(talk, room), Examination(talk, room)
    await lookout.catch_up(said)
    ended = await examination.look_back(lookout.shape(len(said)), said)
    while ended is None and (ended := _ended(talk, said, lookout, room)) is None:
        result = await examination.ask(lookout.shape(len(said) + 1), said)
        if isinstance(result, Ended):
            ended = result
            break
        said.append(result.said)
        await lookout.see(result.said)
        room.publish(_news(talk, result, lookout))
        ended = await examination.look_back(lookout.shape(len(said)), said)
    if ended.outcome != "paused":
        room.journal.finish(talk.id, ended.outcome, ended.reason)
        await room.journal.settled()
    for model in {speaker.model for speaker in talk.speakers}:
        if leave := getattr(room.models[model], "leave", None):
            await leave(talk.id)
    room.publish(TalkEnded(talk.id, ended.outcome, len(said), ended.reason))
    return ended


async def converse_all(talks: Iterable[Talk], room: Room, concurrency: int) -> None:
    """Run many conversations, at most `concurrency` of them at once, in the order given."""
    waiting = deque(talks)

    async def run_next() -> None:
        while waiting and room.brake.reason is None:
            await converse(waiting.popleft(), room)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(waiting))):
                group.create_task(run_next())
                await asyncio.sleep(PACE)
    except BaseExceptionGroup as several:
        # One thing went wrong first, and the others were cancelled for it.
        raise several.exceptions[0] from None


class Lookout:
    """Watches one conversation, intervenes as its plan says, and shapes the next question.

    `collapsed` is the verdict on the last turn. What was done to a conversation is read from the
    journal and not worked out again: a detector that is off by a hair after a restart must not
    rewrite the past.
    """

    def __init__(self, talk: Talk, room: Room) -> None:
        self._talk = talk
        self._room = room
        self._judge = room.watch() if room.watch else None
        self.collapsed: bool | None = None

    async def catch_up(self, said: Sequence[Said]) -> None:
        """Take in the turns that an earlier run has stored."""
        for turn in said[:-1]:
            await self._judge_turn(turn)
        if said:
            await self.see(said[-1])

    async def see(self, turn: Said) -> None:
        """Take in a turn, and intervene when it is time to."""
        await self._judge_turn(turn)
        countermeasure = self._talk.countermeasure
        if not (self.collapsed and countermeasure):
            return
        events = self._room.journal.events(self._talk.id)
        earlier = [event.turn for event in events if event.kind == "intervention"]
        if due(countermeasure, turn.turn, earlier):
            detail = {"use": name_of(countermeasure), **plain_value(countermeasure)}
            event = Event(turn.turn, "intervention", detail)
            self._room.journal.add_event(self._talk.id, event)
            self._room.publish(Intervened(self._talk.id, event))

    def shape(self, turn: int) -> Ask:
        """How the next turn is asked, after all that was done to this conversation."""
        slot = self._talk.slot(turn)
        speaker = self._talk.speakers[slot]
        ask = Ask(turn, slot, len(self._talk.speakers), speaker.model, speaker.sampling)
        # A script has its own say in what is shown, and its many events change nothing here.
        events = () if self._talk.script else self._room.journal.events(self._talk.id)
        for event in events:
            if event.kind == "overflow_trim":
                ask = Trim(event.detail["keep"]).change(ask, event.turn - 1)
            elif event.kind == "intervention" and self._talk.countermeasure:
                ask = self._talk.countermeasure.change(ask, event.turn)
        return ask

    async def _judge_turn(self, turn: Said) -> None:
        if self._judge is not None:
            self.collapsed = await self._room.judge(
                self._judge, Turn(turn.text, turn.speaker, model=turn.model)
            )


class Examination:
    """Puts one subject through its script: asks in forks, puts stress on record, scores trials.

    Without a script it only asks; the journal knows what is done already.
    """

    def __init__(self, talk: Talk, room: Room) -> None:
        self._talk = talk
        self._room = room
        self._scorer = Scorer()
        self._watched = room.publish is not nobody
        # An earlier run may have broken off between an event and its question.
        earlier = room.journal.events(talk.id) if talk.script else ()
        self._recorded = {(event.turn, event.kind) for event in earlier}

    async def ask(self, ask: Ask, said: Sequence[Said]) -> Stored | Ended:
        """Ask for the next turn, after what has to be asked in a fork before it."""
        script = self._talk.script
        if script is None:
            return await ask_turn(self._talk, ask, said, self._room)
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
            pressed = pressed_at(script, ask.turn, shown.scene)
            self._tell(ask.turn, at_question(posed_at(script, ask.turn), pressed))
        stored = await ask_turn(self._talk, ask, said, self._room)
        if self._watched and isinstance(stored, Stored):
            row = self._row(script, ask.turn, [*said, stored.said])
            self._tell(ask.turn, at_answer(row))
        return stored

    async def look_back(self, ask: Ask, said: Sequence[Said]) -> Ended | None:
        """Ask in forks what follows the last answer, and score it; None when all of it is done."""
        script = self._talk.script
        if script is None or not said or self._room.journal.is_scored(self._talk.id, len(said)):
            return None
        for probe in script.probes_at(ask.turn):
            ended = await self._probe(probe, ask, said)
            if ended is not None:
                return ended
        await self._score(script, ask.turn, said)
        return None

    async def _probe(self, probe: str, ask: Ask, said: Sequence[Said]) -> Ended | None:
        probed = self._room.journal.probed(self._talk.id, ask.turn)
        if probe in probed:
            return None
        fork = replace(ask, probe=probe, probed=probed)
        result = await ask_turn(self._talk, fork, said, self._room)
        if isinstance(result, Ended):
            return result
        script = self._talk.script
        if self._watched and script and len(said) >= ask.turn and script.probes[probe].observed:
            row = self._row(script, ask.turn, said)
            self._tell(ask.turn, at_probe(script.probes[probe], row))
        return None

    def _row(self, script: Script, turn: int, said: Sequence[Said]) -> Scored:
        """The row of a turn, as far as it is known."""
        probed = self._room.journal.probed(self._talk.id, turn)
        return score(script, turn, [each.text for each in said], probed, self._scorer)

    def _tell(self, turn: int, observed: Iterable[Observation]) -> None:
        for point, detail in observed:
            self._room.publish(Observed(point, self._talk.id, turn, detail))

    async def _score(self, script: Script, turn: int, said: Sequence[Said]) -> None:
        talk, journal = self._talk, self._room.journal
        row = self._row(script, turn, said)
        journal.add_trial(talk.id, row)
        await journal.settled()
        place = SessionPlace(talk.id, talk.condition, talk.prompt.id, talk.repeat, script.arm.dose)
        self._room.publish(TrialScored(place, row))


def _ended(talk: Talk, said: Sequence[Said], lookout: Lookout, room: Room) -> Ended | None:
    if talk.rules.stop_early and lookout.collapsed:
        return Ended("collapsed", f"stop_early: the detector fired at turn {len(said)}")
    if len(said) >= talk.rules.turns:
        return Ended("completed")
    if room.brake.reason is not None:
        return Ended("paused", room.brake.reason)
    return None


def _news(talk: Talk, stored: Stored, lookout: Lookout) -> TurnStored:
    said, answer = stored
    tokens = answer.reply.completion_tokens if answer.reply else None
    return TurnStored(
        talk.id, said.turn, said.model, tokens, answer.cost, answer.seconds, lookout.collapsed
    )
