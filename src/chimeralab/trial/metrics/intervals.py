"""Numbers as functions of sums, so that one resampling of clusters gives all their intervals."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from chimeralab.stats.arrays import Floats, optional
from chimeralab.stats.intervals import Interval, percentile_interval, widened_level
from chimeralab.stats.resample import bootstrap


class Estimator(NamedTuple):
    """The sums of each cluster (rows), and the named numbers that follow from rows of sums."""

    totals: Floats
    numbers: Callable[[Floats], Mapping[str, Floats]]

    def values(self) -> dict[str, float | None]:
        """The numbers of all clusters together."""
        found = self.numbers(self.totals.sum(axis=0, keepdims=True))
        return {name: optional(float(column[0])) for name, column in found.items()}

    def intervals(self, rng: np.random.Generator, resamples: int) -> dict[str, Interval | None]:
        """A percentile interval of each number over resampled clusters; None where none is defined.

        One cluster alone tells nothing about the spread between clusters.
        """
        names = tuple(self.numbers(self.totals[:1]))
        if len(self.totals) < 2 or not resamples:
            return dict.fromkeys(names)
        draws = bootstrap(
            self.totals,
            lambda totals: np.column_stack(list(self.numbers(totals).values())),
            rng=rng,
            resamples=resamples,
        )
        level = widened_level(len(self.totals))
        columns = zip(names, draws.T, strict=True)
        return {name: percentile_interval(column, level) for name, column in columns}
