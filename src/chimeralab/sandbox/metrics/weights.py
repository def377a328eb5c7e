"""How much each part counts in its metric. Weights belong to the plan and sum to 1."""

import math
from dataclasses import dataclass

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.stats.arrays import Floats


@dataclass(frozen=True, slots=True)
class MetricWeights(Record):
    """The published weights unless told otherwise.

    ``mci`` weighs recall fidelity, continuity integrity and context binding; ``gfq`` task accuracy
    and confidence-task agreement; ``dfs`` frame invariance and bias resistance.
    """

    mci: tuple[float, float, float] = (0.4, 0.3, 0.3)
    gfq: tuple[float, float] = (0.6, 0.4)
    dfs: tuple[float, float] = (0.5, 0.5)

    def __post_init__(self) -> None:
        for name in ("mci", "gfq", "dfs"):
            _check(name, getattr(self, name))


def weighted(weights: tuple[float, ...], *parts: Floats) -> Floats:
    """The sum of weighted parts, entry by entry; a part that counts nothing may be undefined.

    >>> weighted((1.0, 0.0), np.array([0.5]), np.array([np.nan]))
    array([0.5])
    """
    counted = [weight * part for weight, part in zip(weights, parts, strict=True) if weight]
    return np.asarray(np.sum(counted, axis=0))


def _check(name: str, weights: tuple[float, ...]) -> None:
    shown = " ".join(f"{weight:g}" for weight in weights)
    if not all(0 <= weight <= 1 for weight in weights):
        raise InputError(f"{name} weights {shown}: each must lie between 0 and 1")
    if not math.isclose(sum(weights), 1, abs_tol=1e-9):
        raise InputError(f"{name} weights {shown}: they sum to {sum(weights):g} and must sum to 1")
