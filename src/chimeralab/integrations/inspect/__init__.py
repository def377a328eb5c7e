"""Chimera Lab in Inspect and Scout: scanners, scorers, self-play, stress trials and a guard."""

import sys
from collections.abc import Iterator
from importlib.metadata import (
    Distribution,
    DistributionFinder,
    PackageNotFoundError,
    distribution,
)
from typing import Any

from chimeralab.core.lazy import lazy_names


class ByPackage(DistributionFinder):
    """Finds the distribution chimera-lab under the name of its package as well; no modules.

    Inspect and Scout look up the prefix of `chimeralab/loops` as a distribution, to check that it
    is installed and to record its version. Scout fails if there is none of that name.
    """

    def find_spec(self, *asked: Any) -> None:
        return None

    def find_distributions(
        self, context: DistributionFinder.Context | None = None
    ) -> Iterator[Distribution]:
        if context is not None and context.name == "chimeralab":
            try:
                yield distribution("chimera-lab")
            except PackageNotFoundError:
                return


# Before anything is registered, since registered names depend on it.
if not any(isinstance(finder, ByPackage) for finder in sys.meta_path):
    sys.meta_path.append(ByPackage())


# Scorers need no Scout, and only tasks need the lab, so each part is imported on first use.
__getattr__ = lazy_names(
    __name__,
    {
        "integrations.inspect.guard": ("guarded",),
        "integrations.inspect.scanners": ("collapse", "loops"),
        "integrations.inspect.scorers": ("collapse_rate", "looping"),
        "integrations.inspect.selfplay": ("self_play", "self_play_study"),
        "integrations.inspect.trial": ("stress_trial",),
        "integrations.inspect.validation": ("write_validation_set",),
    },
)
