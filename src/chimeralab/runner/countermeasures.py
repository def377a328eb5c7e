"""What can be done about a conversation once the detector says that it has collapsed.

Each countermeasure changes how the turns after a detection are asked. It acts for `turns` turns
and is not triggered again before they are over.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Protocol

from pydantic import Field

from chimeralab.core.records import Record
from chimeralab.models.seam import Sampling
from chimeralab.sandbox.probes import Probe

Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True)
class Note(Record):
    """A line that one speaker finds in its history after a turn, as if it had been told so."""

    after: int
    text: str


@dataclass(frozen=True, slots=True)
class Ask(Record):
    """How the next turn will be asked: of which model, how sampled, and with what of the past.

    A `probe` is asked aside at that turn; `aside` holds the replies to the probes before it.
    """

    turn: int
    slot: int
    speakers: int
    model: str
    sampling: Sampling
    first_shown: int = 1
    notes: tuple[Note, ...] = ()
    probe: Probe | None = None
    aside: Mapping[str, str] = field(default_factory=dict)

    def within(self, detected: int, turns: int) -> bool:
        """Whether this is one of the `turns` turns after a detection."""
        return detected < self.turn <= detected + turns


class Countermeasure(Protocol):
    """Settings that can change how a turn is asked, given an earlier turn of detection."""

    @property
    def turns(self) -> int: ...

    def change(self, ask: Ask, detected: int) -> Ask: ...

    def as_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Nudge(Record):
    """Tell the next speaker to take another path. It keeps the line in its own history."""

    text: str = "We are repeating ourselves. Leave this path and say something new."
    turns: Count = 4

    def change(self, ask: Ask, detected: int) -> Ask:
        if detected % ask.speakers != ask.slot:
            return ask
        return replace(ask, notes=(*ask.notes, Note(detected, self.text)))


@dataclass(frozen=True, slots=True)
class Rotate(Record):
    """Let other models speak in the place of the planned ones, in the order named."""

    to: Annotated[tuple[str, ...], Field(min_length=1)]
    turns: Count = 4

    def change(self, ask: Ask, detected: int) -> Ask:
        if not ask.within(detected, self.turns):
            return ask
        return replace(ask, model=self.to[(ask.turn - detected - 1) % len(self.to)])


@dataclass(frozen=True, slots=True)
class Warm(Record):
    """Raise the temperature."""

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

    keep: Count = 2
    turns: Count = 4

    def change(self, ask: Ask, detected: int) -> Ask:
        return replace(ask, first_shown=max(ask.first_shown, detected - self.keep + 1))


COUNTERMEASURES = {"nudge": Nudge, "rotate": Rotate, "warm": Warm, "trim": Trim}


def due(countermeasure: Countermeasure, detected: int, earlier: list[int]) -> bool:
    """Whether a detection triggers, given the turns at which it was triggered before."""
    return not earlier or detected >= earlier[-1] + countermeasure.turns
