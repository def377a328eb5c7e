"""Which turns of a conversation are judged: the assistant's in a chat, everyone's in self-play."""

from collections.abc import Callable
from dataclasses import dataclass

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record, Trajectory, Turn, role_of, side_of

CHAT = {"user", "assistant"}


@dataclass(frozen=True, slots=True)
class JudgedTurns(Record):
    """The judged turns in order, with their places in the whole conversation counted from 1."""

    turns: tuple[Turn, ...]
    positions: tuple[int, ...]
    who: str


def judged(trajectory: Trajectory, speaker: str | None = None) -> JudgedTurns:
    """The turns of `speaker` (a name, a role or "all"); by default the conversation decides.

    >>> talk = Trajectory("a", (Turn("Hi", "user"), Turn("Hello!", "assistant")))
    >>> judged(talk).who, judged(talk).positions
    ('assistant turns (chat)', (2,))
    """
    turns = trajectory.turns
    if speaker == "all":
        return _chosen(turns, "all turns (asked for)", _anyone)
    if speaker is not None:
        is_wanted = _is(speaker.casefold(), _speaker, _role)
        if not speaker or not any(map(is_wanted, turns)):
            known = dict.fromkeys(t.speaker for t in turns if t.spoken and t.speaker)
            place = f" ({trajectory.source})" if trajectory.source else ""
            raise InputError(
                f"no turn by {speaker!r} in conversation {trajectory.id!r}{place}; "
                f"its speakers: {', '.join(known) or 'none is named'}; or ask for all"
            )
        return _chosen(turns, f"turns of {speaker} (asked for)", is_wanted)
    # An agent that only calls tools still makes a chat, or its user would be judged instead.
    talking = [turn for turn in turns if turn.spoken or side_of(turn) == "assistant"]
    # The role is the surer sign: in a chat, either side may go by a name of its own.
    voices = {(turn.role, turn.speaker): turn for turn in talking}.values()
    for side in (_role, _speaker):
        if {role_of(side(turn)) for turn in voices} == CHAT:
            return _chosen(turns, "assistant turns (chat)", _is("assistant", side))
    # A question that nobody answered, as in a sample that failed, is not judged instead.
    if voices and all(_role(turn) == "user" for turn in voices):
        return _chosen(turns, "assistant turns (chat)", _is("assistant", _role))
    return _chosen(turns, "all turns (self-play)", _anyone)


def _is(name: str, *sides: Callable[[Turn], str]) -> Callable[[Turn], bool]:
    """Whether a turn is by someone of a name, or of the role that goes by many names."""
    return lambda turn: any(name in (side(turn), role_of(side(turn))) for side in sides)


def _anyone(turn: Turn) -> bool:
    return True


def _chosen(turns: tuple[Turn, ...], who: str, is_wanted: Callable[[Turn], bool]) -> JudgedTurns:
    places = [n for n, turn in enumerate(turns, 1) if turn.spoken and is_wanted(turn)]
    return JudgedTurns(tuple(turns[n - 1] for n in places), tuple(places), who)


def _role(turn: Turn) -> str:
    return (turn.role or "").casefold()


def _speaker(turn: Turn) -> str:
    return (turn.speaker or "").casefold()
