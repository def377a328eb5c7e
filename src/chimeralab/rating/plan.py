"""What a plan says about rating: by which rubric, who rates and how, and what raters must reach."""

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

# The raters that are there without being declared. Models of a plan are raters too, and so are
# people, who go by this prefix.
RATERS: dict[str, RaterPart] = {NAME: RulesPart()}
HUMAN = "human:"

OwnName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
RaterName = Annotated[str, Field(pattern=rf"^({HUMAN})?[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Count = Annotated[int, Field(ge=1)]
SampledBy = Literal["condition", "verdict"]

# How many of the 720 conversations of a published study raters called loops; half of them would be
# the best case.
PREVALENCES = (0.5, 0.91)
TOO_OFTEN, TOO_RARELY = 0.1, 0.5


@dataclass(frozen=True, slots=True)
class RubricTable(Record):
    """[rubric]: the file of the rubric, by default ours. What it is goes into the lock."""

    file: str | None = None
    version: str | None = None
    sha256: str | None = None

    @classmethod
    def read(cls, table: Any, place: str, loader: PartLoader) -> "RubricTable":
        """The table of a plan, with the version and the hash of the file written out."""
        read = read_record(cls, table, place)
        rubric = read.load(loader.folder)
        for name in ("version", "sha256"):
            asked, present = getattr(read, name), getattr(rubric, name)
            if asked not in (None, present):
                raise InputError(f"{place} {name} = '{asked}', and the rubric's is '{present}'")
        return replace(read, version=rubric.version, sha256=rubric.sha256)

    def load(self, folder: Path) -> Rubric:
        return load_rubric(BUILT_IN if self.file is None else folder / self.file)


@dataclass(frozen=True, slots=True)
class RatersTable(Record):
    """[raters]: how a model is asked for a rating, and [raters.NAME] with raters of your own."""

    retries: Annotated[int, Field(ge=0)] = 2
    temperature: Annotated[float, Field(ge=0)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.95
    max_tokens: Count = 400
    seed: int = 0
    own: Mapping[str, Part] = field(default_factory=dict)

    @classmethod
    def read(cls, table: Any, place: str, loader: PartLoader) -> "RatersTable":
        """The table of a plan, with the raters of its own."""
        named = table if isinstance(table, Mapping) else {}
        own = {name: value for name, value in named.items() if isinstance(value, Mapping)}
        settings = table if not own else {k: v for k, v in named.items() if k not in own}
        parts = {}
        for name, value in own.items():
            at = f"[raters.{name}]"
            read_value(OwnName, name, "[raters] the name")
            use = value.get("use")
            if not isinstance(use, str) or ":" not in use:
                raise InputError(f"{at} needs use = 'module:Class', a rater of your own")
            parts[name] = read_part({}, value, at, loader, SEAM)
            if not callable(getattr(parts[name].settings, "open", None)):
                raise InputError(
                    f"use = {use!r} in {at} has no method open(rubric), as raters have"
                )
        return replace(read_record(cls, settings, place), own=parts)

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(self.own.values())

    def asking(self) -> dict[str, Any]:
        """How a model is asked, as plain values."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "own"}

    def as_dict(self) -> dict[str, Any]:
        """A plan without raters of its own locks as it did before there could be any."""
        own = {name: part.as_dict() for name, part in self.own.items()}
        return {**self.asking(), **({"own": own} if own else {})}


@dataclass(frozen=True, slots=True)
class GateTable(Record):
    """[gate]: who has to agree how far, on how many items. Without raters there is no gate.

    A rater is `rules`, a model of the plan, a rater of your own, or a person as `human:NAME`.
    Without a sample the gate is decided on every finished conversation that was not calibrated on.
    The sample is drawn by `seed`. `validity` is what the detector must reach against each rater.

    A plan that declares a gate now goes by the lower bound and has a seed, also where it does not
    say so. One that was locked before there were seeds keeps the value as its rule, and its seed
    is given when the sample is drawn.
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

    def power(self, conversations: int, prompts: int) -> tuple[KappaPower, ...]:
        """What the items of the gate can show, by the share of loops among them.

        Conversations on one prompt are one cluster, in the gate as here; a sample is as if drawn
        from all of them.
        """
        # Where half the labels are 1, agreement is kappa on another scale, and so are the others.
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
        """Whether a gate can decide anything."""
        if not power:
            return
        best = power[0]
        threshold = 2 * best.good - 1
        if self.rule == "point" and best.poor_passes > TOO_OFTEN:
            yield (
                "the gate passes on noise: with rule = 'point', raters with a true kappa of "
                f"{best.poor:.2f} meet it with a chance of {100 * best.poor_passes:.0f} %; "
                "use rule = 'lower_ci'"
            )
        if self.rule == "lower_ci" and best.best < threshold:
            yield (
                f"the gate can't be met: on {best.items} items even raters who agree on all of "
                f"them have a lower bound of {best.best:.2f}, and {threshold:.2f} is asked for"
            )
        elif best.good_passes < TOO_RARELY:
            yield (
                f"the gate can hardly decide: raters with a true kappa of {best.good:.2f} meet it "
                f"with a chance of {100 * best.good_passes:.0f} % at best; `chimera plan-ratings` "
                "says how many items it takes"
            )


def check_raters(gate: GateTable, raters: RatersTable, models: Collection[str]) -> None:
    """Refuse raters of a gate that nobody could be, and one name for two raters."""
    taken = next((name for name in raters.own if name in RATERS or name in models), None)
    if taken:
        raise InputError(f"[raters.{taken}]: the plan has a rater '{taken}' already; rename yours")
    for rater in gate.raters:
        check_rater_name(rater, raters, models, " in [gate] raters")


def check_rater_name(
    name: str, raters: RatersTable, models: Collection[str], place: str = ""
) -> None:
    """Refuse a name that no rater of a plan goes by."""
    known = (*RATERS, *raters.own, *models)
    if name not in known and (name == HUMAN or not name.startswith(HUMAN)):
        raise InputError(
            f"unknown rater '{name}'{place}; known: {', '.join(known)}, or {HUMAN}NAME for a person"
        )
