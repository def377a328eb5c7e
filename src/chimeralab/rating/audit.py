"""The audit: how far raters agree, over all items and in each stratum, and where they do not."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.rating.gate import Gate, GateOutcome, judge_gate
from chimeralab.rating.label_table import LabelTable
from chimeralab.rating.rubric import Label
from chimeralab.stats.panel import Panel, panel
from chimeralab.stats.raters import RaterPair, RatersPanel, raters_panel

ONLY_FOR_TWO = "this compares two raters, and there are more: see pairs"


@dataclass(frozen=True, slots=True)
class Disagreement(Record):
    """An item on which raters differ, with what each one said."""

    item: str
    labels: Mapping[str, Label | None]
    reasons: Mapping[str, str]
    stratum: str | None = None


@dataclass(frozen=True, slots=True)
class Audit(Record):
    """Everything that is known about the agreement of the raters."""

    overall: RatersPanel
    by_stratum: Mapping[str, RatersPanel]
    gate: GateOutcome
    disagreements: tuple[Disagreement, ...] = ()
    clustered: bool = False
    weighted: bool = False
    unrated_strata: Mapping[str, str] = field(default_factory=dict)

    @property
    def pair(self) -> Panel | None:
        """The panel of the two raters; None when there are more."""
        pairs = self.overall.pairs
        return pairs[0].panel if len(pairs) == 1 else None


def audit(
    table: LabelTable, gate: Gate | None = None, *, seed: int = 0, may_be_silent: bool = False
) -> Audit:
    """Compare the raters. Without a declared gate, the customary one is shown but binds nobody.

    A rater without a single label is refused, or, where a model was asked and gave none
    (`may_be_silent`), leaves everything undefined, and the gate is not met.
    """
    rng = np.random.default_rng(seed)
    overall = _compared(table, rng, may_be_silent=may_be_silent)
    panels, unrated = {}, {}
    for name in sorted(set(table.strata or ())):
        try:
            panels[name] = _compared(table.keep(name), rng, may_be_silent=may_be_silent)
        except InputError as error:
            unrated[name] = str(error)
    return Audit(
        overall=overall,
        by_stratum=panels,
        gate=judge_gate(gate or Gate(), overall, declared=gate is not None),
        disagreements=() if table.nameless else tuple(_disagreements(table)),
        clustered=table.clusters is not None,
        weighted=table.weights is not None,
        unrated_strata=unrated,
    )


def _compared(table: LabelTable, rng: np.random.Generator, *, may_be_silent: bool) -> RatersPanel:
    silent = [rater for rater, column in table.labels.items() if set(column) <= {None}]
    if not silent or not may_be_silent or len(table.raters) < 2:
        return raters_panel(table.labels, rng=rng, design=table.design)
    why = f"rater '{silent[0]}' gave no label"
    return RatersPanel(
        raters=table.raters,
        n_total=len(table.items),
        n_valid=0,
        n_complete=0,
        missing={rater: column.count(None) for rater, column in table.labels.items()},
        alpha=None,
        alpha_ci=None,
        fleiss=None,
        pairs=tuple(
            RaterPair(one, two, panel(table.labels[one], table.labels[two], rng=rng))
            for one, two in combinations(table.raters, 2)
        ),
        reasons=dict.fromkeys(("alpha", "alpha_ci", "fleiss"), why),
    )


def audit_json(result: Audit) -> dict[str, Any]:
    """The audit as one JSON object: the figures of two raters at the top, of more under `pairs`."""
    return {
        **panel_json(result.overall),
        "clustered": result.clustered,
        "weighted": result.weighted,
        "gate": result.gate.as_json(),
        "by_stratum": {name: panel_json(part) for name, part in result.by_stratum.items()},
        "unrated_strata": dict(result.unrated_strata),
        "disagreements": [each.as_dict() for each in result.disagreements],
    }


def panel_json(raters: RatersPanel) -> dict[str, Any]:
    """A panel flat: the figures of the one pair there is, or None and a reason for each."""
    figures, why = _figures(raters)
    return {
        "raters": list(raters.raters),
        "n": raters.n_valid,
        "n_valid": raters.n_valid,
        "n_total": raters.n_total,
        "n_complete": raters.n_complete,
        "missing": dict(raters.missing),
        **figures,
        "alpha": raters.alpha,
        "alpha_ci": raters.alpha_ci,
        "fleiss": raters.fleiss,
        "reasons": {**why, **raters.reasons},
        "pairs": [_pair_json(pair) for pair in raters.pairs if len(raters.pairs) > 1],
    }


class Figures(NamedTuple):
    """Values by name, and why those are None that are."""

    values: dict[str, Any]
    reasons: dict[str, str]


def _figures(raters: RatersPanel) -> Figures:
    """What compares two raters, and the reasons where it can't be given."""
    figures = asdict(raters.pairs[0].panel)
    why = figures.pop("reasons")
    for name in ("n_valid", "n_total", "alpha"):
        figures.pop(name)
    if len(raters.pairs) == 1:
        return Figures(figures, why)
    return Figures(dict.fromkeys(figures), dict.fromkeys(figures, ONLY_FOR_TWO))


def _pair_json(pair: RaterPair) -> dict[str, Any]:
    return {"first": pair.first, "second": pair.second, **asdict(pair.panel)}


def _disagreements(table: LabelTable) -> list[Disagreement]:
    found = []
    for n, item in enumerate(table.items):
        labels = {rater: column[n] for rater, column in table.labels.items()}
        if len({label for label in labels.values() if label is not None}) > 1:
            reasons = {rater: told[n] for rater, told in table.reasons.items() if told[n]}
            stratum = table.strata[n] if table.strata else None
            found.append(Disagreement(item, labels, reasons, stratum))
    return found
