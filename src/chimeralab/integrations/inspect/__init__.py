"""Chimera Lab inside Inspect and Scout: scanners, scorers, self-play, stress trials and a guard."""

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import (
    Distribution,
    DistributionFinder,
    PackageNotFoundError,
    distribution,
)
from typing import Any

from chimeralab.core.extras import missing_extra

_HOMES = {
    "guard": ("guarded",),
    "scanners": ("collapse", "loops"),
    "scorers": ("collapse_rate", "looping"),
    "selfplay": ("self_play", "self_play_study"),
    "trial": ("stress_trial",),
    "validation": ("write_validation_set",),
}
_PLACES = {name: home for home, names in _HOMES.items() for name in names}


class ByPackage(DistributionFinder):
    """Our distribution, found under the name of our package too; it finds no modules.

    Inspect and Scout take what stands before the slash of `chimeralab/loops` for the name of a
    distribution: to see that a part belongs to an installed package, and to record its version.
    Ours is called chimera-lab, and Scout breaks off where it finds none.
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


# Before anything is registered, since the names depend on it.
if not any(isinstance(finder, ByPackage) for finder in sys.meta_path):
    sys.meta_path.append(ByPackage())


def __getattr__(name: str) -> Any:
    """Each part is loaded when it is asked for: scorers need no Scout, and only tasks the lab."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from None
