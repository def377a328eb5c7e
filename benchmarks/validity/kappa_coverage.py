"""How often intervals for kappa hold the truth, and whether a planned audit keeps its power."""

from collections.abc import Callable, Iterable

import numpy as np

from benchmarks.table import Result, keep
from benchmarks.validity.interval_coverage import (
    CLUSTERS,
    REPEATS,
    RESAMPLES,
    SIMULATIONS,
    SIZE,
    holds,
)
from chimeralab.stats.agreement import (
    Table2x2,
    cell_rows,
    cohen_kappa,
    kappa_bootstrap,
    kappa_score,
    kappa_wald,
    tabulate,
)
from chimeralab.stats.arrays import Floats
from chimeralab.stats.intervals import Interval, percentile_interval
from chimeralab.stats.panel import design_intervals
from chimeralab.stats.planning import items_for_kappa, items_for_kappa_score
from chimeralab.stats.resample import SampleDesign

COMMAND = "python -m benchmarks.validity.kappa_coverage"
# Kappa, share of label 1, items: the published study, its gate, and one condition of it.
KAPPA_CASES = ((0.5663, 0.9083, 180), (0.80, 0.9083, 180), (0.80, 0.5, 180), (0.80, 0.9083, 45))


def main() -> None:
    for case in KAPPA_CASES:
        keep(kappa_coverage(*case))
    keep(clustered_kappa_coverage())
    for prevalence in (0.5, 0.9083):
        keep(planned_power(0.9, 0.8, prevalence))


def kappa_coverage(kappa: float, prevalence: float, items: int) -> Result:
    """Coverage of each interval for kappa, and how often its lower bound lies above the truth."""
    rng = np.random.default_rng(3)
    tables = _kappa_tables(kappa, prevalence, items, rng)
    found = [_kappa_intervals(table, rng) for table in tables]
    columns = dict(zip(("Wald", "score", "percentile"), zip(*found, strict=True), strict=True))
    covered = {name: _share(holds, column, kappa) for name, column in columns.items()}
    above = {name: _share(_above, column, kappa) for name, column in columns.items()}
    name = f"coverage, kappa {kappa:g} at prevalence {prevalence:g}, {items} items"
    note = f"lower bound above the truth: {_listed(above)}; {SIZE}, undefined counts as a miss"
    met = 0.93 <= covered["score"] <= 0.98
    return Result(name, _listed(covered), "score 0.93 - 0.98", met, COMMAND, note)


def clustered_kappa_coverage() -> Result:
    """The same when prompts differ in how often they collapse and in how hard they are to rate."""
    rng = np.random.default_rng(5)
    truth = cohen_kappa(tabulate(*_clustered_labels(200_000, rng)))
    assert truth is not None
    design = SampleDesign(clusters=np.repeat(np.arange(CLUSTERS), REPEATS))
    names = ("kappa_ci", "kappa_ci_score", "kappa_ci_bootstrap")
    hits = {"jackknife t": 0, "score": 0, "percentile": 0, "Wald without clusters": 0}
    for _ in range(SIMULATIONS):
        first, second = _clustered_labels(CLUSTERS, rng)
        rows = cell_rows(first, second)
        found = design_intervals(rows, design, rng=rng, resamples=RESAMPLES)
        naive = kappa_wald(tabulate(first, second))
        bounds = (*(found[name] for name in names), naive)
        for name, interval in zip(hits, bounds, strict=True):
            hits[name] += holds(interval, truth)
    covered = {name: count / SIMULATIONS for name, count in hits.items()}
    note = f"kappa {truth:.3f}, {CLUSTERS} clusters of {REPEATS}; {SIZE}"
    met = 0.92 <= covered["score"] <= 0.98
    name = "coverage, kappa of clustered items"
    return Result(name, _listed(covered), "score 0.92 - 0.98", met, COMMAND, note)


def _clustered_labels(clusters: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    share = np.repeat(rng.beta(1.5, 0.5, clusters), REPEATS)
    slip = np.repeat(rng.beta(0.4, 3.6, clusters), REPEATS)
    truth = rng.random(len(share)) < share
    first, second = (truth ^ (rng.random(len(share)) < slip) for _ in range(2))
    return first.astype(np.float64), second.astype(np.float64)


def planned_power(kappa: float, threshold: float, prevalence: float) -> Result:
    """How often the planned number of items puts the one-sided 95 % bound above the threshold."""
    rng = np.random.default_rng(4)
    plans = {"Wald": (items_for_kappa, kappa_wald), "score": (items_for_kappa_score, kappa_score)}
    passed = {}
    for method, (plan, bound) in plans.items():
        items = plan(kappa, threshold, prevalence)
        tables = _kappa_tables(kappa, prevalence, items, rng)
        bounds = [bound(table, level=0.9) for table in tables]
        passed[f"{items} items by {method}"] = _share(_above, bounds, threshold)
    name = f"power, kappa {kappa:g} against {threshold:g} at prevalence {prevalence:g}"
    met = 0.75 <= list(passed.values())[-1] <= 0.85
    return Result(name, _listed(passed), "by score 0.75 - 0.85", met, COMMAND, SIZE)


def _kappa_tables(
    kappa: float, prevalence: float, items: int, rng: np.random.Generator
) -> list[Table2x2]:
    """Tables of two raters who say 1 equally often and agree to this kappa."""
    spare = prevalence * (1 - prevalence)
    cells = [prevalence**2 + kappa * spare, *[spare * (1 - kappa)] * 2]
    tables = rng.multinomial(items, [*cells, 1 - sum(cells)], size=SIMULATIONS)
    return [Table2x2(*map(int, table)) for table in tables]


def _kappa_intervals(table: Table2x2, rng: np.random.Generator) -> tuple[Interval | None, ...]:
    draws = kappa_bootstrap(table, rng=rng, resamples=RESAMPLES)
    return kappa_wald(table), kappa_score(table), percentile_interval(draws)


def _above(interval: Interval | None, truth: float) -> bool:
    return interval is not None and interval.low > truth


def _share(
    check: Callable[[Interval | None, float], bool],
    intervals: Iterable[Interval | None],
    truth: float,
) -> float:
    return float(np.mean([check(interval, truth) for interval in intervals]))


def _listed(shares: dict[str, float]) -> str:
    return ", ".join(f"{name} {share:.3f}" for name, share in shares.items())


if __name__ == "__main__":
    main()
