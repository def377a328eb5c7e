"""The tables of a plan about rating: by which rubric, how models are asked, what raters reach."""

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.models.seam import Sampling
from chimeralab.rating.gate import Gate, RuleName, StatisticName
from chimeralab.rating.llm import RaterSettings
from chimeralab.rating.rubric import BUILT_IN, Rubric, load_rubric
from chimeralab.rating.rules import NAME as RULES

HUMAN = "human:"
RaterName = Annotated[str, Field(pattern=rf"^({HUMAN})?[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Count = Annotated[int, Field(ge=1)]
SampledBy = Literal["condition", "verdict"]


@dataclass(frozen=True, slots=True)
class RubricTable(Record):
    """[rubric]: the file of the rubric, by default ours. What it is goes into the lock."""

    file: str | None = None
    version: str | None = None
    sha256: str | None = None

    def within(self, folder: Path) -> "RubricTable":
        """The table with the version and the hash of the file written out."""
        rubric = self.load(folder)
        for name in ("version", "sha256"):
            asked, present = getattr(self, name), getattr(rubric, name)
            if asked not in (None, present):
                raise InputError(f"[rubric] {name} = '{asked}', and the rubric's is '{present}'")
        return replace(self, version=rubric.version, sha256=rubric.sha256)

    def load(self, folder: Path) -> Rubric:
        return load_rubric(BUILT_IN if self.file is None else folder / self.file)


@dataclass(frozen=True, slots=True)
class RatersTable(Record):
    """[raters]: how a model is asked for a rating."""

    retries: Annotated[int, Field(ge=0)] = 2
    temperature: Annotated[float, Field(ge=0)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.95
    max_tokens: Count = 400
    seed: int = 0

    @property
    def settings(self) -> RaterSettings:
        sampling = Sampling(self.temperature, self.top_p, self.max_tokens)
        return RaterSettings(self.retries, sampling, self.seed)


@dataclass(frozen=True, slots=True)
class GateTable(Record):
    """[gate]: who has to agree how far, on how many items. Without raters there is no gate.

    A rater is `rules`, a model of the plan, or a person as `human:NAME`. Without a sample the gate
    is held on every finished conversation that was not calibrated on.
    """

    raters: tuple[RaterName, ...] = ()
    statistic: StatisticName = "kappa"
    threshold: float = 0.80
    rule: RuleName = "point"
    sample: Count | None = None
    by: SampledBy = "condition"
    attempts: Count = 1

    def __post_init__(self) -> None:
        if len(self.raters) == 1 or len(set(self.raters)) < len(self.raters):
            raise InputError(
                f"raters = {list(self.raters)}: agreement needs two or more, each once"
            )
        if not self.raters and any(getattr(self, f.name) != f.default for f in fields(self)):
            raise InputError("needs raters = [...]: a gate says who has to agree")
        if self.sample is None and self.by == "verdict":
            raise InputError("by = 'verdict' needs sample = N: what is not drawn is not balanced")
        self.gate("all")

    @property
    def declared(self) -> bool:
        return bool(self.raters)

    def gate(self, population: str) -> Gate:
        return Gate(self.statistic, self.threshold, self.rule, population, self.attempts)

    def check(self, models: Collection[str]) -> None:
        """Refuse raters that nobody could be."""
        for rater in self.raters:
            if rater != RULES and rater not in models and not rater.startswith(HUMAN):
                raise InputError(
                    f"unknown rater '{rater}' in [gate] raters; known: {RULES}, "
                    f"{', '.join(models)}, or {HUMAN}NAME for a person"
                )
