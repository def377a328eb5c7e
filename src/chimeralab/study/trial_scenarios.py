"""Where the scenarios of a trial come from: our generators, or public sets on the user's disk."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Annotated, TypeVar

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.sandbox.scenarios import GENERATORS, Question, Scenario
from chimeralab.sandbox.scenarios.benchform import read_benchform
from chimeralab.sandbox.scenarios.draw import source
from chimeralab.sandbox.scenarios.mt_consistency import read_mt_consistency
from chimeralab.sandbox.scenarios.sycon import read_sycon
from chimeralab.study.trial_sections import USUAL_NUMBER

Count = Annotated[int, Field(ge=1)]
WHICH = "Which of these two statements is true?"
T = TypeVar("T")


class SetIsGone(InputError):
    """The files of a public set are not where the plan says."""


@dataclass(frozen=True, slots=True)
class BenchForm(Record):
    """`use = "benchform"`: a scenario a task, of its first `questions` questions."""

    path: str
    questions: Count = 20
    seed: int = 0

    def within(self, folder: Path) -> "BenchForm":
        return replace(self, path=str(folder / self.path))

    def read(self, number: int | None = None) -> tuple[Scenario, ...]:
        found = read_benchform(Path(self.path), self.seed)
        return _first(found, self.questions, number, self.path)


@dataclass(frozen=True, slots=True)
class MtConsistency(Record):
    """`use = "mt-consistency"`: a scenario a subject, of its first `questions` questions."""

    path: str
    questions: Count = 20
    seed: int = 0

    def within(self, folder: Path) -> "MtConsistency":
        return replace(self, path=str(folder / self.path))

    def read(self, number: int | None = None) -> tuple[Scenario, ...]:
        found = read_mt_consistency(Path(self.path), self.seed)
        return _first(found, self.questions, number, self.path)


@dataclass(frozen=True, slots=True)
class Sycon(Record):
    """`use = "sycon"`: a scenario a question, put as a choice between correction and belief."""

    path: str
    seed: int = 0

    def within(self, folder: Path) -> "Sycon":
        return replace(self, path=str(folder / self.path))

    def read(self, number: int | None = None) -> tuple[Scenario, ...]:
        rng = source("sycon", self.seed)
        questions = read_sycon(Path(self.path)).questions
        if not questions:
            raise InputError(f"{self.path} has no question; expected those of SYCON-Bench")
        asked = _as_many(questions, number, f"{self.path} has {len(questions)} questions")
        return tuple(
            Scenario(f"sycon-{each.id}", "beliefs", (), (_closed(each, rng, self.path),))
            for each in asked
        )


def _closed(question: Question, rng: Random, path: str) -> Question:
    """The question as a choice between two statements, since a free answer needs a judge.

    Quotation marks hold each statement together: in a list, within feedback, and in a reply.
    """
    truth, lure = (_quoted(str(said)) for said in (question.truth, question.signal))
    if truth == lure:
        raise InputError(f"{path}: {question.id} has the same words for what is true and false")
    return replace(
        question,
        prompt=f"{question.prompt} {WHICH}",
        truth=truth,
        signal=lure,
        options=tuple(rng.sample((truth, lure), 2)),
    )


def _quoted(statement: str) -> str:
    """A statement in quotation marks, without its full stop.

    >>> _quoted("Water is wet. ")
    '“Water is wet”'
    """
    return f"“{statement.rstrip(' .')}”"


def _first(
    scenarios: Sequence[Scenario], questions: int, number: int | None, path: str
) -> tuple[Scenario, ...]:
    """Scenarios of equal length; those that are too short are passed over."""
    long = [each for each in scenarios if len(each.questions) >= questions]
    if not long:
        raise InputError(f"{path} has no set of {questions} questions; ask for fewer")
    taken = _as_many(long, number, f"{path} has {len(long)} sets of {questions} questions")
    return tuple(replace(each, questions=each.questions[:questions]) for each in taken)


def _as_many(found: Sequence[T], number: int | None, there: str) -> Sequence[T]:
    """The first of them; where nobody said how many, the usual number or all that there are."""
    if number is not None and number > len(found):
        raise InputError(f"{there}, and [scenarios] number asks for {number}; ask for fewer")
    return found[: number or USUAL_NUMBER]


def read_set(source: BenchForm | MtConsistency | Sycon, number: int | None) -> tuple[Scenario, ...]:
    """The scenarios of a public set; says apart from all else when its files are not there."""
    try:
        return source.read(number)
    except InputError as error:
        if Path(source.path).exists():
            raise
        raise SetIsGone(str(error)) from None


SCENARIOS: dict[str, type] = {
    **GENERATORS,
    "benchform": BenchForm,
    "mt-consistency": MtConsistency,
    "sycon": Sycon,
}
