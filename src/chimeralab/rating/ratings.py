"""What a rater is given and what comes back: an item, a rating, and the seam between them."""

import hashlib
import json
from dataclasses import dataclass
from typing import Literal, Protocol

from chimeralab.core.records import Record, Trajectory
from chimeralab.detection.measure import judged
from chimeralab.rating.rubric import KindName, Label, StepName

Outcome = Literal["clean", "repaired", "unreadable", "failed"]


@dataclass(frozen=True, slots=True)
class Item(Record):
    """One trajectory as raters see it: an id and the judged turns, nothing about who spoke."""

    id: str
    texts: tuple[str, ...]

    @property
    def sha256(self) -> str:
        """The hash of the texts; a changed letter changes it."""
        content = json.dumps(self.texts).encode("ascii")
        return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, slots=True)
class Noted(Record):
    """A pattern worth knowing that decides nothing, with its turns."""

    pattern: str
    turns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Attempt(Record):
    """One answer of a model rater as it came, and what became of it."""

    outcome: Outcome
    detail: str
    answer: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Rating(Record):
    """One rater's word on one item. Without a label, `reason` says why there is none.

    `turns` are the ones that decided, counted from 1; `kinds` are all that hold anywhere in the
    item, `step` is the one that decided.
    """

    item: str
    rater: str
    label: Label | None
    reason: str
    turns: tuple[int, ...] = ()
    step: StepName | None = None
    kinds: tuple[KindName, ...] = ()
    noted: tuple[Noted, ...] = ()
    rubric: str = ""
    attempts: tuple[Attempt, ...] = ()


class Rater(Protocol):
    """Anything that rates an item by the rubric it was made with."""

    async def rate(self, item: Item) -> Rating: ...


def item_of(trajectory: Trajectory, speaker: str | None = None) -> Item:
    """The judged turns of a conversation as an item to rate."""
    return Item(trajectory.id, tuple(turn.text for turn in judged(trajectory, speaker).turns))
