"""Does the order of the conditions hold in each prompt and bucket, or in the means alone?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chimeralab.analysis.runs import Labels, Runs
from chimeralab.core.records import Record
from chimeralab.stats.arrays import Floats
from chimeralab.stats.cells import cells_of
from chimeralab.stats.ranks import rank_stability


@dataclass(frozen=True, slots=True)
class Held(Record):
    """In how many units the order holds strictly, holds but for ties, or is inverted somewhere.

    ``left_out`` counts units that lack a run under some condition.
    """

    held: int
    tied: int
    inverted: int
    total: int
    left_out: int


@dataclass(frozen=True, slots=True)
class OrderStability(Record):
    """The order of the conditions by their mean share, and how far it holds below the means."""

    order: tuple[str, ...]
    by_seed: Held | None
    by_bucket: Held | None
    reasons: Mapping[str, str] = field(default_factory=dict)


def order_of(runs: Runs, values: Floats) -> tuple[str, ...]:
    """Conditions from the largest mean to the smallest."""
    means = {name: float(values[runs.condition == name].mean()) for name in runs.conditions}
    return tuple(sorted(means, key=lambda name: (-means[name], name)))


def order_stability(runs: Runs, values: Floats, order: Sequence[str]) -> OrderStability:
    """Count the prompts and the buckets in which the order holds."""
    if len(order) < 2:
        reasons = dict.fromkeys(("by_seed", "by_bucket"), "one condition has no order")
        return OrderStability(tuple(order), None, None, reasons)
    by_seed, buckets = _held(runs, values, order, runs.seed), runs.bucket
    if buckets is None:
        reasons = {"by_bucket": "not every run has a seed_bucket"}
        return OrderStability(tuple(order), by_seed, None, reasons)
    return OrderStability(tuple(order), by_seed, _held(runs, values, order, buckets))


def _held(runs: Runs, values: Floats, order: Sequence[str], units: Labels) -> Held:
    found = rank_stability(cells_of(values, runs.condition, units), order)
    return Held(found.held, found.tied, found.inverted, found.total, found.left_out)
