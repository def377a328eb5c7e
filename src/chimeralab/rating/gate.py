"""The reliability gate: what it requires, whether it is met, and what may then be claimed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, inf
from typing import Annotated, Any, Literal

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import between, number, plural
from chimeralab.core.parts import PartLoader, read_record
from chimeralab.core.records import Record
from chimeralab.core.result_words import FACT, MARK, ResultWords
from chimeralab.stats.intervals import Interval, normal_quantile
from chimeralab.stats.planning import KappaPower, gate_power
from chimeralab.stats.raters import RatersPanel

StatisticName = Literal["kappa", "alpha", "pabak", "ac1", "agreement"]
RuleName = Literal["point", "lower_ci"]
SampledBy = Literal["condition", "verdict"]
Count = Annotated[int, Field(ge=1)]
HUMAN = "human:"  # the prefix of the names of people
RaterName = Annotated[str, Field(pattern=rf"^({HUMAN})?[A-Za-z0-9][A-Za-z0-9_.-]*$")]
OutcomeName = Literal["not reliable", "reliable, not validated", "validated"]

# The best case for kappa, and the share of loops among 720 conversations of a published study.
PREVALENCES = (0.5, 0.91)
TOO_OFTEN, TOO_RARELY = 0.1, 0.5


@dataclass(frozen=True, slots=True)
class ValidityBar(Record):
    """What the detector must reach against every rater of the gate to count as validated.

    >>> print(ValidityBar(sensitivity=0.8, specificity=0.9))
    sensitivity at least 0.80, specificity at least 0.90
    """

    sensitivity: float | None = None
    specificity: float | None = None
    kappa: float | None = None

    def __post_init__(self) -> None:
        if not self.as_dict():
            raise InputError("needs at least one of sensitivity, specificity and kappa")
        for name, least in self.as_dict().items():
            if not 0 <= least <= 1:
                raise InputError(f"{name} = {least}: must be between 0 and 1")

    def __str__(self) -> str:
        return ", ".join(f"{name} at least {least:.2f}" for name, least in self.as_dict().items())

    def as_dict(self) -> dict[str, Any]:
        """The thresholds that are set."""
        names = ("sensitivity", "specificity", "kappa")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @property
    def items_needed(self) -> float:
        """The fewest items whose lower bounds can reach the shares, if no verdict is wrong.

        >>> ValidityBar(sensitivity=0.8, specificity=0.9).items_needed
        51
        """
        shares = [share for share in (self.sensitivity, self.specificity) if share is not None]
        reach = normal_quantile() ** 2
        return inf if 1 in shares else sum(ceil(reach * each / (1 - each)) for each in shares)


@dataclass(frozen=True, slots=True)
class Gate(Record):
    """[gate] of a plan: which raters must agree how well, on how many items.

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
        if self.sample is None and self.by == "verdict":
            raise InputError("by = 'verdict' needs sample = N: only a sample can be balanced")
        if not -1 <= self.threshold <= 1:
            raise InputError(f"threshold {self.threshold}: agreement lies between -1 and 1")

    def __str__(self) -> str:
        bound = "lower 95 % bound of " if self.rule == "lower_ci" else ""
        return f"{bound}{self.statistic} at least {self.threshold:.2f}"

    @classmethod
    def read(cls, table: Any, place: str, loader: PartLoader) -> "Gate":
        """Read the table; a plan without raters declares no gate."""
        gate = read_record(cls, table, place)
        if not gate.raters and gate != cls():
            raise InputError(f"{place} needs raters = [...]: who has to agree?")
        return gate

    @property
    def declared(self) -> bool:
        return bool(self.raters)

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

    def advise(self, conversations: int, prompts: int) -> Iterator[str]:
        """Warn of a gate that can't decide, passes by chance or can hardly be met."""
        if not self.raters:
            return
        items = min(self.sample or conversations, conversations)
        if self.sample is not None and self.sample > conversations:
            yield (
                f"the gate can't be decided: its sample of {self.sample} is larger than the study, "
                f"which has {conversations} conversations"
            )
        if self.validity is not None and (needed := self.validity.items_needed) > items:
            many = "no number of" if needed == inf else f"at least {needed:.0f}"
            yield (
                f"the detector can't be validated on {items} items: {many} items give bounds of "
                f"{self.validity}, even if it is always right"
            )
        chance = 0.5 if self.statistic == "agreement" else 0.0
        if self.threshold < chance or (self.rule == "point" and self.threshold == chance):
            yield (
                f"the gate can't fail: labels given at random meet a threshold of "
                f"{self.threshold:.2f}"
            )
            return
        if self.rule == "lower_ci" and self.threshold == 1:
            yield "the gate can't be met: no lower bound reaches 1.00"
        for best in self.power(conversations, prompts)[:1]:
            yield from self._advise_on_power(best)

    def _advise_on_power(self, best: KappaPower) -> Iterator[str]:
        threshold = 2 * best.good - 1
        if self.rule == "point" and best.poor_passes > TOO_OFTEN:
            yield (
                f"the gate passes by chance: with rule = 'point' on {best.items} items, raters "
                f"with a true kappa of {best.poor:.2f} meet it with a probability of "
                f"{100 * best.poor_passes:.0f} %; rule = 'lower_ci' asks for the lower bound"
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


# Phrases that a report must avoid unless the detector is validated.
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
    """What a report may claim after the gate, and the phrases that it must avoid."""

    name: Literal["validated", "reliable", "descriptive"]
    sentence: str
    forbidden: tuple[str, ...]

    @property
    def words(self) -> ResultWords:
        """The vocabulary for results: a mark of the detector, or a fact once it is validated."""
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
    """Whether a gate was met; an undefined statistic does not meet it.

    Labels are reliable if raters agree; the detector is validated if it agrees with them too, and
    both hold at the lower bounds. `items` is what `value` and `interval` rest on. `population`
    describes what was sampled: kappa on a sample balanced by the detector's verdict is not kappa on
    all runs. `limits` say why the gate can't decide, if it can't.
    """

    gate: Gate
    declared: bool
    passed: bool
    value: float | None
    compared: float | None
    reason: str
    interval: Interval | None = None
    items: int = 0
    population: str = "the rated items"
    validated: bool = False
    validity_reason: str = "the plan declares no validity in [gate]"
    limits: tuple[str, ...] = ()

    @property
    def is_certain(self) -> bool:
        """Whether the gate is met at the lower bound, whatever its rule compares."""
        bound = self.interval.low if self.interval else None
        return self.passed and bound is not None and bound >= self.gate.threshold

    @property
    def name(self) -> OutcomeName:
        if not self.passed:
            return "not reliable"
        return "validated" if self.validated and self.is_certain else "reliable, not validated"

    @property
    def how(self) -> str:
        """How the gate was met: a point estimate that passes may be a lucky one."""
        if not self.passed:
            return "not met"
        if self.gate.rule == "lower_ci":
            return "met"
        if self.interval is None:
            return "met at the point estimate; its lower bound is unknown"
        bound = "and at its lower bound" if self.is_certain else "not at its lower bound"
        return f"met at the point estimate, {bound}"

    @property
    def estimate(self) -> str:
        """The statistic with its interval, or why it is undefined."""
        if self.value is None:
            return self.reason
        name = {"pabak": "PABAK", "ac1": "AC1"}.get(self.gate.statistic, self.gate.statistic)
        ends = f"95 % interval {between(self.interval, 2)}" if self.interval else "no interval"
        return f"{name} {number(self.value, 2)} ({ends}, {plural(self.items, 'item')})"

    @property
    def headline(self) -> str:
        """The verdict and the estimate behind it in one sentence."""
        if not self.declared:
            would = "would be met" if self.passed else "would not be met"
            return f"No gate was named. The customary one {would}: {self.estimate}; {self.gate}"
        how = self.how if self.passed else "NOT met"
        return f"Gate {how} ({self.name}): {self.estimate}; required: {self.gate}"

    @property
    def scope(self) -> ClaimScope:
        """What reports of the study may claim."""
        if self.name == "not reliable":
            return ClaimScope(
                "descriptive",
                f"The reliability gate ({self.gate}) was not met: {self.estimate}. Every claim "
                "about collapse describes what the detector marked and compares conditions; none "
                "rests on labels that raters agree on.",
                FORBIDDEN,
            )
        met = f"The reliability gate ({self.gate}) was {self.how}: {self.estimate}"
        met += f", on {self.population}"
        if self.name == "validated":
            agreed = (
                f"the detector agrees with every rater as declared (lower 95 % bounds: "
                f"{self.gate.validity}): {self.validity_reason}"
            )
            return ClaimScope("validated", f"{met}. The labels are reliable, and {agreed}.", ())
        reliable = "The" if self.is_certain else "By that rule, the"
        why = self.validity_reason
        if self.validated:
            why = "the labels that it agrees with are reliable at the point estimate only"
        return ClaimScope(
            "reliable",
            f"{met}. {reliable} labels are reliable. The detector is not validated: {why}. Every "
            "claim about collapse describes what the detector marked.",
            FORBIDDEN,
        )

    def as_json(self) -> dict[str, Any]:
        """Convert gate and outcome to one object, without the detector's validity."""
        names = ("declared", "passed", "value", "compared", "reason")
        return {
            **{name: getattr(self.gate, name) for name in ("statistic", "threshold", "rule")},
            "population": self.population,
            "attempts": self.gate.attempts,
            **{name: getattr(self, name) for name in names},
            "interval": self.interval,
            "items": self.items,
            "at_lower_bound": self.is_certain,
            "limits": list(self.limits),
        }

    def validity_json(self) -> dict[str, Any]:
        """Convert the outcome of the detector's validity."""
        bar = self.gate.validity
        return {
            "bar": bar and bar.as_dict(),
            "rule": "lower_ci",
            "passed": self.validated,
            "reason": self.validity_reason,
        }


def judge_gate(gate: Gate, panel: RatersPanel, *, declared: bool = True) -> GateOutcome:
    """Decide a gate; with more than two raters, the pair that agrees least counts."""
    value, interval, items, why_undefined, where = _figure(gate.statistic, panel)
    bound = None if interval is None else interval.low
    compared = value if gate.rule == "point" else bound
    if compared is None:
        what = "" if value is None else "the lower bound of "
        reason = f"{what}{gate.statistic} is undefined: {why_undefined}"
        return GateOutcome(gate, declared, False, value, None, reason, interval, items)
    passed = compared >= gate.threshold
    verb = "reaches" if passed else "stays below"  # in stored records, which `verify` compares
    reason = f"{compared:.4f}{where} {verb} {gate.threshold:.2f}"
    return GateOutcome(gate, declared, passed, value, compared, reason, interval, items)


def _figure(
    statistic: StatisticName, panel: RatersPanel
) -> tuple[float | None, Interval | None, int, str, str]:
    """The statistic of all raters, or of the pair that agrees least.

    Returns value, interval, number of items, why it is undefined, and the name of the pair.
    """
    if statistic == "alpha" or (statistic == "ac1" and len(panel.pairs) == 1):
        why = panel.reasons.get(statistic) or panel.reasons.get(f"{statistic}_ci", "")
        joint = getattr(panel, statistic), getattr(panel, f"{statistic}_ci")
        return *joint, panel.n_valid, why, ""
    figures = []
    for pair, found in panel.pairs.items():
        where = f" ({', '.join(pair)})" if len(panel.pairs) > 1 else ""
        agreed = found.pabak_ci and Interval(*((1 + bound) / 2 for bound in found.pabak_ci))
        intervals = {
            "kappa": found.kappa_ci_score,
            "pabak": found.pabak_ci,
            "ac1": found.ac1_ci,
            "agreement": agreed,
        }
        why = found.reasons.get(statistic) or found.reasons.get(f"{statistic}_ci", "")
        interval = intervals[statistic]
        figures.append((getattr(found, statistic), interval, found.n_valid, why, where))
    undefined = next((figure for figure in figures if figure[0] is None), None)
    return undefined or min(figures, key=lambda figure: figure[0])


def forbidden_words(text: str, scope: ClaimScope) -> Iterator[tuple[int, str]]:
    """Find the lines of a text that claim more than the gate allows, and the phrases."""
    if not scope.forbidden:
        return
    # A space of a phrase may be a line break or a LaTeX tie in the text.
    phrases = (re.escape(words).replace(r"\ ", r"[\s~]+") for words in scope.forbidden)
    # "not validated" is not a claim.
    pattern = rf"(?<!\bnot[\s~])\b(?:{'|'.join(phrases)})\b"
    for found in re.finditer(pattern, text, re.IGNORECASE):
        line = text.count("\n", 0, found.start()) + 1
        yield line, " ".join(found[0].replace("~", " ").split())


def check_wording(text: str, scope: ClaimScope) -> None:
    """Reject a text that claims more than the gate allows."""
    for line, words in forbidden_words(text, scope):
        raise InputError(f"line {line} says '{words}', which the gate does not allow")
