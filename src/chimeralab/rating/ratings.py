"""What a rater is given and what comes back: an item, a rating, and the seam between them."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from chimeralab.core.parts import Seam
from chimeralab.core.records import Record, Trajectory
from chimeralab.detection.seam import list_judged_turns
from chimeralab.rating.rubric import KindName, Label, Rubric, StepName

RaterKind = Literal["program", "model", "person"]
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
class NotedPattern(Record):
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
    noted: tuple[NotedPattern, ...] = ()
    rubric: str = ""
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class RaterFacts(Record):
    """What a rater says about itself: what it is, and what having it rate takes."""

    kind: RaterKind = "program"
    costs_money: bool = False
    needs_network: bool = False
    needs_packet: bool = False

    def __str__(self) -> str:
        takes = {
            "costs money": self.costs_money,
            "needs a network": self.needs_network,
            "is given a packet": self.needs_packet,
        }
        return ", ".join([f"a {self.kind}", *(what for what, it_does in takes.items() if it_does)])


class Rater(Protocol):
    """Anything that rates an item by the rubric it was made with."""

    async def rate(self, item: Item) -> Rating: ...


class RaterPart(Protocol):
    """A rater as a plan names it: a frozen dataclass whose fields are its settings.

    It may say what it is as `about = RaterFacts(...)`, a class attribute; without it the rater
    counts as a program that needs nothing. Its labels are stored under the name that the plan
    gives it.
    """

    def open(self, rubric: Rubric) -> Rater: ...


SEAM = Seam("open", {"about": RaterFacts})


def count_ratings(ratings: Iterable[Rating]) -> dict[str, int]:
    """How a model did as a rater: items, nulls, attempts, and how many of these came how."""
    rated = list(ratings)
    outcomes = [attempt.outcome for rating in rated for attempt in rating.attempts]
    counts = {
        "items": len(rated),
        "nulls": sum(rating.label is None for rating in rated),
        "attempts": len(outcomes),
    }
    return counts | {outcome: outcomes.count(outcome) for outcome in get_args(Outcome)}


async def rate_all(rater: Rater, items: Sequence[Item], at_once: int = 8) -> list[Rating]:
    """Rate many items side by side; the ratings come in the order of the items."""
    import asyncio  # noqa: PLC0415 - slow to import, and rules need none of it

    room = asyncio.Semaphore(at_once)

    async def rate(item: Item) -> Rating:
        async with room:
            return await rater.rate(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(rate(item)) for item in items]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


def item_of(trajectory: Trajectory, speaker: str | None = None) -> Item:
    """The judged turns of a conversation as an item to rate."""
    return Item(trajectory.id, tuple(turn.text for turn in list_judged_turns(trajectory, speaker)))
