"""The intervals of an agreement panel, for independent items or as a sampling design allows."""

from typing import NamedTuple

import numpy as np

from chimeralab.stats.agreement import Table2x2, kappas
from chimeralab.stats.agreement_intervals import (
    is_perfect,
    kappa_bootstrap,
    kappa_score,
    kappa_standard_error,
    kappa_wald,
)
from chimeralab.stats.arrays import Floats
from chimeralab.stats.design import Design, Units, effective_units, units
from chimeralab.stats.intervals import Interval, wilson
from chimeralab.stats.resample import Bootstrap, Jackknife, bootstrap, jackknife
from chimeralab.stats.shares import share


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
    rows: Floats, design: Design, *, rng: np.random.Generator, resamples: int = 100_000
) -> PanelIntervals:
    """Intervals for clustered, stratified or weighted items, each a row with a 1 in its cell.

    Wald becomes a jackknife t interval over the sampling units; the score and Wilson intervals
    are those of the number of independent items that would give the same standard error.

    >>> rows = np.repeat(np.eye(4), [20, 2, 1, 9], axis=0)
    >>> clusters = np.arange(32) // 2
    >>> result = design_intervals(rows, Design(clusters=clusters), rng=np.random.default_rng(1))
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
    score = kappa_score(_shrunk(table, sample, spread))
    return PanelIntervals(spread.interval(), score, draws, _pabak(agreed.interval))


def _shrunk(table: Table2x2, sample: Units, spread: Jackknife) -> Table2x2:
    """The table of as many independent items as give kappa the same standard error."""
    simple, error = kappa_standard_error(table), spread.standard_error
    sizes = Units(sample.totals.sum(axis=1, keepdims=True), sample.strata)
    items = table.n * (simple / error) ** 2 if simple and error else effective_units(sizes, 0)
    return Table2x2(*(table.cells * min(items / table.n, 1.0)).tolist())


def _pabak(agreed: Interval | None) -> Interval | None:
    return None if agreed is None else Interval(2 * agreed.low - 1, 2 * agreed.high - 1)
