"""What a scenario consists of, as records that can be hashed, and chance that can be repeated."""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, TypeVar

from chimeralab.core.errors import InputError
from chimeralab.core.parts import Seam
from chimeralab.core.records import Record
from chimeralab.trial.trials import Answer, Frame, Truth

T = TypeVar("T")
# How many scenarios a trial has where nobody says.
DEFAULT_NUMBER = 12
# How the value of a fact is asked for, by its relation; one that is not here is left open.
ASKED_FOR = {
    "lives in": "Where does {} live?",
    "owns": "What does {} own?",
    "joined in": "In which year did {} join?",
    "reports to": "To whom does {} report directly?",
}
LEFT_OPEN = "How does this go on: {} {} …?"


@dataclass(frozen=True, slots=True)
class Fact(Record):
    """One entry of a ledger: who, what about them, and the sentence that says so.

    `relation` is any verb that reads well between the subject and the value.
    """

    id: str
    subject: str
    relation: str
    value: str
    text: str

    @property
    def asked_for(self) -> str:
        """The question that the value answers.

        >>> Fact("f1", "Ada", "plays", "the cello", "Ada plays the cello.").asked_for
        'How does this go on: Ada plays …?'
        """
        return ASKED_FOR.get(self.relation, LEFT_OPEN).format(self.subject, self.relation)


@dataclass(frozen=True, slots=True)
class Clue(Record):
    """Something that speaks for the truth, and by which odds (right readings to wrong ones)."""

    text: str
    odds: float

    @property
    def reliability(self) -> float:
        """The share of readings that are right."""
        return 1.0 if math.isinf(self.odds) else self.odds / (1 + self.odds)


@dataclass(frozen=True, slots=True)
class Question(Record):
    """One trial as it will be put to a subject.

    ``options`` is empty for a free answer. ``weight`` is the share of context that the answer
    needs, ``difficulty`` runs from 0 to 1; both are set by the design, and None where there was
    none. ``needs`` names the facts that the answer rests on. ``signal`` is the wrong answer that
    a stressor would push, ``pushes`` the words that push it, ``evidence`` what speaks against it,
    weakest first. ``claim`` names the two people of a yes-or-no question about who reports to whom.
    ``accepts`` has all that counts as right in a free answer, where that is more than the truth.
    """

    id: str
    kind: str
    prompt: str
    truth: Answer
    options: tuple[str, ...] = ()
    weight: float | None = None
    difficulty: float | None = None
    novel: bool | None = None
    needs: tuple[str, ...] = ()
    signal: Answer | None = None
    bias: bool | None = None
    pair: str | None = None
    frame: Frame | None = None
    evidence: tuple[Clue, ...] = ()
    pushes: tuple[str, ...] = ()
    claim: tuple[str, str] | None = None
    accepts: Truth | None = None


@dataclass(frozen=True, slots=True)
class Scenario(Record):
    """Facts to be told in this order, and questions to be asked in this order."""

    id: str
    kind: str
    facts: tuple[Fact, ...]
    questions: tuple[Question, ...]

    @property
    def sha256(self) -> str:
        """The hash of everything that a subject will be told and asked."""
        text = json.dumps(self.as_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()


class ScenarioGenerator(Protocol):
    """The seam of scenarios: a dataclass whose fields are the settings of [scenarios].

    `make` is the one required method. A set of scenarios that lies in files has instead `read`,
    which gives as many as are asked for (None: the usual number, or all that there are), and
    `within`, which tells it the folder of the plan.
    """

    def make(self, seed: int) -> Scenario:
        """One of any number of scenarios, decided by its seed alone."""


SEAM = Seam("make", {})


def uniform(*parts: Any) -> float:
    """A number from 0 to 1 that depends on its parts alone, in every version of Python.

    An event that happens at `uniform(...) < dose` also happens at every higher dose.

    >>> uniform(1, "a") == uniform(1, "a"), 0 <= uniform(1, "a") < 1
    (True, True)
    """
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def pick(items: Sequence[T], *parts: Any) -> T:
    """One of the items."""
    return items[int(uniform(*parts) * len(items))]


def shuffled(items: Sequence[T], *parts: Any) -> list[T]:
    """The items in an order of chance."""
    keys = [uniform(*parts, place) for place in range(len(items))]
    return [items[place] for place in sorted(range(len(items)), key=keys.__getitem__)]


def source(kind: str, seed: int) -> Random:
    """The random source of one scenario; kinds with the same seed do not share draws."""
    return Random(f"{kind}/{seed}")  # noqa: S311 - scenarios must be repeatable, not secret


def wrong_one(rng: Random, options: Sequence[T], truth: T) -> T:
    """One of the options that is not the truth."""
    return rng.choice([option for option in options if option != truth])


def choices(rng: Random, truth: str, others: Sequence[str], size: int = 4) -> tuple[str, ...]:
    """The truth among distinct wrong options, in random order.

    >>> sorted(choices(Random(1), "a", ["b", "a", "c"], size=3))
    ['a', 'b', 'c']
    """
    wrong = sorted(set(others) - {truth})
    options = [truth, *rng.sample(wrong, min(size - 1, len(wrong)))]
    rng.shuffle(options)
    return tuple(options)


def check_counts(name: str, limits: dict[str, tuple[int, int, int]]) -> None:
    """Refuse settings outside their limits: name to value, least and most."""
    for setting, (value, least, most) in limits.items():
        if not least <= value <= most:
            raise InputError(f"{name}: {setting} is {value}; it takes {least} to {most}")
