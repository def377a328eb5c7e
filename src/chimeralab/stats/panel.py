"""Everything about the agreement of two raters in one record, undefined entries with a reason."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.stats import agreement as pair
from chimeralab.stats.agreement import (
    Labels,
    Table2x2,
    cell_rows,
    is_perfect,
    kappa_bootstrap,
    kappa_score,
    kappa_standard_error,
    kappa_wald,
    kappas,
)
from chimeralab.stats.arrays import Floats
from chimeralab.stats.clusters import share
from chimeralab.stats.design import SampleDesign, Units, effective_units, units
from chimeralab.stats.intervals import Interval, wilson
from chimeralab.stats.resample import Bootstrap, Jackknife, bootstrap, jackknife


class PanelIntervals(NamedTuple):
    """Three intervals for kappa and one for PABAK."""

    kappa_wald: Interval | None
    kappa_score: Interval | None
    kappa_bootstrap: Bootstrap
    pabak: Interval | None


def table_intervals(
    table: Table2x2, *, rng: np.random.Generator, resamples: int = 100_000
) -> PanelIntervals:
    """Intervals for counts of independent items.

    >>> intervals = table_intervals(Table2x2(157, 7, 6, 10), rng=np.random.default_rng(1))
    >>> tuple(round(bound, 4) for bound in intervals.pabak)
    (0.7607, 0.9146)
    """
    agreed = wilson(table.both + table.neither, table.n) if table.n else None
    draws = kappa_bootstrap(table, rng=rng, resamples=resamples)
    return PanelIntervals(kappa_wald(table), kappa_score(table), draws, _pabak(agreed))


def design_intervals(
    rows: Floats, design: SampleDesign, *, rng: np.random.Generator, resamples: int = 100_000
) -> PanelIntervals:
    """Intervals for clustered, stratified or weighted items, each a row with a 1 in its cell.

    Wald becomes a jackknife t interval over the sampling units; the score and Wilson intervals
    are those of the number of independent items that would give the same standard error.

    >>> rows = np.repeat(np.eye(4), [20, 2, 1, 9], axis=0)
    >>> clusters = np.arange(32) // 2
    >>> design = SampleDesign(clusters=clusters)
    >>> result = design_intervals(rows, design, rng=np.random.default_rng(1))
    >>> tuple(round(bound, 2) for bound in result.kappa_wald)
    (0.45, 1.12)
    """
    sample = units(rows, design)
    if not len(rows):
        return PanelIntervals(None, None, Bootstrap(None, resamples, resamples), None)
    table = Table2x2(*sample.totals.sum(axis=0).tolist())
    spread = jackknife(sample, kappas)
    draws = bootstrap(sample, kappas, rng=rng, resamples=resamples)
    agreed = share(rows[:, 0] + rows[:, 3], np.ones(len(rows)), design)
    if is_perfect(table):
        spread = Jackknife(spread.estimate, None, spread.df)
        draws = Bootstrap(None, resamples, draws.undefined)
    return PanelIntervals(spread.interval(), _score(rows, design), draws, _pabak(agreed.interval))


def _score(rows: Floats, design: SampleDesign) -> Interval | None:
    """The score interval of as many independent items as tell as much.

    How far labels that never differ correlate is unknown, so each cluster counts as one item. But
    to agree on every item can't be worse evidence than to differ on one, whichever it is.
    """
    sample = units(rows, design)
    table = Table2x2(*sample.totals.sum(axis=0).tolist())
    found = kappa_score(_shrunk(table, sample, jackknife(sample, kappas)))
    if found is None or not is_perfect(table):
        return found
    lows = [found.low]
    for item in range(len(rows)):
        differing = rows.copy()
        differing[item] = np.eye(4)[1]
        if (one_less := _score(differing, design)) is not None:
            lows.append(one_less.low)
    return Interval(max(lows), found.high)


def _shrunk(table: Table2x2, sample: Units, spread: Jackknife) -> Table2x2:
    """The table of as many independent items as give kappa the same standard error."""
    simple, error = kappa_standard_error(table), spread.standard_error
    sizes = Units(sample.totals.sum(axis=1, keepdims=True), sample.strata)
    items = table.n * (simple / error) ** 2 if simple and error else effective_units(sizes, 0)
    return Table2x2(*(table.cells * min(items / table.n, 1.0)).tolist())


def _pabak(agreed: Interval | None) -> Interval | None:
    return None if agreed is None else Interval(2 * agreed.low - 1, 2 * agreed.high - 1)


@dataclass(frozen=True, slots=True)
class Panel:
    """Two raters on one set of items; what is None has its reason under ``reasons``.

    ``kappa_ci`` is the Wald interval, ``kappa_ci_score`` the one to trust near 1. With clusters
    or weights every interval respects them, and ``table`` holds weighted counts.
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
    """The panel of two columns of labels (0, 1 or missing); items are rows.

    >>> labels = [1, 1, 1, 0, 0, None], [1, 1, 0, 0, 0, 1]
    >>> result = panel(*labels, rng=np.random.default_rng(1))
    >>> result.n_valid, round(result.kappa, 3)
    (5, 0.615)
    """
    rows = cell_rows(first, second)
    valid = rows.sum(axis=1) > 0
    if design is None:
        table = Table2x2(*(int(count) for count in rows.sum(axis=0)))
        return table_panel(table, rng=rng, resamples=resamples, n_total=len(rows))
    kept, design = rows[valid], design.keep(valid)
    table = Table2x2(*units(kept, design).totals.sum(axis=0).tolist())
    intervals = design_intervals(kept, design, rng=rng, resamples=resamples)
    return _assemble(table, intervals, len(rows), len(kept))


def table_panel(
    table: Table2x2,
    *,
    rng: np.random.Generator,
    resamples: int = 100_000,
    n_total: int | None = None,
) -> Panel:
    """The panel of counts, items treated as independent.

    >>> round(table_panel(Table2x2(157, 7, 6, 10), rng=np.random.default_rng(1)).ac1, 4)
    0.9133
    """
    if any(count % 1 for count in table.cells):
        raise InputError(f"{table}: counts of items must be whole numbers")
    intervals = table_intervals(table, rng=rng, resamples=resamples)
    n = int(table.n)
    return _assemble(table, intervals, n if n_total is None else n_total, n)


def _assemble(table: Table2x2, intervals: PanelIntervals, n_total: int, n_valid: int) -> Panel:
    values: dict[str, Any] = {
        "agreement": pair.raw_agreement(table),
        "expected_agreement": pair.expected_agreement(table),
        "kappa": pair.cohen_kappa(table),
        "kappa_ci": intervals.kappa_wald,
        "kappa_ci_score": intervals.kappa_score,
        "kappa_ci_bootstrap": intervals.kappa_bootstrap.interval,
        "kappa_max": pair.kappa_max(table),
        "pabak": pair.pabak(table),
        "pabak_ci": intervals.pabak,
        "ac1": pair.gwet_ac1(table),
        "alpha": pair.pair_alpha(table),
        "prevalence": pair.prevalence(table),
        "prevalence_index": pair.prevalence_index(table),
        "bias_index": pair.bias_index(table),
        "positive_agreement": pair.positive_agreement(table),
        "negative_agreement": pair.negative_agreement(table),
    }
    missing = [name for name, value in values.items() if value is None]
    return Panel(
        n_total=n_total,
        n_valid=n_valid,
        table=table,
        resamples=intervals.kappa_bootstrap.resamples,
        undefined_resamples=intervals.kappa_bootstrap.undefined,
        reasons={name: _reason(name, table) for name in missing},
        **values,
    )


def _reason(name: str, table: Table2x2) -> str:
    if table.n == 0:
        return "no item carries a label of both raters"
    if name == "positive_agreement":
        return "neither rater gave a 1"
    if name == "negative_agreement":
        return "neither rater gave a 0"
    if pair.cohen_kappa(table) is None:
        return "both raters gave every item the same label: no variance, nothing beyond chance"
    if is_perfect(table):
        return "agreement is perfect: this interval would have no width; see kappa_ci_score"
    return "too few sampling units: without one of them the labels no longer vary"
