"""What a scenario consists of, as plain frozen records that can be hashed."""

import hashlib
import json
from dataclasses import dataclass
from typing import Literal, Protocol

from chimeralab.core.records import Record
from chimeralab.sandbox.trials import Answer, Frame

Relation = Literal["lives in", "owns", "joined in", "reports to"]


@dataclass(frozen=True, slots=True)
class Fact(Record):
    """One entry of a ledger: who, what about them, and the sentence that says so."""

    id: str
    subject: str
    relation: Relation
    value: str
    text: str


@dataclass(frozen=True, slots=True)
class Evidence(Record):
    """Something that speaks for the truth, and by which odds (right readings to wrong ones)."""

    text: str
    odds: float


@dataclass(frozen=True, slots=True)
class Question(Record):
    """One trial as it will be put to a subject.

    ``options`` is empty for a free answer. ``weight`` is the share of context that the answer
    needs, ``difficulty`` runs from 0 to 1; both are set by the design, and None where there was
    none. ``needs`` names the facts that the answer rests on. ``signal`` is the wrong answer that
    a stressor would push, ``pushes`` the words that push it, ``evidence`` what speaks against it,
    weakest first. ``claim`` names the two people of a yes-or-no question about who reports to whom.
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
    evidence: tuple[Evidence, ...] = ()
    pushes: tuple[str, ...] = ()
    claim: tuple[str, str] | None = None


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


class Generator(Protocol):
    """Makes any number of scenarios, each decided by its seed alone."""

    def make(self, seed: int) -> Scenario: ...
