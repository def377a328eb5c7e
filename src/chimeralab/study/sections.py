"""The tables of a plan, each a frozen record with its defaults."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from chimeralab.analysis.selfplay.outcomes import Outcomes
from chimeralab.core.records import Record
from chimeralab.models.seam import Sampling
from chimeralab.runner import Price
from chimeralab.study.rating_sections import GateTable, RatersTable, RubricTable

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True)
class About(Record):
    """[study]: what is asked."""

    name: Annotated[str, Field(min_length=1)]
    question: str = ""
    kind: Literal["selfplay", "trial"] = "selfplay"


@dataclass(frozen=True, slots=True)
class SamplingChange(Record):
    """[sampling], wherever it stands: what is not named stays as it was further out."""

    temperature: Annotated[float, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: Count | None = None

    def on(self, base: Sampling) -> Sampling:
        changes = {key: value for key, value in self.as_dict().items() if value is not None}
        return replace(base, **changes)


@dataclass(frozen=True, slots=True)
class Declared(Record):
    """The keys of [models.NAME] that every kind of model has.

    A revision is what the plan's author declares; no server lets us check it.
    """

    revision: str | None = None
    price: Price | None = None
    sampling: SamplingChange = field(default_factory=SamplingChange)


@dataclass(frozen=True, slots=True)
class SpeakerTable(Record):
    """A speaker of a condition that is more than the name of a model."""

    model: str
    name: Name | None = None
    system: str | None = None
    sampling: SamplingChange = field(default_factory=SamplingChange)


@dataclass(frozen=True, slots=True)
class ConditionTable(Record):
    """[conditions.NAME]: who speaks, in turn, and what is done on collapse."""

    speakers: tuple[str | SpeakerTable, ...]
    system: str | None = None
    sampling: SamplingChange = field(default_factory=SamplingChange)
    countermeasure: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class PromptTable(Record):
    """[prompts]: where the seed prompts stand, in a file or here."""

    file: str | None = None
    items: tuple[dict[str, Any], ...] | None = None


@dataclass(frozen=True, slots=True)
class RunTable(Record):
    """[run]: how the work is done. Limits can be set anew for each run on the command line."""

    seed: int = 0
    concurrency: Count = 8
    interleave: bool = True
    max_cost: Annotated[float, Field(ge=0)] | None = None
    max_hours: Annotated[float, Field(gt=0)] | None = None
    retry_wait: Annotated[float, Field(ge=0)] = 1.0


# Tables that later steps read are named here, each with its record. They become part of the lock
# like all others, and `plan.extras["gate"]` holds them.
EXTRA_TABLES: dict[str, type] = {
    "outcomes": Outcomes,
    "rubric": RubricTable,
    "raters": RatersTable,
    "gate": GateTable,
}
