"""The tables that only a plan of kind "trial" has, each a frozen record with its defaults."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from chimeralab.core.records import Record
from chimeralab.sandbox.probes import PROBES, Probe

Count = Annotated[int, Field(ge=1)]
SYSTEM = "You take part in a test. Reply with the answer alone."


@dataclass(frozen=True, slots=True)
class TrialTable(Record):
    """[trial]: who is tested, how often, and under which design.

    `factorial` names the stressors that are crossed with each other: every combination is an arm,
    the untouched control among them. `each` names those that get an arm of their own. `dose` varies
    one key of one stressor. `measures` names countermeasures, each tried against the stressor that
    it is for. `sham` adds the arm that gets neutral text in the place of all stressors.
    """

    subjects: Annotated[tuple[str, ...], Field(min_length=1)]
    factorial: tuple[str, ...] = ()
    each: tuple[str, ...] = ()
    dose: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    measures: tuple[str, ...] = ()
    sham: bool = True
    repeats: Count = 1
    system: str | None = SYSTEM
    probes: tuple[Probe, ...] = PROBES


@dataclass(frozen=True, slots=True)
class ScenarioCount(Record):
    """The keys of [scenarios] that every kind of scenario has.

    Without a `number` it is the usual one, or as many as a smaller set has.
    """

    number: Count | None = None
    first: Annotated[int, Field(ge=0)] = 1


@dataclass(frozen=True, slots=True)
class ArmTable(Record):
    """[arms.NAME]: stressors with what they change of their settings, and a countermeasure."""

    stressors: dict[str, dict[str, Any]] = field(default_factory=dict)
    countermeasure: dict[str, Any] | None = None
    sham: bool = False
    dose: float | None = None
