"""Items, ratings, and the protocol of a rater."""

import hashlib
import hmac
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, get_args

from chimeralab.core.parts import Seam
from chimeralab.core.records import Record, Trajectory
from chimeralab.detection.seam import list_judged_turns
from chimeralab.rating.rubric import FirstTurn, KindName, Label, Rubric, StepName

RaterKind = Literal["program", "model", "person"]
Outcome = Literal["clean", "repaired", "unreadable", "failed"]


@dataclass(frozen=True, slots=True)
class Item(Record):
    """A trajectory as raters see it: an id and the judged turns, without speakers."""

    id: str
    texts: tuple[str, ...]

    @property
    def sha256(self) -> str:
        content = json.dumps(self.texts).encode("ascii")
        return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, slots=True)
class NotedPattern(Record):
    """A pattern that does not affect the label, with its turns."""

    pattern: str
    turns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Attempt(Record):
    """One raw answer of a model rater, and its outcome."""

    outcome: Outcome
    detail: str
    answer: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Rating(Record):
    """A rater's label of an item, or None with the `reason` why there is none.

    `step` and `turns`, counted from 1, decided the label; `kinds` are all kinds of loop found. The
    `reason` names turns as the rubric labels them, the first one as `first_turn`.
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
    first_turn: FirstTurn = "1"
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class RaterFacts(Record):
    """What kind of rater it is, and what it needs."""

    kind: RaterKind = "program"
    costs_money: bool = False
    needs_network: bool = False
    needs_packet: bool = False

    def __str__(self) -> str:
        needs = {
            "costs money": self.costs_money,
            "needs a network": self.needs_network,
            "is given a packet": self.needs_packet,
        }
        return ", ".join([f"a {self.kind}", *(text for text, applies in needs.items() if applies)])


class Shuffler(NamedTuple):
    """Random orders and names that only the holder of the secret can repeat or predict.

    Each purpose has its own; the order in which names are given does not matter.

    >>> Shuffler("secret", "packet 1").order("abc") == Shuffler("secret", "packet 1").order("cab")
    True
    """

    secret: str
    purpose: str

    def hash(self, *what: str) -> str:
        """HMAC-SHA256 of the purpose and some words."""
        text = json.dumps([self.purpose, *what]).encode("ascii")
        return hmac.digest(self.secret.encode(), text, "sha256").hex()

    def order(self, names: Iterable[str]) -> list[str]:
        return sorted(names, key=self.hash)


class Rater(Protocol):
    """Rates items by the rubric that it was opened with."""

    async def rate(self, item: Item) -> Rating: ...


class RaterPart(Protocol):
    """A rater in a plan: a frozen dataclass whose fields are its settings.

    A class attribute `about = RaterFacts(...)` may describe it; the default is a program without
    needs. Labels are stored under its name in the plan.
    """

    def open(self, rubric: Rubric) -> Rater: ...


SEAM = Seam("open", {"about": RaterFacts})


def count_ratings(ratings: Iterable[Rating]) -> dict[str, int]:
    """Count items, missing labels, and attempts by outcome."""
    rated = list(ratings)
    outcomes = [attempt.outcome for rating in rated for attempt in rating.attempts]
    counts = {
        "items": len(rated),
        "nulls": sum(rating.label is None for rating in rated),
        "attempts": len(outcomes),
    }
    return counts | {outcome: outcomes.count(outcome) for outcome in get_args(Outcome)}


async def rate_all(rater: Rater, items: Sequence[Item], at_once: int = 8) -> list[Rating]:
    """Rate items concurrently; ratings are in the order of the items."""
    import asyncio  # noqa: PLC0415 - slow to import and not needed by the rules

    limit = asyncio.Semaphore(at_once)

    async def rate(item: Item) -> Rating:
        async with limit:
            return await rater.rate(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(rate(item)) for item in items]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


def make_item(trajectory: Trajectory, speaker: str | None = None) -> Item:
    """Make an item of the judged turns of a conversation."""
    return Item(trajectory.id, tuple(turn.text for turn in list_judged_turns(trajectory, speaker)))
