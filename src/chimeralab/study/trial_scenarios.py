"""Where the scenarios of a trial come from: our generators, or public sets on the user's disk."""

from dataclasses import dataclass, replace
from pathlib import Path

from chimeralab.errors import InputError
from chimeralab.records import Record
from chimeralab.sandbox.scenarios import GENERATORS, Scenario
from chimeralab.sandbox.scenarios.benchform import read_benchform


@dataclass(frozen=True, slots=True)
class BenchForm(Record):
    """`use = "benchform"`: one scenario a task, of its first `questions` questions."""

    path: str
    questions: int = 20
    seed: int = 0

    def within(self, folder: Path) -> "BenchForm":
        return replace(self, path=str(folder / self.path))

    def read(self, number: int) -> tuple[Scenario, ...]:
        tasks = read_benchform(Path(self.path), self.seed)
        long = [task for task in tasks if len(task.questions) >= self.questions][:number]
        if not long:
            raise InputError(f"{self.path} has no task with {self.questions} questions or more")
        return tuple(replace(task, questions=task.questions[: self.questions]) for task in long)


SCENARIOS: dict[str, type] = {**GENERATORS, "benchform": BenchForm}
