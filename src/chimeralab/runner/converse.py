"""One conversation turn by turn, and many of them side by side."""

import asyncio
from collections.abc import Iterable, Sequence

from chimeralab.runner.asking import Ended, Stored
from chimeralab.runner.examination import Examination
from chimeralab.runner.journal import TalkEnded, TurnStored
from chimeralab.runner.lookout import Lookout
from chimeralab.runner.room import Room
from chimeralab.runner.talk import Said, Talk


async def converse(talk: Talk, room: Room) -> Ended:
    """Hold one conversation, from wherever the journal says that it stands."""
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
    _close(talk, ended, said, room)
    return ended


async def converse_all(talks: Iterable[Talk], room: Room, concurrency: int) -> None:
    """Hold many conversations, at most `concurrency` of them at once, in the order given."""
    waiting = iter(talks)

    async def hold_next() -> None:
        for talk in waiting:
            if room.brake.reason is not None:
                return
            await converse(talk, room)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(hold_next())
    except BaseExceptionGroup as several:
        # One thing went wrong first, and the others were cancelled for it.
        raise several.exceptions[0] from None


def _ended(talk: Talk, said: Sequence[Said], lookout: Lookout, room: Room) -> Ended | None:
    if talk.rules.stop_early and lookout.collapsed:
        return Ended("collapsed", f"stop_early: the detector fired at turn {len(said)}")
    if len(said) >= talk.rules.turns:
        return Ended("completed")
    if room.brake.reason is not None:
        return Ended("paused", room.brake.reason)
    return None


def _close(talk: Talk, ended: Ended, said: Sequence[Said], room: Room) -> None:
    if ended.outcome != "paused":
        room.journal.finish(talk.id, ended.outcome, ended.reason)
    room.publish(TalkEnded(talk.id, ended.outcome, len(said), ended.reason))


def _news(talk: Talk, stored: Stored, lookout: Lookout) -> TurnStored:
    said, answer = stored
    tokens = answer.reply.completion_tokens if answer.reply else None
    return TurnStored(
        talk.id, said.turn, said.model, tokens, answer.cost, answer.seconds, lookout.collapsed
    )
