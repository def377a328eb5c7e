"""Our distribution, found under the name of our package too.

Inspect and Scout take what stands before the slash of `chimeralab/loops` for the name of a
distribution: to see that a part belongs to an installed package, and to record its version. Ours is
called chimera-lab, and Scout breaks off where it finds none.
"""

import sys
from collections.abc import Iterator
from importlib.metadata import (
    Distribution,
    DistributionFinder,
    PackageNotFoundError,
    distribution,
)
from typing import Any

PACKAGE, DISTRIBUTION = "chimeralab", "chimera-lab"


class ByPackage(DistributionFinder):
    """Answers for the one name, and finds no modules."""

    def find_spec(self, *asked: Any) -> None:
        return None

    def find_distributions(
        self, context: DistributionFinder.Context | None = None
    ) -> Iterator[Distribution]:
        if context is not None and context.name == PACKAGE:
            try:
                yield distribution(DISTRIBUTION)
            except PackageNotFoundError:
                return


def answer_to_the_name_of_the_package() -> None:
    if not any(isinstance(finder, ByPackage) for finder in sys.meta_path):
        sys.meta_path.append(ByPackage())
