"""Countermeasures: what is done to a conversation, on collapse or at planned moments.

A countermeasure changes how the turns after a moment are asked. A plan names it by its settings:
`countermeasure = { use = "nudge" }` for a built-in one, `use = "module:Class"` for your own, a
frozen dataclass that follows `Countermeasure`. As `[perturbations.NAME]` it is a treatment, with a
`Schedule` of its moments.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import plural
from chimeralab.core.parts import Seam
from chimeralab.core.records import Record
from chimeralab.core.text import neutral_text
from chimeralab.models.seam import Sampling

Count = Annotated[int, Field(ge=1)]
SUMMARY_WORDS = 12


@dataclass(frozen=True, slots=True)
class Ask(Record):
    """How the next turn is asked: the model, its sampling, and the visible history.

    A hint is a line inserted after a turn of the history, for the one who is asked; what was `said`
    is one that the speaker of that turn seems to have added. Turns that are `hidden` are left out,
    and `told` is added to the system message. A `probe` is asked in a fork at that turn; `probed`
    has the replies to earlier probes.
    """

    turn: int
    slot: int
    speakers: int
    model: str
    sampling: Sampling
    first_shown: int = 1
    hints: tuple[tuple[int, str], ...] = ()
    said: tuple[tuple[int, str], ...] = ()
    hidden: frozenset[int] = frozenset()
    told: str | None = None
    probe: str | None = None
    probed: Mapping[str, str] = field(default_factory=dict)

    def within(self, detected: int, turns: int) -> bool:
        """Whether this is one of the `turns` turns after a detection."""
        return detected < self.turn <= detected + turns


class Countermeasure(Protocol):
    """Changes how a turn is asked, given the turn at which a collapse was detected.

    It is stateless, so that an interrupted run asks the same again. It is not triggered again
    within `turns` turns, but `change` is called for every later turn: `ask.within(detected,
    self.turns)` says whether it still acts. Optional: `name`, by default that of the class;
    `models`, the models of the plan that it uses; `sham(text)`, the same with another text instead
    of its `text`; and `prepare(texts, advice)`, which is called once at the moment, with the turns
    so far and the advice of the live guard, and returns the same with the `text` to be recorded.
    """

    @property
    def turns(self) -> int: ...

    def change(self, ask: Ask, detected: int) -> Ask: ...


SEAM = Seam("change", {"name": str, "models": tuple[str, ...], "turns": int})


def check_countermeasure(settings: Any, what: str) -> None:
    """Raise if a part is not a countermeasure."""
    if not (callable(getattr(settings, "change", None)) and hasattr(settings, "turns")):
        raise InputError(
            f"{what} is not a countermeasure; it needs a method change(ask, detected) and a "
            "setting turns"
        )


def name_of(countermeasure: Countermeasure) -> str:
    """The recorded name of a countermeasure."""
    return str(getattr(countermeasure, "name", type(countermeasure).__name__))


def models_of(countermeasure: Countermeasure) -> tuple[str, ...]:
    """The models that a countermeasure uses instead of the planned ones."""
    return tuple(getattr(countermeasure, "models", ()))


@dataclass(frozen=True, slots=True)
class Nudge(Record):
    """Tell the next speaker to change course; the line stays in its history."""

    name: ClassVar[str] = "nudge"
    text: str = "We are repeating ourselves. Leave this path and say something new."
    turns: Count = 4

    def change(self, ask: Ask, detected: int) -> Ask:
        if detected % ask.speakers != ask.slot:
            return ask
        return replace(ask, hints=(*ask.hints, (detected, self.text)))

    def sham(self, text: str) -> "Nudge":
        return replace(self, text=text)


@dataclass(frozen=True, slots=True)
class Advice(Record):
    """Tell the next speaker what the live guard says; without a warning, what a nudge says."""

    name: ClassVar[str] = "advice"
    watches: ClassVar[bool] = True
    text: str | None = None
    turns: Count = 4

    def prepare(self, texts: Sequence[str], advice: str | None) -> "Advice":
        return replace(self, text=self.text or advice or Nudge().text)

    def change(self, ask: Ask, detected: int) -> Ask:
        return self.sham(self.text or "").change(ask, detected)

    def sham(self, text: str) -> Nudge:
        return Nudge(text, self.turns)


@dataclass(frozen=True, slots=True)
class Moderator(Record):
    """Tell all speakers something in the name of a moderator; the line stays in their histories."""

    name: ClassVar[str] = "moderator"
    text: str
    turns: Count = 4

    def change(self, ask: Ask, detected: int) -> Ask:
        return replace(ask, hints=(*ask.hints, (detected, f"Moderator: {self.text}")))

    def sham(self, text: str) -> "Moderator":
        return replace(self, text=text)


@dataclass(frozen=True, slots=True)
class Interject(Record):
    """Add a text to the last turn, as if its speaker had said it."""

    name: ClassVar[str] = "interject"
    text: str
    turns: Count = 4

    def change(self, ask: Ask, detected: int) -> Ask:
        return replace(ask, said=(*ask.said, (detected, self.text)))

    def sham(self, text: str) -> "Interject":
        return replace(self, text=text)


@dataclass(frozen=True, slots=True)
class Renew(Record):
    """Add a text to the system message of every speaker."""

    name: ClassVar[str] = "renew"
    text: str
    turns: Count = 4

    def change(self, ask: Ask, detected: int) -> Ask:
        return replace(ask, told=self.text) if ask.within(detected, self.turns) else ask

    def sham(self, text: str) -> "Renew":
        return replace(self, text=text)


@dataclass(frozen=True, slots=True)
class Rotate(Record):
    """Replace the planned models with others, in the given order."""

    name: ClassVar[str] = "rotate"
    to: Annotated[tuple[str, ...], Field(min_length=1)]
    turns: Count = 4

    @property
    def models(self) -> tuple[str, ...]:
        return self.to

    def change(self, ask: Ask, detected: int) -> Ask:
        if not ask.within(detected, self.turns):
            return ask
        return replace(ask, model=self.to[(ask.turn - detected - 1) % len(self.to)])


@dataclass(frozen=True, slots=True)
class Warm(Record):
    """Raise the temperature."""

    name: ClassVar[str] = "warm"
    by: Annotated[float, Field(gt=0)] = 0.5
    turns: Count = 4

    def change(self, ask: Ask, detected: int) -> Ask:
        if not ask.within(detected, self.turns):
            return ask
        warmer = replace(ask.sampling, temperature=ask.sampling.temperature + self.by)
        return replace(ask, sampling=warmer)


@dataclass(frozen=True, slots=True)
class Trim(Record):
    """Drop all but the last turns, for good; the seed prompt stays."""

    name: ClassVar[str] = "trim"
    keep: Count = 2
    turns: Count = 4

    def change(self, ask: Ask, detected: int) -> Ask:
        return replace(ask, first_shown=max(ask.first_shown, detected - self.keep + 1))


@dataclass(frozen=True, slots=True)
class Drop(Record):
    """Forget the last turns, for good."""

    name: ClassVar[str] = "drop"
    last: Count = 4
    turns: Count = 4

    def change(self, ask: Ask, detected: int) -> Ask:
        return replace(ask, hidden=ask.hidden | {*range(detected - self.last + 1, detected + 1)})


@dataclass(frozen=True, slots=True)
class Summarise(Record):
    """Replace the last turns with how each different one of them begins, in a moderator's name."""

    name: ClassVar[str] = "summarise"
    last: Count = 4
    text: str | None = None
    turns: Count = 4

    def prepare(self, texts: Sequence[str], advice: str | None) -> "Summarise":
        begins = dict.fromkeys(
            " ".join(text.split()[:SUMMARY_WORDS]) for text in texts[-self.last :]
        )
        said = "; ".join(f"“{each}”" for each in begins if each)
        return replace(self, text=f"The last {self.last} turns are left out. They began: {said}.")

    def change(self, ask: Ask, detected: int) -> Ask:
        return self.sham(self.text or "").change(Drop(self.last).change(ask, detected), detected)

    def sham(self, text: str) -> Moderator:
        return Moderator(text, self.turns)


@dataclass(frozen=True, slots=True)
class Sham(Record):
    """Neutral text, as long as that of a treatment, in the same place."""

    name: ClassVar[str] = "sham"
    of: Any
    text: str | None = None

    @property
    def turns(self) -> int:
        return int(self.of.turns)

    @property
    def watches(self) -> bool:
        return bool(getattr(self.of, "watches", False))

    def prepare(self, texts: Sequence[str], advice: str | None) -> "Sham":
        return replace(self, text=neutral_text(len(prepare(self.of, texts, advice).text or "")))

    def change(self, ask: Ask, detected: int) -> Ask:
        changed: Ask = self.of.sham(self.text or "").change(ask, detected)
        return changed


@dataclass(frozen=True, slots=True)
class Mark(Record):
    """Do nothing: the moment is only recorded."""

    name: ClassVar[str] = "none"
    turns: Count = 1

    def change(self, ask: Ask, detected: int) -> Ask:
        return ask


PARTS = (Nudge, Advice, Moderator, Interject, Renew, Rotate, Warm, Trim, Drop, Summarise)
COUNTERMEASURES: dict[str, type] = {part.name: part for part in PARTS}


def prepare(countermeasure: Any, texts: Sequence[str], advice: str | None) -> Any:
    """The countermeasure with the text that it has at this moment."""
    own = getattr(countermeasure, "prepare", None)
    return own(texts, advice) if own else countermeasure


def restore(countermeasure: Any, detail: Mapping[str, Any]) -> Any:
    """The countermeasure with the text that was recorded when it acted."""
    if not hasattr(countermeasure, "prepare"):
        return countermeasure
    return replace(countermeasure, text=detail["text"])


def due(countermeasure: Countermeasure, detected: int, earlier: list[int]) -> bool:
    """Whether a detection triggers it, given the turns of earlier triggers."""
    return not earlier or detected >= earlier[-1] + countermeasure.turns


@dataclass(frozen=True, slots=True)
class Schedule(Record):
    """When an arm of a condition is treated: after planned turns, or some turns into a loop.

    A loop is a run of turns at which the live detector fires; the first that is `after_onset` turns
    longer than one turn counts. The treatment is given `times` times, `every` n turns.
    """

    condition: str
    arm: str
    at_turns: tuple[int, ...] = ()
    after_onset: int | None = None
    times: int = 1
    every: int = 1

    def is_due(self, turn: int, streak: int, earlier: Sequence[int]) -> bool:
        """Whether to act after a turn, given the length of this loop and the turns of earlier acts.

        >>> after = Schedule("HOMO", "nudge", after_onset=2, times=2, every=3)
        >>> after.is_due(9, 2, []), after.is_due(10, 3, []), after.is_due(13, 6, [10])
        (False, True, True)
        """
        if turn in earlier:
            return False
        if self.after_onset is not None and not earlier:
            return streak > self.after_onset
        starts = self.at_turns if self.after_onset is None else earlier[:1]
        return any(turn == start + n * self.every for start in starts for n in range(self.times))

    def describe(self) -> str:
        """The moments in words.

        >>> Schedule("HOMO", "nudge", at_turns=(10, 20)).describe()
        'after turns 10, 20'
        """
        when = f"{plural(self.after_onset or 0, 'turn')} into a loop"
        if self.after_onset is None:
            many = "turns" if len(self.at_turns) > 1 else "turn"
            when = f"after {many} {', '.join(map(str, self.at_turns))}"
        return when + (f", {self.times} times every {self.every} turns" if self.times > 1 else "")
