"""The interface of detectors: what they observe of each turn, and what they signal about it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record, Trajectory, Turn, normalize_role, role_of_turn
from chimeralab.detection.words import is_blank

if TYPE_CHECKING:
    from chimeralab.detection.locked import LockedRule

NAN = float("nan")
CHAT = {"user", "assistant"}


class Cutoff(NamedTuple):
    """A similarity threshold at a lag."""

    lag: int
    value: float


class Observation(NamedTuple):
    """One judged turn as a detector sees it.

    ``lags[k - 1]`` is its similarity to the judged turn k before it, NaN where there is none; it is
    empty for a detector that needs no similarities.
    """

    turn: Turn
    lags: tuple[float, ...] = ()
    blank: bool = False

    @property
    def s1(self) -> float:
        return self.lags[0] if self.lags else NAN

    @property
    def s2(self) -> float:
        return self.lags[1] if len(self.lags) > 1 else NAN


# The record's first public name; `from chimeralab import Seen` keeps working.
Seen = Observation


def choose_turns(
    trajectory: Trajectory, speaker: str | None = None, *, skip_blank: bool = False
) -> tuple[tuple[int, ...], str]:
    """Choose the turns to judge: their positions from 1, and a description of whose they are.

    These are the turns of `speaker` (a name, a role or "all"); by default the assistant's in a chat
    and everybody's in self-play.

    >>> choose_turns(Trajectory("a", (Turn("Hi", "user"), Turn("Hello!", "assistant"))))
    ((2,), 'assistant turns (chat)')
    """
    turns = trajectory.turns
    whose, is_wanted = _choose_speakers(turns, speaker)
    if speaker not in (None, "all") and (not speaker or not any(map(is_wanted, turns))):
        known = dict.fromkeys(t.speaker for t in turns if t.spoken and t.speaker)
        place = f" ({trajectory.source})" if trajectory.source else ""
        raise InputError(
            f"no turn by {speaker!r} in conversation {trajectory.id!r}{place}; "
            f"its speakers: {', '.join(known) or 'none is named'}; or 'all'"
        )
    chosen = (n for n, turn in enumerate(turns, 1) if turn.spoken and is_wanted(turn))
    if skip_blank:
        chosen = (n for n in chosen if not is_blank(turns[n - 1].text))
    return tuple(chosen), whose


def list_judged_turns(trajectory: Trajectory, speaker: str | None = None) -> list[Turn]:
    """The turns to judge, in order."""
    return [trajectory.turns[n - 1] for n in choose_turns(trajectory, speaker)[0]]


def _choose_speakers(
    turns: Sequence[Turn], speaker: str | None
) -> tuple[str, Callable[[Turn], bool]]:
    if speaker == "all":
        return "all turns (asked for)", _anyone
    if speaker is not None:
        return f"turns of {speaker} (asked for)", _is_by(speaker.casefold(), _speaker, _role)
    # An agent that only calls tools still makes it a chat, or its user would be judged instead.
    talking = [turn for turn in turns if turn.spoken or role_of_turn(turn) == "assistant"]
    # The role is more reliable: in a chat, either side may have a name of its own.
    voices = {(turn.role, turn.speaker): turn for turn in talking}.values()
    for side in (_role, _speaker):
        if {normalize_role(side(turn)) for turn in voices} == CHAT:
            return "assistant turns (chat)", _is_by("assistant", side)
    # In a chat without an answer, as in a failed sample, the question is not judged instead.
    if voices and all(_role(turn) == "user" for turn in voices):
        return "assistant turns (chat)", _is_by("assistant", _role)
    return "all turns (self-play)", _anyone


def _is_by(name: str, *sides: Callable[[Turn], str]) -> Callable[[Turn], bool]:
    """Whether a turn is by this name, or by the role that the name is an alias of."""
    return lambda turn: any(name in (side(turn), normalize_role(side(turn))) for side in sides)


def _anyone(turn: Turn) -> bool:
    return True


def _role(turn: Turn) -> str:
    return (turn.role or "").casefold()


def _speaker(turn: Turn) -> str:
    return (turn.speaker or "").casefold()


class Signal(NamedTuple):
    """A detector's verdict on one judged turn, numbered from 1, given the turns up to it.

    ``repeats`` is the earlier turn that a collapsed turn repeats, if the detector can name one.
    """

    turn: int
    s1: float = NAN
    s2: float = NAN
    period1: bool = False
    period2: bool = False
    run: int = 0
    collapsed: bool = False
    repeats: int | None = None


@dataclass(frozen=True, slots=True)
class Needs(Record):
    """What a detector requires.

    ``lags``: how many turns back similarities reach; with 0 no encoder is loaded.
    ``cutoffs``: its thresholds; similarities near them are recomputed exactly.
    ``turns``: the judged turns without which there is no verdict.
    ``first_turn_at_risk``: the first turn that can be marked as collapsed.
    ``skip_blank``: whether turns without a word are left out.
    ``why_not_live``: why it can't judge a conversation as it goes on; None if it can.
    """

    lags: int = 0
    cutoffs: tuple[Cutoff, ...] = ()
    turns: int = 1
    first_turn_at_risk: int = 1
    skip_blank: bool = False
    why_not_live: str | None = None


class Stream(Protocol):
    """Judges one conversation turn by turn."""

    def update(self, observation: Observation, /) -> Signal:
        """Judge the next turn."""
        ...


class Detector(Protocol):
    """A rule that marks turns as collapsed: a dataclass whose fields are its settings.

    A subclass has to define ``start`` only; everything else has a default.
    """

    __slots__ = ()

    def start(self) -> Stream:
        """Open a stream for one conversation."""
        ...

    @property
    def needs(self) -> Needs:
        """What it requires; by default no similarities, and a verdict on any conversation."""
        return Needs()

    @property
    def name(self) -> str:
        """Its name in verdicts, tables and reports."""
        return type(self).__name__

    @property
    def rule(self) -> str:
        """What counts as collapsed, as a clause for reports; by default its docstring."""
        return docstring_of(type(self))

    @property
    def standard(self) -> str:
        """The name of its default operating point."""
        return "default"

    @property
    def remark(self) -> str:
        """A caveat about these settings, as a clause."""
        return ""

    @property
    def changed(self) -> dict[str, Any]:
        """The settings that differ from their defaults."""
        ours = ((f.name, getattr(self, f.name), f.default) for f in fields(self))  # type: ignore[arg-type]
        return {name: value for name, value, default in ours if value != default}

    @property
    def thresholds(self) -> "LockedRule | None":
        """The rule whose thresholds an analysis can vary; None for another kind of rule."""
        return None

    def as_dict(self) -> dict[str, Any]:
        """The settings by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    def judge(self, observations: Iterable[Observation]) -> list[Signal]:
        """Judge a whole conversation; by default turn by turn."""
        stream = self.start()
        return [stream.update(each) for each in observations]

    def cycles_missed(self, observations: Sequence[Observation], signals: Sequence[Signal]) -> int:
        """The number of turns in a sustained repetition that the rule can't see, for a warning."""
        return 0

    def describe(self) -> dict[str, Any]:
        """The detector as it is recorded in a verdict."""
        return {
            "name": self.name,
            "operating_point": "changed" if self.changed else self.standard,
            "changed": self.changed,
            "settings": self.as_dict(),
        }


def docstring_of(cls: type) -> str:
    """The first paragraph of a class's docstring, without a full stop."""
    first = " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split()).rstrip(".")
    # A dataclass without a docstring gets its signature as one.
    generated = not first or first.startswith(f"{cls.__name__}(")
    return "a rule without a description" if generated else first


def summarise_detector(detector: Detector) -> str:
    """A detector and its operating point in one line.

    >>> from chimeralab.detection.locked import LockedRule
    >>> summarise_detector(LockedRule()), summarise_detector(LockedRule(window=2))
    ('locked, locked operating point', 'locked, NOT the locked operating point (window=2)')
    """
    if not detector.changed:
        return f"{detector.name}, {detector.standard} operating point"
    changes = ", ".join(f"{name}={value}" for name, value in detector.changed.items())
    return f"{detector.name}, NOT the {detector.standard} operating point ({changes})"


def read_needs(detector: Any, without: str) -> Needs:
    """The needs of a detector; `without` says how to do without one."""
    needs = getattr(detector, "needs", None)
    if isinstance(detector, type) or not isinstance(needs, Needs):
        raise InputError(
            f"detector is {detector!r:.60}, a {type(detector).__name__}; expected one such as"
            f" chimeralab.LOCKED, or {without} for none"
        )
    return needs


def check_encoder(encoder: Any) -> None:
    if not hasattr(encoder, "encode_split"):
        raise InputError(f"encoder is {encoder!r:.60}; expected a chimeralab.ext.Encoder")


def check_detector(detector: Any, what: str) -> None:
    """Refuse an object that is not a detector, after trying it on one turn."""
    members = [name for name in vars(Detector) if not name.startswith("_")]
    missing = [name for name in members if not hasattr(detector, name)]
    from chimeralab.core.parts import StandIn  # noqa: PLC0415 - slow to import, needed by plans

    if not missing and not isinstance(detector, StandIn):
        missing = list(_try_detector(detector))
    if missing:
        raise InputError(
            f"{what} is not a detector: it lacks {', '.join(missing)}; a class that inherits from "
            "chimeralab.Detector only needs start()"
        )


def _try_detector(detector: Any) -> Iterator[str]:
    if not isinstance(detector.needs, Needs):
        yield "an attribute needs of type chimeralab.Needs"
        return
    first = Observation(Turn("Hello."), (NAN,) * detector.needs.lags)
    try:
        stream = detector.start()
        if not hasattr(stream, "update"):
            yield "a start() that returns a stream with update()"
        elif not isinstance(stream.update(first), Signal):
            yield "an update() that returns a chimeralab.Signal"
    except Exception as error:  # whatever a plug-in raises
        yield f"a start() and update() that accept a turn ({type(error).__name__}: {error})"
