"""The rating tables of a plan: [rubric], [raters] and [gate]."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.parts import Part, PartLoader, read_part, read_record, read_value
from chimeralab.core.records import Record
from chimeralab.rating.gate import Gate, RuleName, StatisticName, ValidityBar
from chimeralab.rating.ratings import SEAM, RaterPart
from chimeralab.rating.rubric import BUILT_IN, Rubric, load_rubric
from chimeralab.rating.rules import NAME, RulesPart
from chimeralab.stats.planning import KappaPower, gate_power

# Built-in raters. Models of a plan can rate too, and so can people, whose names have this prefix.
RATERS: dict[str, RaterPart] = {NAME: RulesPart()}
HUMAN = "human:"

OwnName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
RaterName = Annotated[str, Field(pattern=rf"^({HUMAN})?[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Count = Annotated[int, Field(ge=1)]
SampledBy = Literal["condition", "verdict"]

# The best case for kappa, and the share of loops among 720 conversations of a published study.
PREVALENCES = (0.5, 0.91)
TOO_OFTEN, TOO_RARELY = 0.1, 0.5


@dataclass(frozen=True, slots=True)
class RubricTable(Record):
    """[rubric]: the file of the rubric, by default the built-in one; the lock pins its hash."""

    file: str | None = None
    version: str | None = None
    sha256: str | None = None

    @classmethod
    def read(cls, table: Any, place: str, loader: PartLoader) -> "RubricTable":
        """Read the table and resolve the version and the hash of the file."""
        read = read_record(cls, table, place)
        rubric = read.load(loader.folder)
        for name in ("version", "sha256"):
            asked, present = getattr(read, name), getattr(rubric, name)
            if asked not in (None, present):
                raise InputError(f"{place} {name} = '{asked}', but the rubric's is '{present}'")
        return replace(read, version=rubric.version, sha256=rubric.sha256)

    def load(self, folder: Path) -> Rubric:
        return load_rubric(BUILT_IN if self.file is None else folder / self.file)


@dataclass(frozen=True, slots=True)
class RatersTable(Record):
    """[raters]: how models are asked for a rating, and [raters.NAME]: custom raters."""

    retries: Annotated[int, Field(ge=0)] = 2
    temperature: Annotated[float, Field(ge=0)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.95
    max_tokens: Count = 400
    seed: int = 0
    own: Mapping[str, Part] = field(default_factory=dict)

    @classmethod
    def read(cls, table: Any, place: str, loader: PartLoader) -> "RatersTable":
        named = table if isinstance(table, Mapping) else {}
        own = {name: value for name, value in named.items() if isinstance(value, Mapping)}
        settings = table if not own else {k: v for k, v in named.items() if k not in own}
        parts = {}
        for name, value in own.items():
            at = f"[raters.{name}]"
            read_value(OwnName, name, "[raters] the name")
            use = value.get("use")
            if not isinstance(use, str) or ":" not in use:
                raise InputError(f"{at} needs use = 'module:Class', a custom rater")
            parts[name] = read_part({}, value, at, loader, SEAM)
            if not callable(getattr(parts[name].settings, "open", None)):
                raise InputError(f"use = {use!r} in {at} has no method open(rubric)")
        return replace(read_record(cls, settings, place), own=parts)

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(self.own.values())

    def asking(self) -> dict[str, Any]:
        """The settings for models."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "own"}

    def as_dict(self) -> dict[str, Any]:
        """Leave out `own` when empty, to keep the hash of plans that were locked without it."""
        own = {name: part.as_dict() for name, part in self.own.items()}
        return {**self.asking(), **({"own": own} if own else {})}


@dataclass(frozen=True, slots=True)
class GateTable(Record):
    """[gate]: which raters must agree how well, on how many items; without raters, no gate.

    A rater is `rules`, a model of the plan, a custom rater, or a person as `human:NAME`. Without
    `sample`, the gate is decided on every finished conversation outside calibration samples.
    `validity` is what the detector must reach against each rater.
    """

    raters: tuple[RaterName, ...] = ()
    statistic: StatisticName = "kappa"
    threshold: float = 0.80
    rule: RuleName = "lower_ci"
    sample: Count | None = None
    by: SampledBy = "condition"
    attempts: Count = 1
    seed: int = 0
    validity: ValidityBar | None = None

    def __post_init__(self) -> None:
        if len(self.raters) == 1 or len(set(self.raters)) < len(self.raters):
            raise InputError(
                f"raters = {list(self.raters)}: agreement needs two or more distinct raters"
            )
        if not self.raters and any(getattr(self, f.name) != f.default for f in fields(self)):
            raise InputError("needs raters = [...]: who has to agree?")
        if self.sample is None and self.by == "verdict":
            raise InputError("by = 'verdict' needs sample = N: only a sample can be balanced")
        self.gate("all")

    @property
    def declared(self) -> bool:
        return bool(self.raters)

    def gate(self, population: str) -> Gate:
        return Gate(self.statistic, self.threshold, self.rule, population, self.attempts)

    def power(self, conversations: int, prompts: int) -> tuple[KappaPower, ...]:
        """The power of the gate for different shares of loops.

        Conversations on one prompt are a cluster, as in the audit.
        """
        # With balanced labels, agreement is kappa on another scale.
        threshold = 2 * self.threshold - 1 if self.statistic == "agreement" else self.threshold
        if not self.declared or not -0.9 < threshold < 1:
            return ()
        of_kappa = self.statistic in ("kappa", "alpha")
        items, bound = min(self.sample or conversations, conversations), self.rule == "lower_ci"
        others = max(conversations - 1, 1)
        partners = (items - 1) * (conversations / prompts - 1) / others
        return tuple(
            gate_power(items, threshold, share, lower_bound=bound, partners=partners)
            for share in (PREVALENCES if of_kappa else PREVALENCES[:1])
        )

    def advise(self, power: Sequence[KappaPower]) -> Iterator[str]:
        """Warn of a gate that passes by chance or can hardly be met."""
        if not power:
            return
        best = power[0]
        threshold = 2 * best.good - 1
        if self.rule == "point" and best.poor_passes > TOO_OFTEN:
            yield (
                "the gate passes by chance: with rule = 'point', raters with a true kappa of "
                f"{best.poor:.2f} meet it with a probability of {100 * best.poor_passes:.0f} %; "
                "use rule = 'lower_ci'"
            )
        if self.rule == "lower_ci" and best.best < threshold:
            yield (
                f"the gate can't be met: on {best.items} items even perfect agreement has a lower "
                f"bound of {best.best:.2f}, below {threshold:.2f}"
            )
        elif best.good_passes < TOO_RARELY:
            yield (
                f"the gate has little power: raters with a true kappa of {best.good:.2f} meet it "
                f"with a probability of {100 * best.good_passes:.0f} % at best; `chimera "
                "plan-ratings` says how many items it takes"
            )


def check_raters(gate: GateTable, raters: RatersTable, models: Collection[str]) -> None:
    """Reject unknown raters of a gate, and a custom rater whose name is taken."""
    taken = next((name for name in raters.own if name in RATERS or name in models), None)
    if taken:
        raise InputError(f"[raters.{taken}]: the name '{taken}' is taken by another rater")
    for rater in gate.raters:
        check_rater_name(rater, raters, models, " in [gate] raters")


def check_rater_name(
    name: str, raters: RatersTable, models: Collection[str], place: str = ""
) -> None:
    known = (*RATERS, *raters.own, *models)
    if name not in known and (name == HUMAN or not name.startswith(HUMAN)):
        raise InputError(
            f"unknown rater '{name}'{place}; known: {', '.join(known)}, or {HUMAN}NAME for a person"
        )
