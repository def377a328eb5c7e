"""The gate: what was required of raters and detector in advance, and whether they met it."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.stats.intervals import Interval
from chimeralab.stats.raters import RatersPanel

StatisticName = Literal["kappa", "alpha", "pabak", "ac1", "agreement"]
RuleName = Literal["point", "lower_ci"]
# Raters who agree make a label reliable; a detector that agrees with them is validated.
OutcomeName = Literal["not reliable", "reliable, not validated", "validated"]


@dataclass(frozen=True, slots=True)
class Gate(Record):
    """A statistic, the least it must reach, and whether its value or its lower bound is meant.

    `population` says what the items stand for; kappa on a sample that was balanced by the
    detector's verdict is another quantity than kappa on all runs.
    """

    statistic: StatisticName = "kappa"
    threshold: float = 0.80
    rule: RuleName = "lower_ci"
    population: str = "the rated items"
    attempts: int = 1

    def __post_init__(self) -> None:
        if not -1 <= self.threshold <= 1:
            raise InputError(f"threshold {self.threshold}: agreement lies between -1 and 1")
        if self.statistic == "ac1" and self.rule == "lower_ci":
            raise InputError("ac1 has no interval here: use the rule point, or another statistic")

    def __str__(self) -> str:
        bound = "lower 95 % bound of " if self.rule == "lower_ci" else ""
        return f"{bound}{self.statistic} at least {self.threshold:.2f}"


@dataclass(frozen=True, slots=True)
class GateOutcome(Record):
    """Whether a gate was met. Without a value, `reason` says why, and the gate is not met."""

    gate: Gate
    declared: bool
    passed: bool
    value: float | None
    compared: float | None
    reason: str

    def as_json(self) -> dict[str, Any]:
        """The gate and its outcome in one object."""
        values = self.as_dict()
        return {**values.pop("gate"), **values}


@dataclass(frozen=True, slots=True)
class ValidityBar(Record):
    """What the detector must reach against every rater of the gate before it is called validated.

    >>> print(ValidityBar(sensitivity=0.8, specificity=0.9))
    sensitivity at least 0.80, specificity at least 0.90
    """

    sensitivity: float | None = None
    specificity: float | None = None
    kappa: float | None = None

    def __post_init__(self) -> None:
        if not self.as_dict():
            raise InputError("needs sensitivity, specificity or kappa: how well must it agree?")
        for name, least in self.as_dict().items():
            if not 0 <= least <= 1:
                raise InputError(f"{name} = {least}: give a share between 0 and 1")

    def __str__(self) -> str:
        return ", ".join(f"{name} at least {least:.2f}" for name, least in self.as_dict().items())

    def as_dict(self) -> dict[str, Any]:
        """What is asked for, and nothing else."""
        names = ("sensitivity", "specificity", "kappa")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


@dataclass(frozen=True, slots=True)
class ValidityOutcome(Record):
    """Whether the detector agrees with the raters as far as was declared, and why (not)."""

    bar: ValidityBar | None
    rule: RuleName
    passed: bool
    reason: str

    def __str__(self) -> str:
        bound = "lower 95 % bounds: " if self.rule == "lower_ci" else ""
        return f"{bound}{self.bar}" if self.bar else "nothing was declared"


NOT_ASKED = ValidityOutcome(None, "lower_ci", False, "the plan declares no validity in [gate]")


def outcome_name(outcome: GateOutcome, validity: ValidityOutcome) -> OutcomeName:
    """The outcome of a gate: its raters first, then the detector."""
    if not outcome.passed:
        return "not reliable"
    return "validated" if validity.passed else "reliable, not validated"


class GateFigure(NamedTuple):
    """A statistic as the gate reads it, with the pair of raters it comes from."""

    value: float | None
    interval: Interval | None
    why_undefined: str
    where: str = ""


def judge_gate(gate: Gate, panel: RatersPanel, *, declared: bool = True) -> GateOutcome:
    """Compare a panel with a gate. Of more than two raters the weakest pair counts."""
    measured = _figure(gate.statistic, panel)
    bound = None if measured.interval is None else measured.interval.low
    compared = measured.value if gate.rule == "point" else bound
    if compared is None:
        reason = f"{gate.statistic} is undefined: {measured.why_undefined}"
        return GateOutcome(gate, declared, False, measured.value, None, reason)
    passed = compared >= gate.threshold
    verb = "reaches" if passed else "stays below"
    reason = f"{compared:.4f}{measured.where} {verb} {gate.threshold:.2f}"
    return GateOutcome(gate, declared, passed, measured.value, compared, reason)


def _figure(statistic: StatisticName, panel: RatersPanel) -> GateFigure:
    """The statistic of all raters, or of the pair that agrees least."""
    if statistic == "alpha":
        return GateFigure(panel.alpha, panel.alpha_ci, panel.reasons.get("alpha", ""))
    figures = []
    for pair, found in panel.pairs.items():
        agreed = found.pabak_ci and Interval(*((1 + bound) / 2 for bound in found.pabak_ci))
        intervals = {"kappa": found.kappa_ci_score, "pabak": found.pabak_ci, "agreement": agreed}
        why, interval = found.reasons.get(statistic, ""), intervals.get(statistic)
        figures.append(
            GateFigure(getattr(found, statistic), interval, why, f" ({', '.join(pair)})")
        )
    undefined = [figure for figure in figures if figure.value is None]
    weakest = undefined[0] if undefined else min(figures, key=lambda figure: figure.value or 0)
    return weakest if len(figures) > 1 else weakest._replace(where="")
