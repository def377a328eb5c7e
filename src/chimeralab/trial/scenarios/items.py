"""Scenarios as records that can be hashed, and reproducible random draws."""

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
# The number of scenarios unless a plan sets it.
DEFAULT_NUMBER = 12
# How the value of a fact is asked for, by its relation.
PROMPTS = {
    "lives in": "Where does {} live?",
    "owns": "What does {} own?",
    "joined in": "In which year did {} join?",
    "reports to": "To whom does {} report directly?",
}
OPEN_PROMPT = "How does this go on: {} {} …?"


@dataclass(frozen=True, slots=True)
class Fact(Record):
    """A subject, a relation and a value, and the sentence that states them.

    `relation` is any verb that reads well between the subject and the value.
    """

    id: str
    subject: str
    relation: str
    value: str
    text: str

    @property
    def prompt(self) -> str:
        """The question that the value answers.

        >>> Fact("f1", "Ada", "plays", "the cello", "Ada plays the cello.").prompt
        'How does this go on: Ada plays …?'
        """
        return PROMPTS.get(self.relation, OPEN_PROMPT).format(self.subject, self.relation)


@dataclass(frozen=True, slots=True)
class Clue(Record):
    """A piece of evidence for the truth, and its odds (right readings to wrong ones)."""

    text: str
    odds: float

    @property
    def reliability(self) -> float:
        """The share of right readings."""
        return 1.0 if math.isinf(self.odds) else self.odds / (1 + self.odds)


@dataclass(frozen=True, slots=True)
class Question(Record):
    """One question with its right answer.

    ``options`` is empty for a free answer. ``weight`` is the share of context that the answer
    needs, and ``difficulty`` runs from 0 to 1; both are None if they were not designed. ``needs``
    names the facts that the answer depends on. ``signal`` is the wrong answer that a stressor
    pushes, ``pushes`` the words that push it, ``evidence`` what contradicts it, weakest first.
    ``claim`` names the two people of a question about who reports to whom. ``accepts`` has all
    forms of the truth of a free answer, if there is more than one.
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
    """Facts to tell and questions to ask, both in order."""

    id: str
    kind: str
    facts: tuple[Fact, ...]
    questions: tuple[Question, ...]

    @property
    def sha256(self) -> str:
        """The hash of everything that a subject is told and asked."""
        text = json.dumps(self.as_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()


class ScenarioGenerator(Protocol):
    """The seam of scenarios: a dataclass whose fields are the settings of [scenarios].

    Only `make` is required. A set of scenarios in files has instead `read(number)`, where None
    means the default number or all there are, and `within(folder)`, which resolves its path.
    """

    def make(self, seed: int) -> Scenario:
        """Make the scenario for a seed."""


SEAM = Seam("make", {})


def uniform(*parts: Any) -> float:
    """A number from 0 to 1 that depends on its arguments alone, in every version of Python.

    An event that happens at `uniform(...) < dose` also happens at every higher dose.

    >>> uniform(1, "a") == uniform(1, "a"), 0 <= uniform(1, "a") < 1
    (True, True)
    """
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def pick(items: Sequence[T], *parts: Any) -> T:
    """Draw one of the items."""
    return items[int(uniform(*parts) * len(items))]


def shuffle(items: Sequence[T], *parts: Any) -> list[T]:
    keys = [uniform(*parts, place) for place in range(len(items))]
    return [items[place] for place in sorted(range(len(items)), key=keys.__getitem__)]


def make_rng(kind: str, seed: int) -> Random:
    """The random generator of one scenario; kinds with the same seed do not share draws."""
    return Random(f"{kind}/{seed}")  # noqa: S311 - scenarios must be reproducible, not secret


def draw_wrong(rng: Random, options: Sequence[T], truth: T) -> T:
    return rng.choice([option for option in options if option != truth])


def draw_options(rng: Random, truth: str, others: Sequence[str], size: int = 4) -> tuple[str, ...]:
    """Mix the truth with distinct wrong options.

    >>> sorted(draw_options(Random(1), "a", ["b", "a", "c"], size=3))
    ['a', 'b', 'c']
    """
    wrong = sorted(set(others) - {truth})
    options = [truth, *rng.sample(wrong, min(size - 1, len(wrong)))]
    rng.shuffle(options)
    return tuple(options)


def check_limits(name: str, limits: dict[str, tuple[int, int, int]]) -> None:
    """Reject settings outside their limits, given as value, minimum and maximum."""
    for setting, (value, low, high) in limits.items():
        if not low <= value <= high:
            raise InputError(f"{name}: {setting} must be {low} to {high}, not {value}")
