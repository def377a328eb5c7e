"""How often intervals for clustered runs hold the truth, and how often a null contrast does not."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.table import Result, keep
from chimeralab.stats.arrays import Floats
from chimeralab.stats.clusters import cells_of, cluster_mean, mean_bootstrap, mean_bootstrap_t
from chimeralab.stats.contrasts import contrast
from chimeralab.stats.intervals import Interval, share_interval

COMMAND = "python -m benchmarks.validity.interval_coverage"
RUNS = Path(__file__).parents[2] / "../shared/data/escape-velocity/analysis_bundle.csv"
CLUSTERS, REPEATS = 36, 5
SIMULATIONS, RESAMPLES = 4_000, 1_000
SIZE = f"{SIMULATIONS:,} simulations"
# Prompts, repeats, and a true mean share of turns.
SHARES = ((36, 5, 0.14), (36, 5, 0.5), (12, 3, 0.14), (12, 3, 0.05))

Draw = Callable[[np.random.Generator], Floats]


def main() -> None:
    _keep_means("coverage, Gaussian clusters", gaussian, truth=0.0, bar="0.92 - 0.98")
    if RUNS.exists():
        clusters = skewed_clusters()
        _keep_means(
            "coverage, HOMO_C-shaped clusters",
            lambda rng: clusters[rng.integers(0, CLUSTERS, CLUSTERS)],
            truth=float(clusters.mean()),
            bar="printed as it is",
        )
    else:
        print("HOMO_C-shaped clusters: left out, the public runs are not on this machine")
    for prompts, repeats, truth in SHARES:
        name = f"coverage of a mean share of {truth}, {prompts} prompts of {repeats}"
        covered = share_coverage(prompts, repeats, truth)
        value = ", ".join(f"{method} {part:.3f}" for method, part in covered.items())
        _keep(name, value, "printed as it is", True, SIZE)
    share = null_contrasts()
    met = 0.04 <= share <= 0.06
    _keep("null contrast, significant", f"{share:.3f}", "0.04 - 0.06", met, SIZE)


def gaussian(rng: np.random.Generator) -> Floats:
    """Clusters with an intraclass correlation of 0.3 around a mean of 0."""
    between = rng.normal(0, 0.3**0.5, (CLUSTERS, 1))
    return np.asarray(between + rng.normal(0, 0.7**0.5, (CLUSTERS, REPEATS)))


def skewed_clusters() -> Floats:
    """The published prompts of one condition, as the population to draw prompts from."""
    with RUNS.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["condition"] == "HOMO_C"]
    rows.sort(key=lambda row: row["seed_id"])
    rates = [float(row["collapsed_turns"]) / float(row["total_turns"]) for row in rows]
    return np.array(rates).reshape(CLUSTERS, REPEATS)


def mean_coverage(draw: Draw, truth: float) -> dict[str, float]:
    """Share of simulations in which each interval for a clustered mean holds the truth."""
    rng = np.random.default_rng(1)
    cluster = np.repeat(np.arange(CLUSTERS), REPEATS)
    hits = {"t": 0, "percentile": 0, "bootstrap-t": 0}
    for _ in range(SIMULATIONS):
        runs = draw(rng).ravel()
        percentile = mean_bootstrap(runs, cluster, rng=rng, resamples=RESAMPLES)
        studentised = mean_bootstrap_t(runs, cluster, rng=rng, resamples=RESAMPLES)
        found = (cluster_mean(runs, cluster).interval, percentile, studentised)
        for name, interval in zip(hits, found, strict=True):
            hits[name] += holds(interval, truth)
    return {name: count / SIMULATIONS for name, count in hits.items()}


def beta_shares(prompts: int, repeats: int, truth: float, rng: np.random.Generator) -> Floats:
    """Shares of runs whose prompts differ around a true mean; skewed where it is near 0 or 1."""
    means = np.repeat(rng.beta(4 * truth, 4 * (1 - truth), prompts), repeats)
    return rng.beta(3 * means + 1e-6, 3 * (1 - means) + 1e-6)


def share_coverage(prompts: int, repeats: int, truth: float) -> dict[str, float]:
    """How often t intervals of a mean share hold the truth, and how often the plain one is odd."""
    rng, cluster = np.random.default_rng(3), np.repeat(np.arange(prompts), repeats)
    counts = {"plain": 0, "log odds": 0, "plain, out of range": 0}
    for _ in range(SIMULATIONS):
        found = cluster_mean(beta_shares(prompts, repeats, truth, rng), cluster)
        assert found.standard_error is not None
        plain = found.interval
        assert plain is not None
        odds = share_interval(found.mean, found.standard_error, prompts - 1)
        counts["plain"] += holds(plain, truth)
        counts["log odds"] += holds(odds, truth)
        counts["plain, out of range"] += plain.low < 0 or plain.high > 1
    return {name: count / SIMULATIONS for name, count in counts.items()}


def null_contrasts() -> float:
    """Share of simulations in which two equal conditions differ significantly at 5 %."""
    rng = np.random.default_rng(2)
    cluster = np.tile(np.repeat(np.arange(CLUSTERS), REPEATS), 2)
    condition = np.repeat(["A", "B"], CLUSTERS * REPEATS)
    significant = 0
    for _ in range(SIMULATIONS):
        runs = np.concatenate([gaussian(rng).ravel(), gaussian(rng).ravel()])
        p = contrast(cells_of(runs, condition, cluster), {"A": 1, "B": -1}).p
        significant += p is not None and p < 0.05
    return significant / SIMULATIONS


def _keep_means(name: str, draw: Draw, truth: float, bar: str) -> None:
    covered = mean_coverage(draw, truth)
    value = ", ".join(f"{method} {share:.3f}" for method, share in covered.items())
    met = bar.startswith("printed") or all(0.92 <= share <= 0.98 for share in covered.values())
    _keep(name, value, bar, met, f"{SIZE}, {CLUSTERS} clusters of {REPEATS}")


def _keep(name: str, value: str, bar: str, met: bool, note: str) -> None:
    keep(Result(name, value, bar, met, COMMAND, note))


def holds(interval: Interval | None, truth: float) -> bool:
    return interval is not None and interval.low <= truth <= interval.high


if __name__ == "__main__":
    main()
