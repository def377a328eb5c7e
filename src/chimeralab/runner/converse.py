"""One conversation turn by turn, watched or examined as its plan says, and many side by side."""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence

from chimeralab.core.records import Turn, plain_value
from chimeralab.runner.asking import Ended, Stored, ask_turn
from chimeralab.runner.interventions import Ask, Trim, due, name_of
from chimeralab.runner.journal import Event, Intervened, Room, TalkEnded, TurnStored
from chimeralab.runner.talk import Said, Talk

# Conversations that start at one moment stay in step: all wait for the last question to be sent,
# and then for one another's answers. So they start apart, by what a turn takes of a core.
PACE = 0.005


async def converse(talk: Talk, room: Room) -> Ended:
    """Run one conversation, from wherever the journal says that it stands."""
    said = list(room.journal.said(talk.id))
    lookout = Lookout(talk, room)
    examination = talk.script.examine(talk, room) if talk.script else Asking(talk, room)
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


class Asking:
    """Asks for one turn after another, and nothing between them."""

    def __init__(self, talk: Talk, room: Room) -> None:
        self._talk = talk
        self._room = room

    async def ask(self, ask: Ask, said: Sequence[Said]) -> Stored | Ended:
        return await ask_turn(self._talk, ask, said, self._room)

    async def look_back(self, ask: Ask, said: Sequence[Said]) -> Ended | None:
        return None


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
