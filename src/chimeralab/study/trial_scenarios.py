"""Where the scenarios of a trial come from: our generators, or public sets on the user's disk."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from chimeralab.errors import InputError
from chimeralab.records import Record
from chimeralab.sandbox.scenarios import GENERATORS, Scenario
from chimeralab.sandbox.scenarios.benchform import read_benchform
from chimeralab.sandbox.scenarios.mt_consistency import read_mt_consistency

Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True)
class BenchForm(Record):
    """`use = "benchform"`: a scenario a task, of its first `questions` questions."""

    path: str
    questions: Count = 20
    seed: int = 0

    def within(self, folder: Path) -> "BenchForm":
        return replace(self, path=str(folder / self.path))

    def read(self, number: int) -> tuple[Scenario, ...]:
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

    def read(self, number: int) -> tuple[Scenario, ...]:
        found = read_mt_consistency(Path(self.path), self.seed)
        return _first(found, self.questions, number, self.path)


def _first(
    scenarios: Sequence[Scenario], questions: int, number: int, path: str
) -> tuple[Scenario, ...]:
    """Scenarios of equal length; those that are too short are passed over."""
    long = [each for each in scenarios if len(each.questions) >= questions][:number]
    if not long:
        raise InputError(f"{path} has no set of {questions} questions; ask for fewer")
    return tuple(replace(each, questions=each.questions[:questions]) for each in long)


SCENARIOS: dict[str, type] = {
    **GENERATORS,
    "benchform": BenchForm,
    "mt-consistency": MtConsistency,
}
