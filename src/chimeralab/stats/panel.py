"""The agreement of two raters in one record, with a reason for every undefined number.

A detector and a rater are such a pair, too, with sensitivity and specificity.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import isclose
from typing import Any

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.stats import agreement as pair
from chimeralab.stats.agreement import (
    Labels,
    Table2x2,
    ac1s,
    cell_rows,
    is_perfect,
    kappas,
    tabulate,
)
from chimeralab.stats.arrays import Floats
from chimeralab.stats.clusters import Proportion, share
from chimeralab.stats.intervals import Estimate, Interval, percentile_interval, t_interval, wilson
from chimeralab.stats.resample import SampleDesign, bootstrap, effective_units, jackknife, units


def table_intervals(
    table: Table2x2, *, rng: np.random.Generator, resamples: int = 100_000
) -> dict[str, Any]:
    """Three intervals of kappa and one each of PABAK and AC1 for counts of independent items.

    >>> intervals = table_intervals(Table2x2(157, 7, 6, 10), rng=np.random.default_rng(1))
    >>> tuple(round(bound, 4) for bound in intervals["pabak_ci"])
    (0.7607, 0.9146)
    """
    draws = pair.kappa_bootstrap(table, rng=rng, resamples=resamples)
    return {
        "kappa_ci": pair.kappa_wald(table),
        "kappa_ci_score": pair.kappa_score(table),
        **_summarise_draws(draws, table),
        "ac1_ci": ac1_interval(jackknife(np.repeat(np.eye(4), table.cells.astype(int), 0), ac1s)),
        "pabak_ci": _pabak(wilson(table.both + table.neither, table.n) if table.n else None),
    }


def design_intervals(
    rows: Floats, design: SampleDesign, *, rng: np.random.Generator, resamples: int = 100_000
) -> dict[str, Any]:
    """Intervals for clustered, stratified or weighted items, each a row with a 1 in its cell.

    A jackknife t interval over sampling units takes the place of Wald's; the score and Wilson
    intervals use the number of independent items with the same standard error.

    >>> rows = np.repeat(np.eye(4), [20, 2, 1, 9], axis=0)
    >>> design = SampleDesign(clusters=np.arange(32) // 2)
    >>> result = design_intervals(rows, design, rng=np.random.default_rng(1))
    >>> tuple(round(bound, 2) for bound in result["kappa_ci"])
    (0.45, 1.12)
    """
    totals, strata = units(rows, design)
    table = Table2x2(*totals.sum(axis=0).tolist())
    if not len(rows):
        return table_intervals(table, rng=rng, resamples=resamples)
    spread, wald = jackknife(totals, kappas, strata), None
    if spread.value is not None and spread.standard_error is not None and not is_perfect(table):
        wald = t_interval(spread.value, spread.standard_error, spread.df)
    draws = bootstrap(totals, kappas, strata, rng=rng, resamples=resamples)
    agreed = share(rows[:, 0] + rows[:, 3], np.ones(len(rows)), design)
    return {
        "kappa_ci": wald,
        "kappa_ci_score": _score_interval(rows, design),
        **_summarise_draws(draws, table),
        "ac1_ci": ac1_interval(jackknife(totals, ac1s, strata)),
        "pabak_ci": _pabak(agreed.interval),
    }


def _summarise_draws(draws: Floats, table: Table2x2) -> dict[str, Any]:
    return {
        "kappa_ci_bootstrap": None if is_perfect(table) else percentile_interval(draws),
        "resamples": len(draws),
        "undefined_resamples": int(np.isnan(draws).sum()),
    }


def _score_interval(rows: Floats, design: SampleDesign) -> Interval | None:
    """The score interval at the effective number of items.

    That is the number of independent items with the same standard error of kappa. If no label
    differs, their correlation is unknown and each cluster counts as one item; but agreement on
    every item is never weaker evidence than a disagreement on one.
    """
    totals, strata = units(rows, design)
    table = Table2x2(*totals.sum(axis=0).tolist())
    simple, spread = pair.kappa_standard_error(table), jackknife(totals, kappas, strata)
    items = effective_units(totals.sum(axis=1))
    if simple and spread.standard_error:
        items = table.n * (simple / spread.standard_error) ** 2
    found = pair.kappa_score(Table2x2(*(table.cells * min(items / table.n, 1.0)).tolist()))
    if found is None or not is_perfect(table):
        return found
    lows = [found.low]
    for item in range(len(rows)):
        differing = rows.copy()
        differing[item] = np.eye(4)[1]
        if (one_less := _score_interval(differing, design)) is not None:
            lows.append(one_less.low)
    return Interval(max(lows), found.high)


def ac1_interval(found: Estimate) -> Interval | None:
    """The t interval of AC1, up to 1; None if the labels have no spread to estimate it from.

    >>> ac1_interval(Estimate(0.9, 0.06, df=20)).high
    1.0
    """
    interval = found.interval()
    return interval and Interval(interval.low, min(interval.high, 1.0))


def _pabak(agreed: Interval | None) -> Interval | None:
    return None if agreed is None else Interval(2 * agreed.low - 1, 2 * agreed.high - 1)


@dataclass(frozen=True, slots=True)
class Panel:
    """Two raters on one set of items; ``reasons`` explain the numbers that are None.

    ``kappa_ci`` is the Wald interval, ``kappa_ci_score`` the one to trust near 1. All intervals
    allow for clusters and weights, and ``table`` has weighted counts.
    """

    n_total: int
    n_valid: int
    table: Table2x2
    agreement: float | None
    expected_agreement: float | None
    kappa: float | None
    kappa_ci: Interval | None
    kappa_ci_score: Interval | None
    kappa_ci_bootstrap: Interval | None
    kappa_max: float | None
    pabak: float | None
    pabak_ci: Interval | None
    ac1: float | None
    ac1_ci: Interval | None
    alpha: float | None
    prevalence: float | None
    prevalence_index: float | None
    bias_index: float | None
    positive_agreement: float | None
    negative_agreement: float | None
    resamples: int
    undefined_resamples: int
    reasons: Mapping[str, str] = field(default_factory=dict)


def panel(
    first: Labels,
    second: Labels,
    *,
    rng: np.random.Generator,
    design: SampleDesign | None = None,
    resamples: int = 100_000,
) -> Panel:
    """Measure the agreement of two columns of labels (0, 1 or missing).

    >>> labels = [1, 1, 1, 0, 0, None], [1, 1, 0, 0, 0, 1]
    >>> result = panel(*labels, rng=np.random.default_rng(1))
    >>> result.n_valid, round(result.kappa, 3)
    (5, 0.615)
    """
    if design is None:
        table = tabulate(first, second)
        return table_panel(table, rng=rng, resamples=resamples, n_total=len(first))
    rows = cell_rows(first, second)
    valid = rows.sum(axis=1) > 0
    kept, design = rows[valid], design.keep(valid)
    table = Table2x2(*units(kept, design)[0].sum(axis=0).tolist())
    intervals = design_intervals(kept, design, rng=rng, resamples=resamples)
    return _assemble(table, intervals, len(rows), len(kept))


def table_panel(
    table: Table2x2,
    *,
    rng: np.random.Generator,
    resamples: int = 100_000,
    n_total: int | None = None,
) -> Panel:
    """Measure the agreement in a table of independent items.

    >>> round(table_panel(Table2x2(157, 7, 6, 10), rng=np.random.default_rng(1)).ac1, 4)
    0.9133
    """
    if any(count % 1 for count in table.cells):
        raise InputError(f"{table}: counts of items must be whole numbers")
    intervals = table_intervals(table, rng=rng, resamples=resamples)
    n = int(table.n)
    return _assemble(table, intervals, n if n_total is None else n_total, n)


def _assemble(table: Table2x2, intervals: Mapping[str, Any], n_total: int, n_valid: int) -> Panel:
    values: dict[str, Any] = {
        "agreement": pair.raw_agreement(table),
        "expected_agreement": pair.expected_agreement(table),
        "kappa": pair.cohen_kappa(table),
        "kappa_max": pair.kappa_max(table),
        "pabak": pair.pabak(table),
        "ac1": pair.pair_ac1(table),
        "alpha": pair.pair_alpha(table),
        "prevalence": pair.prevalence(table),
        "prevalence_index": pair.prevalence_index(table),
        "bias_index": pair.bias_index(table),
        "positive_agreement": pair.positive_agreement(table),
        "negative_agreement": pair.negative_agreement(table),
        **intervals,
    }
    # Next to a rater who never varies, kappa is 0 in every resample: no width is not certainty.
    for name in ("kappa_ci", "kappa_ci_bootstrap"):
        found = values[name]
        if found is not None and isclose(found.low, found.high, abs_tol=1e-6):
            values[name] = None
    missing = [f.name for f in fields(Panel) if values.get(f.name, 0) is None]
    reasons = {name: _reason(name, table) for name in missing}
    return Panel(n_total=n_total, n_valid=n_valid, table=table, reasons=reasons, **values)


def _reason(name: str, table: Table2x2) -> str:
    if table.n == 0:
        return "no item has labels from both raters"
    if name == "positive_agreement":
        return "neither rater gave a 1"
    if name == "negative_agreement":
        return "neither rater gave a 0"
    if pair.cohen_kappa(table) is None:
        return "both raters gave every item the same label: no variance, nothing beyond chance"
    if is_perfect(table) or not pair.kappa_max(table):
        why = "agreement is perfect" if is_perfect(table) else "one rater never varies"
        return f"{why}: this interval would have no width; see kappa_ci_score"
    return "too few sampling units: without one of them the labels no longer vary"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Verdicts against a reference.

    If items were sampled by verdict, sensitivity and specificity need weights to be unbiased.
    """

    sensitivity: Proportion
    specificity: Proportion
    positive_predictive_value: Proportion
    negative_predictive_value: Proportion
    agreement: Panel
    reasons: Mapping[str, str] = field(default_factory=dict)


def diagnose(
    verdicts: Labels,
    reference: Labels,
    *,
    rng: np.random.Generator,
    design: SampleDesign | None = None,
    resamples: int = 100_000,
) -> Diagnosis:
    """Estimate sensitivity, specificity and predictive values (Yerushalmy 1947), and kappa.

    >>> result = diagnose([1, 1, 0, 0, 1], [1, 1, 1, 0, 0], rng=np.random.default_rng(1))
    >>> round(result.sensitivity.value, 3), result.specificity.value
    (0.667, 0.5)
    """
    both, false_alarm, miss, neither = cell_rows(verdicts, reference).T
    shares = {
        "sensitivity": share(both, both + miss, design),
        "specificity": share(neither, neither + false_alarm, design),
        "positive_predictive_value": share(both, both + false_alarm, design),
        "negative_predictive_value": share(neither, neither + miss, design),
    }
    return Diagnosis(
        agreement=panel(verdicts, reference, rng=rng, design=design, resamples=resamples),
        reasons={name: _EMPTY[name] for name, part in shares.items() if part.value is None},
        **shares,
    )


_EMPTY = {
    "sensitivity": "the reference has no 1",
    "specificity": "the reference has no 0",
    "positive_predictive_value": "the detector gave no 1",
    "negative_predictive_value": "the detector gave no 0",
}
