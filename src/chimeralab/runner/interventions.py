"""What is done to a conversation once the detector says that it has collapsed.

A countermeasure of a condition changes how the turns after a detection are asked. A plan names one
by its settings: `countermeasure = { use = "nudge" }` for ours, `use = "module:Class"` for your own,
a frozen dataclass as `Countermeasure` describes it. It is on record under its own name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.parts import Seam
from chimeralab.core.records import Record
from chimeralab.models.seam import Sampling

Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True)
class Ask(Record):
    """How the next turn will be asked: of which model, how sampled, and with what of the past.

    A hint is a line that the speaker finds after a turn of its history, as if it had been told it.
    A `probe` is asked in a fork at that turn; `probed` holds the replies to the probes before it.
    """

    turn: int
    slot: int
    speakers: int
    model: str
    sampling: Sampling
    first_shown: int = 1
    hints: tuple[tuple[int, str], ...] = ()
    probe: str | None = None
    probed: Mapping[str, str] = field(default_factory=dict)

    def within(self, detected: int, turns: int) -> bool:
        """Whether this is one of the `turns` turns after a detection."""
        return detected < self.turn <= detected + turns


class Countermeasure(Protocol):
    """Changes how a turn is asked, given the earlier turn at which a collapse was detected.

    It is settings alone and keeps no state, so that an interrupted run asks the same again. It is
    not triggered again before `turns` turns are over, but is asked to change every later turn:
    `ask.within(detected, self.turns)` tells whether it still acts. Optional: `name`, which is
    otherwise that of the class, and `models`, the models of the plan that it puts to work.
    """

    @property
    def turns(self) -> int: ...

    def change(self, ask: Ask, detected: int) -> Ask: ...


SEAM = Seam("change", {"name": str, "models": tuple[str, ...], "turns": int})


def check_countermeasure(settings: Any, what: str) -> None:
    """Refuse a part that is not a countermeasure before anything is run with it."""
    if not (callable(getattr(settings, "change", None)) and hasattr(settings, "turns")):
        raise InputError(
            f"{what} is not a countermeasure; it needs a method change(ask, detected) and a "
            "setting turns"
        )


def name_of(countermeasure: Countermeasure) -> str:
    """The name under which a countermeasure is on record."""
    return str(getattr(countermeasure, "name", type(countermeasure).__name__))


def models_of(countermeasure: Countermeasure) -> tuple[str, ...]:
    """The models that a countermeasure puts in the place of the planned ones."""
    return tuple(getattr(countermeasure, "models", ()))


@dataclass(frozen=True, slots=True)
class Nudge(Record):
    """Tell the next speaker to take another path. It keeps the line in its own history."""

    name: ClassVar[str] = "nudge"
    text: str = "We are repeating ourselves. Leave this path and say something new."
    turns: Count = 4

    def change(self, ask: Ask, detected: int) -> Ask:
        if detected % ask.speakers != ask.slot:
            return ask
        return replace(ask, hints=(*ask.hints, (detected, self.text)))


@dataclass(frozen=True, slots=True)
class Rotate(Record):
    """Let other models speak in the place of the planned ones, in the order named."""

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
    """Forget all but the last turns, for good. The seed prompt stays for those who see it."""

    name: ClassVar[str] = "trim"
    keep: Count = 2
    turns: Count = 4

    def change(self, ask: Ask, detected: int) -> Ask:
        return replace(ask, first_shown=max(ask.first_shown, detected - self.keep + 1))


COUNTERMEASURES: dict[str, type] = {part.name: part for part in (Nudge, Rotate, Warm, Trim)}


def due(countermeasure: Countermeasure, detected: int, earlier: list[int]) -> bool:
    """Whether a detection triggers, given the turns at which it was triggered before."""
    return not earlier or detected >= earlier[-1] + countermeasure.turns
