"""How the numbers of an analysis are made, so that they can be made again."""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from chimeralab.analysis.estimands import Outcomes
from chimeralab.analysis.runs import Runs
from chimeralab.core.records import Record


@dataclass(frozen=True, slots=True)
class Settings(Record):
    """Level and size of intervals and tests, the seed of their randomness, and the horizon."""

    tau: float
    level: float = 0.95
    resamples: int = 10_000
    permutations: int = 5_000
    seed: int = 1

    def stream(self, *question: str) -> np.random.Generator:
        """Random numbers for one question. Asking others as well does not change them.

        >>> Settings(40).stream("a").random() == Settings(40).stream("a").random()
        True
        """
        name = blake2b("\0".join(question).encode(errors="replace"), digest_size=8).digest()
        return np.random.default_rng([self.seed, int.from_bytes(name)])


def settings_for(runs: Runs, outcomes: Outcomes) -> Settings:
    """The settings as declared; an open horizon becomes what every condition was followed to."""
    return Settings(
        tau=float(outcomes.tau or horizon(runs)),
        level=outcomes.level,
        resamples=outcomes.resamples,
        permutations=outcomes.permutations,
        seed=outcomes.seed,
    )


def horizon(runs: Runs) -> float:
    """The longest time that every condition was followed to."""
    return float(min(runs.turns[runs.condition == name].max() for name in runs.conditions))
