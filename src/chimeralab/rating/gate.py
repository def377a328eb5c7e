"""The gate: what was required of raters and detector, whether they met it, what may be claimed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.core.result_words import FACT, MARK, ResultWords
from chimeralab.stats.intervals import Interval
from chimeralab.stats.raters import RatersPanel

StatisticName = Literal["kappa", "alpha", "pabak", "ac1", "agreement"]
RuleName = Literal["point", "lower_ci"]
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


# What nobody may write of a study whose detector was not compared with raters, or fell short.
FORBIDDEN = (
    "validated",
    "validates",
    "validation",
    "confirmed by human raters",
    "confirmed by raters",
    "confirmed by people",
)


@dataclass(frozen=True, slots=True)
class ClaimScope(Record):
    """What a report may claim after the gate, and the words that it must do without."""

    name: Literal["validated", "reliable", "descriptive"]
    sentence: str
    forbidden: tuple[str, ...]

    @property
    def words(self) -> ResultWords:
        """How results are told: what the detector found is its mark until it is validated."""
        return FACT if self.name == "validated" else MARK


NO_AUDIT = ClaimScope(
    "descriptive",
    "No reliability audit has been run. Every claim about collapse describes what the detector "
    "marked and compares conditions; whether people would call the same turns collapsed has not "
    "been asked.",
    FORBIDDEN,
)


@dataclass(frozen=True, slots=True)
class GateOutcome(Record):
    """Whether a gate was met. Without a value, `reason` says why, and the gate is not met.

    Raters who agree make a label reliable; a detector that agrees with them is validated.
    """

    gate: Gate
    declared: bool
    passed: bool
    value: float | None
    compared: float | None
    reason: str
    validity: ValidityOutcome = NOT_ASKED

    @property
    def name(self) -> OutcomeName:
        """The raters come first, then the detector."""
        if not self.passed:
            return "not reliable"
        return "validated" if self.validity.passed else "reliable, not validated"

    @property
    def headline(self) -> str:
        """The verdict in a few words."""
        if self.declared:
            return f"{'Gate met' if self.passed else 'Gate NOT met'} ({self.name})"
        return f"No gate was named. The customary one would {'' if self.passed else 'not '}be met"

    @property
    def scope(self) -> ClaimScope:
        """What every later report has to keep to."""
        if self.name == "not reliable":
            return ClaimScope(
                "descriptive",
                f"The reliability gate ({self.gate}) was not met. Every claim about collapse "
                "describes what the detector marked and compares conditions; none rests on labels "
                "that raters agree on.",
                FORBIDDEN,
            )
        met = f"The reliability gate ({self.gate}) was met on {self.gate.population}"
        if self.name == "validated":
            agreed = "the detector agrees with every rater as declared"
            return ClaimScope("validated", f"{met}, and {agreed} ({self.validity}).", ())
        return ClaimScope(
            "reliable",
            f"{met}: the labels are reliable. The detector is not validated: "
            f"{self.validity.reason}. Every claim about collapse describes what the detector "
            "marked.",
            FORBIDDEN,
        )

    def as_json(self) -> dict[str, Any]:
        """The gate and its outcome in one object, without what was asked of the detector."""
        values = self.as_dict()
        del values["validity"]
        return {**values.pop("gate"), **values}


def judge_gate(gate: Gate, panel: RatersPanel, *, declared: bool = True) -> GateOutcome:
    """Compare a panel with a gate. Of more than two raters the weakest pair counts."""
    value, interval, why_undefined, where = _figure(gate.statistic, panel)
    bound = None if interval is None else interval.low
    compared = value if gate.rule == "point" else bound
    if compared is None:
        reason = f"{gate.statistic} is undefined: {why_undefined}"
        return GateOutcome(gate, declared, False, value, None, reason)
    passed = compared >= gate.threshold
    verb = "reaches" if passed else "stays below"
    reason = f"{compared:.4f}{where} {verb} {gate.threshold:.2f}"
    return GateOutcome(gate, declared, passed, value, compared, reason)


def _figure(
    statistic: StatisticName, panel: RatersPanel
) -> tuple[float | None, Interval | None, str, str]:
    """The statistic of all raters, or of the pair that agrees least.

    With its interval, why it is undefined if it is, and the pair where there are more than one.
    """
    if statistic == "alpha":
        return panel.alpha, panel.alpha_ci, panel.reasons.get("alpha", ""), ""
    figures = []
    for pair, found in panel.pairs.items():
        where = f" ({', '.join(pair)})" if len(panel.pairs) > 1 else ""
        agreed = found.pabak_ci and Interval(*((1 + bound) / 2 for bound in found.pabak_ci))
        intervals = {"kappa": found.kappa_ci_score, "pabak": found.pabak_ci, "agreement": agreed}
        why, interval = found.reasons.get(statistic, ""), intervals.get(statistic)
        figures.append((getattr(found, statistic), interval, why, where))
    undefined = next((figure for figure in figures if figure[0] is None), None)
    return undefined or min(figures, key=lambda figure: figure[0])


def forbidden_words(text: str, scope: ClaimScope) -> Iterator[tuple[int, str]]:
    """Every line where a text claims more than the gate allows, with the words that do."""
    if not scope.forbidden:
        return
    # A line break or a tie of LaTeX may stand where the phrase has a space.
    phrases = (re.escape(words).replace(r"\ ", r"[\s~]+") for words in scope.forbidden)
    # Whoever says that something is not validated claims nothing.
    pattern = rf"(?<!\bnot[\s~])\b(?:{'|'.join(phrases)})\b"
    for found in re.finditer(pattern, text, re.IGNORECASE):
        line = text.count("\n", 0, found.start()) + 1
        yield line, " ".join(found[0].replace("~", " ").split())


def check_wording(text: str, scope: ClaimScope) -> None:
    """Refuse a text that claims more than the gate allows."""
    for line, words in forbidden_words(text, scope):
        raise InputError(f"line {line} says '{words}', and the gate does not allow it: reword it")
