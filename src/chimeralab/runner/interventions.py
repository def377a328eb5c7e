"""Countermeasures: what is done to a conversation once the detector fires.

A countermeasure changes how the turns after a detection are asked. A plan names it by its settings:
`countermeasure = { use = "nudge" }` for a built-in one, `use = "module:Class"` for your own, a
frozen dataclass that follows `Countermeasure`.
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
    """How the next turn is asked: the model, its sampling, and the visible history.

    A hint is a line inserted after a turn of the history. A `probe` is asked in a fork at that
    turn; `probed` has the replies to earlier probes.
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
    """Changes how a turn is asked, given the turn at which a collapse was detected.

    It is stateless, so that an interrupted run asks the same again. It is not triggered again
    within `turns` turns, but `change` is called for every later turn: `ask.within(detected,
    self.turns)` says whether it still acts. Optional: `name`, by default that of the class, and
    `models`, the models of the plan that it uses.
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


COUNTERMEASURES: dict[str, type] = {part.name: part for part in (Nudge, Rotate, Warm, Trim)}


def due(countermeasure: Countermeasure, detected: int, earlier: list[int]) -> bool:
    """Whether a detection triggers it, given the turns of earlier triggers."""
    return not earlier or detected >= earlier[-1] + countermeasure.turns
