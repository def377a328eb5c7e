"""Which turns of a conversation are judged: the assistant's in a chat, everyone's in self-play."""

from collections.abc import Callable
from dataclasses import dataclass

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record, Trajectory, Turn

CHAT = {"user", "assistant"}


@dataclass(frozen=True, slots=True)
class Series(Record):
    """The judged turns in order, with their places in the whole conversation counted from 1."""

    turns: tuple[Turn, ...]
    positions: tuple[int, ...]
    who: str


def judged(trajectory: Trajectory, speaker: str | None = None) -> Series:
    """The turns of `speaker` (a name, a role or "all"); by default the conversation decides.

    >>> talk = Trajectory("a", (Turn("Hi", "user"), Turn("Hello!", "assistant")))
    >>> judged(talk).who, judged(talk).positions
    ('assistant turns (chat)', (2,))
    """
    if speaker is None:
        return _by_default(trajectory.turns)
    if speaker == "all":
        return _chosen(trajectory.turns, "all turns (asked for)", _anyone)
    return _asked_for(trajectory, speaker)


def _by_default(turns: tuple[Turn, ...]) -> Series:
    # An agent that only calls tools still makes a chat, or its user would be judged instead.
    talking = [turn for turn in turns if turn.spoken or turn.role == "assistant"]
    # The role is the surer sign: in a chat, either side may go by a name of its own.
    for side in (_role, _speaker):
        if {side(turn) for turn in talking} == CHAT:
            return _chosen(turns, "assistant turns (chat)", _is("assistant", side))
    return _chosen(turns, "all turns (self-play)", _anyone)


def _asked_for(trajectory: Trajectory, speaker: str) -> Series:
    is_wanted = _is(speaker.casefold(), _speaker, _role)
    if not speaker or not any(is_wanted(turn) for turn in trajectory.turns):
        raise InputError(_nobody(trajectory, speaker))
    return _chosen(trajectory.turns, f"turns of {speaker} (asked for)", is_wanted)


def _nobody(trajectory: Trajectory, speaker: str) -> str:
    known = dict.fromkeys(t.speaker for t in trajectory.turns if t.spoken and t.speaker)
    place = f" ({trajectory.source})" if trajectory.source else ""
    return (
        f"no turn by {speaker!r} in conversation {trajectory.id!r}{place}; "
        f"its speakers: {', '.join(known) or 'none is named'}; or ask for all"
    )


def _chosen(turns: tuple[Turn, ...], who: str, is_wanted: Callable[[Turn], bool]) -> Series:
    places = [n for n, turn in enumerate(turns, 1) if turn.spoken and is_wanted(turn)]
    return Series(tuple(turns[n - 1] for n in places), tuple(places), who)


def _is(name: str, *sides: Callable[[Turn], str]) -> Callable[[Turn], bool]:
    return lambda turn: any(side(turn) == name for side in sides)


def _anyone(turn: Turn) -> bool:
    return True


def _role(turn: Turn) -> str:
    return (turn.role or "").casefold()


def _speaker(turn: Turn) -> str:
    return (turn.speaker or "").casefold()
