"""Before money is spent: which difference a design can find, and whether repeats are worth it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import median_low

from chimeralab.analysis.estimands import Measure
from chimeralab.analysis.measures import per_run
from chimeralab.analysis.runs import Runs
from chimeralab.core.records import Record
from chimeralab.stats.cells import cells_of
from chimeralab.stats.planning import (
    VarianceComponents,
    contrast_power,
    detectable_difference,
    variance_components,
)


@dataclass(frozen=True, slots=True)
class Design(Record):
    """So many seed prompts with so many repeats each, and the difference that they can find.

    ``power`` is the chance to find the difference that was asked about; None when none was.
    """

    prompts: int
    repeats: int
    detectable: float
    power: float | None


@dataclass(frozen=True, slots=True)
class Outlook(Record):
    """Where a difference varied, and what other designs of the same cost would find next time."""

    a: str
    b: str
    measure: Measure
    between: float | None
    within: float | None
    designs: tuple[Design, ...]
    reasons: Mapping[str, str] = field(default_factory=dict)


def same_cost(
    parts: VarianceComponents,
    prompts: int,
    repeats: int,
    *,
    difference: float | None = None,
    power: float = 0.8,
) -> tuple[Design, ...]:
    """Every design of the same number of runs with at most these repeats, most prompts first.

    The test is a paired two-sided one at 5 %.

    >>> parts = VarianceComponents(between=0.0505, within=0.0871)
    >>> [(d.prompts, d.repeats, round(d.detectable, 3)) for d in same_cost(parts, 36, 5)][::4]
    [(180, 1, 0.078), (36, 5, 0.125)]
    """
    runs = prompts * repeats
    fitting = [n for n in range(1, repeats + 1) if runs % n == 0 and runs // n > 1]
    return tuple(
        Design(
            prompts=runs // n,
            repeats=n,
            detectable=detectable_difference(parts, runs // n, n, power=power),
            power=_power(parts, difference, runs // n, n),
        )
        for n in fitting
    )


def _power(
    parts: VarianceComponents, difference: float | None, prompts: int, repeats: int
) -> float | None:
    if difference is None:
        return None
    return contrast_power(parts, difference, prompts, repeats)


def outlook(runs: Runs, a: str, b: str, measure: Measure, tau: float) -> Outlook:
    """Learn from these runs what a next study of the difference ``a`` minus ``b`` would need."""
    values, reason = per_run(runs, measure, tau)
    if values is None:
        return _unknown(a, b, measure, reason or "")
    cells = cells_of(values, runs.condition, runs.seed)
    parts = variance_components(cells, {a: 1, b: -1})
    if parts is None:
        return _unknown(a, b, measure, "needs two seed prompts under both, and repeats of them")
    if not parts.between + parts.within > 0:
        return _unknown(a, b, measure, "the difference does not vary")
    used = cells.columns([a, b])
    repeats = median_low(used.counts.ravel().tolist())
    designs = same_cost(parts, len(used.clusters), repeats)
    return Outlook(a, b, measure, parts.between, parts.within, designs)


def outlooks(runs: Runs, order: Sequence[str], measure: Measure, tau: float) -> tuple[Outlook, ...]:
    """The outlook of every pair of conditions."""
    return tuple(outlook(runs, a, b, measure, tau) for a, b in combinations(order, 2))


def advice(parts: VarianceComponents, prompts: int, repeats: int) -> str | None:
    """What to tell before a study starts; None when there is nothing to gain.

    >>> print(advice(VarianceComponents(between=0.0505, within=0.0871), 36, 5))
    180 prompts x 1 repeat find a difference of 0.078 at the cost at which 36 x 5 find 0.125
    """
    designs = same_cost(parts, prompts, repeats)
    if len(designs) < 2:
        return None
    best, planned = designs[0], designs[-1]
    return (
        f"{best.prompts} prompts x {best.repeats} repeat find a difference of "
        f"{best.detectable:.3f} at the cost at which {prompts} x {repeats} find "
        f"{planned.detectable:.3f}"
    )


def _unknown(a: str, b: str, measure: Measure, reason: str) -> Outlook:
    missing = dict.fromkeys(("between", "within"), reason)
    return Outlook(a, b, measure, None, None, (), missing | {"designs": reason})
