"""Watches one conversation, steps in as its plan says, and shapes the next question accordingly."""

from collections.abc import Sequence

from chimeralab.runner.countermeasures import Ask, Countermeasure, Trim, due
from chimeralab.runner.journal import Event, Intervened
from chimeralab.runner.room import Room
from chimeralab.runner.talk import Said, Talk


class Lookout:
    """The state of one watched conversation; `collapsed` is the verdict on its last turn.

    What was done to a conversation is read from the journal and not worked out again: a detector
    that is off by a hair after a restart must not rewrite the past.
    """

    def __init__(self, talk: Talk, room: Room) -> None:
        self._talk = talk
        self._room = room
        self._guard = room.watch() if room.watch else None
        self.collapsed: bool | None = None

    async def catch_up(self, said: Sequence[Said]) -> None:
        """Take in the turns that an earlier run has stored."""
        for turn in said[:-1]:
            await self._judge(turn)
        if said:
            await self.see(said[-1])

    async def see(self, turn: Said) -> None:
        """Take in a turn, and step in when it is time to."""
        await self._judge(turn)
        countermeasure = self._talk.countermeasure
        if self.collapsed and countermeasure and due(countermeasure, turn.turn, self._stepped_in()):
            self._step_in(countermeasure, turn.turn)

    def shape(self, turn: int) -> Ask:
        """How the next turn is asked, after all that was done to this conversation."""
        slot = self._talk.slot(turn)
        speaker = self._talk.speakers[slot]
        ask = Ask(turn, slot, len(self._talk.speakers), speaker.model, speaker.sampling)
        # A script has its own say in what is shown, and its many events change nothing here.
        events = () if self._talk.script else self._room.journal.events(self._talk.id)
        for event in events:
            ask = self._after(event, ask)
        return ask

    def _after(self, event: Event, ask: Ask) -> Ask:
        if event.kind == "overflow_trim":
            return Trim(event.detail["keep"]).change(ask, event.turn - 1)
        if event.kind == "intervention" and self._talk.countermeasure:
            return self._talk.countermeasure.change(ask, event.turn)
        return ask

    async def _judge(self, turn: Said) -> None:
        if self._guard is not None:
            self.collapsed = await self._room.judge(self._guard, turn.text)

    def _step_in(self, countermeasure: Countermeasure, detected: int) -> None:
        use = type(countermeasure).__name__.lower()
        event = Event(detected, "intervention", {"use": use, **countermeasure.as_dict()})
        self._room.journal.add_event(self._talk.id, event)
        self._room.publish(Intervened(self._talk.id, event))

    def _stepped_in(self) -> list[int]:
        events = self._room.journal.events(self._talk.id)
        return [event.turn for event in events if event.kind == "intervention"]
