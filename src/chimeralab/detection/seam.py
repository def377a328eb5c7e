"""The seam for detectors: what one is shown of each turn, what it says of it, what it needs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record, Trajectory, Turn, normalize_role, role_of_turn
from chimeralab.detection.words import is_blank

if TYPE_CHECKING:
    from chimeralab.detection.locked import LockedRule

NOTHING = float("nan")
CHAT = {"user", "assistant"}


class Cutoff(NamedTuple):
    """A similarity at a lag at which a detector decides something."""

    lag: int
    value: float


class Observation(NamedTuple):
    """What a detector is shown of one judged turn: the turn, and how alike it is to those before.

    ``lags[k - 1]`` is the similarity to the judged turn k before, NaN where there is none. It is
    empty for a detector that asks for no similarities.
    """

    turn: Turn
    lags: tuple[float, ...] = ()
    blank: bool = False

    @property
    def s1(self) -> float:
        return self.lags[0] if self.lags else NOTHING

    @property
    def s2(self) -> float:
        return self.lags[1] if len(self.lags) > 1 else NOTHING


# The record's first public name; `from chimeralab import Seen` keeps working.
Seen = Observation


def choose_turns(
    trajectory: Trajectory, speaker: str | None = None, *, skip_blank: bool = False
) -> tuple[tuple[int, ...], str]:
    """Which turns are judged: their positions from 1, and in words whose they are.

    They are those of `speaker` (a name, a role or "all"); by default the conversation decides: the
    assistant's in a chat, everybody's in self-play.

    >>> choose_turns(Trajectory("a", (Turn("Hi", "user"), Turn("Hello!", "assistant"))))
    ((2,), 'assistant turns (chat)')
    """
    turns = trajectory.turns
    whose, is_wanted = _wanted(turns, speaker)
    if speaker not in (None, "all") and (not speaker or not any(map(is_wanted, turns))):
        known = dict.fromkeys(t.speaker for t in turns if t.spoken and t.speaker)
        place = f" ({trajectory.source})" if trajectory.source else ""
        raise InputError(
            f"no turn by {speaker!r} in conversation {trajectory.id!r}{place}; "
            f"its speakers: {', '.join(known) or 'none is named'}; or ask for all"
        )
    chosen = (n for n, turn in enumerate(turns, 1) if turn.spoken and is_wanted(turn))
    if skip_blank:
        chosen = (n for n in chosen if not is_blank(turns[n - 1].text))
    return tuple(chosen), whose


def list_judged_turns(trajectory: Trajectory, speaker: str | None = None) -> list[Turn]:
    """The turns that are judged, in order."""
    return [trajectory.turns[n - 1] for n in choose_turns(trajectory, speaker)[0]]


def _wanted(turns: Sequence[Turn], speaker: str | None) -> tuple[str, Callable[[Turn], bool]]:
    if speaker == "all":
        return "all turns (asked for)", _anyone
    if speaker is not None:
        return f"turns of {speaker} (asked for)", _is(speaker.casefold(), _speaker, _role)
    # An agent that only calls tools still makes a chat, or its user would be judged instead.
    talking = [turn for turn in turns if turn.spoken or role_of_turn(turn) == "assistant"]
    # The role is the surer sign: in a chat, either side may go by a name of its own.
    voices = {(turn.role, turn.speaker): turn for turn in talking}.values()
    for side in (_role, _speaker):
        if {normalize_role(side(turn)) for turn in voices} == CHAT:
            return "assistant turns (chat)", _is("assistant", side)
    # A question that nobody answered, as in a sample that failed, is not judged instead.
    if voices and all(_role(turn) == "user" for turn in voices):
        return "assistant turns (chat)", _is("assistant", _role)
    return "all turns (self-play)", _anyone


def _is(name: str, *sides: Callable[[Turn], str]) -> Callable[[Turn], bool]:
    """Whether a turn is by someone of a name, or of the role that goes by many names."""
    return lambda turn: any(name in (side(turn), normalize_role(side(turn))) for side in sides)


def _anyone(turn: Turn) -> bool:
    return True


def _role(turn: Turn) -> str:
    return (turn.role or "").casefold()


def _speaker(turn: Turn) -> str:
    return (turn.speaker or "").casefold()


class Signal(NamedTuple):
    """The detector's word on one turn, at the moment it was said. Turns count from 1.

    ``repeats`` is the earlier turn that a collapsed turn repeats, where there is one to name.
    """

    turn: int
    s1: float = NOTHING
    s2: float = NOTHING
    period1: bool = False
    period2: bool = False
    run: int = 0
    collapsed: bool = False
    repeats: int | None = None


@dataclass(frozen=True, slots=True)
class Needs(Record):
    """What a detector has to be given, and what it can do.

    ``lags``: how many turns back the similarities reach; with 0 no encoder is loaded.
    ``cutoffs``: where it decides something, so that similarities near there are exact.
    ``turns``: a conversation with fewer judged turns gets no verdict.
    ``first_turn_at_risk``: the first turn that can be marked as collapsed.
    ``skip_blank``: whether turns without a word are left out before judging.
    ``why_not_live``: why it can't judge a conversation that is still going on; None if it can.
    """

    lags: int = 0
    cutoffs: tuple[Cutoff, ...] = ()
    turns: int = 1
    first_turn_at_risk: int = 1
    skip_blank: bool = False
    why_not_live: str | None = None


class Stream(Protocol):
    """Judges one conversation as it goes on."""

    def update(self, seen: Observation, /) -> Signal:
        """Take the next judged turn and say whether it is collapsed."""
        ...


class Detector(Protocol):
    """A rule that says which turns are collapsed: a dataclass, whose fields are its settings.

    ``start`` is all that a detector has to write when it inherits from this class. The rest says
    what it needs and how it is spoken of, and each of these can be replaced.
    """

    __slots__ = ()

    def start(self) -> Stream:
        """A stream for one conversation."""
        ...

    @property
    def needs(self) -> Needs:
        """By default turns alone: no vectors, and a verdict on any conversation."""
        return Needs()

    @property
    def name(self) -> str:
        """What it is called wherever it is named."""
        return type(self).__name__

    @property
    def rule(self) -> str:
        """What it counts as collapsed, as a clause for reports; by default its docstring."""
        return docstring_of(type(self))

    @property
    def standard(self) -> str:
        """What its operating point is called where no setting is changed."""
        return "default"

    @property
    def remark(self) -> str:
        """What else the user of these settings should know, in a clause."""
        return ""

    @property
    def changed(self) -> dict[str, Any]:
        """The settings that differ from their defaults; empty when none does."""
        ours = ((f.name, getattr(self, f.name), f.default) for f in fields(self))  # type: ignore[arg-type]
        return {name: value for name, value, default in ours if value != default}

    @property
    def thresholds(self) -> "LockedRule | None":
        """The thresholds that an analysis can vary; None for a rule of another kind."""
        return None

    def as_dict(self) -> dict[str, Any]:
        """The settings as plain values."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    def judge(self, seen: Iterable[Observation]) -> list[Signal]:
        """Judge a whole conversation; by default turn by turn."""
        stream = self.start()
        return [stream.update(each) for each in seen]

    def cycles_missed(self, seen: Sequence[Observation], signals: Sequence[Signal]) -> int:
        """Turns in a sustained repetition that the rule does not count; a verdict notes them."""
        return 0

    def describe(self) -> dict[str, Any]:
        """The detector as a verdict carries it."""
        return {
            "name": self.name,
            "operating_point": "changed" if self.changed else self.standard,
            "changed": self.changed,
            "settings": self.as_dict(),
        }


def docstring_of(cls: type) -> str:
    """The first paragraph that its author wrote about a class, without a full stop."""
    first = " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split()).rstrip(".")
    # A dataclass without a docstring is given its signature for one.
    generated = not first or first.startswith(f"{cls.__name__}(")
    return "a rule without a description" if generated else first


def summarise_detector(detector: Detector) -> str:
    """A detector and its operating point in a line.

    >>> from chimeralab.detection.locked import LockedRule
    >>> summarise_detector(LockedRule()), summarise_detector(LockedRule(window=2))
    ('locked, at its locked operating point', 'locked, NOT the locked operating point (window=2)')
    """
    if not detector.changed:
        return f"{detector.name}, at its {detector.standard} operating point"
    changes = ", ".join(f"{name}={value}" for name, value in detector.changed.items())
    return f"{detector.name}, NOT the {detector.standard} operating point ({changes})"


def check_detector(detector: Any, what: str) -> None:
    """Refuse what can't judge, before anything depends on it: it is shown one turn on trial."""
    members = [name for name in vars(Detector) if not name.startswith("_")]
    lacks = [name for name in members if not hasattr(detector, name)]
    from chimeralab.core.parts import StandIn  # noqa: PLC0415 - slow to import, needed by plans

    if not lacks and not isinstance(detector, StandIn):
        lacks = list(_failing(detector))
    if lacks:
        raise InputError(
            f"{what} is not a detector: it lacks {', '.join(lacks)}; a class that inherits from "
            "chimeralab.Detector needs start() alone"
        )


def _failing(detector: Any) -> Iterator[str]:
    if not isinstance(detector.needs, Needs):
        yield "needs that are a chimeralab.Needs"
        return
    first = Observation(Turn("Hello."), (NOTHING,) * detector.needs.lags)
    try:
        stream = detector.start()
        if not hasattr(stream, "update"):
            yield "a start() that returns a stream with update()"
        elif not isinstance(stream.update(first), Signal):
            yield "an update() that returns a chimeralab.Signal"
    except Exception as error:  # whatever the code of others does with its first turn
        yield f"a start() and update() that get through a turn ({type(error).__name__}: {error})"
