"""Does a rater agree with itself: asked twice, or with the two labels named in the other order?"""

from collections.abc import Sequence

import numpy as np

from chimeralab.rating.llm import rate_all
from chimeralab.rating.ratings import Item, Rater
from chimeralab.stats.panel import Panel, panel


async def compare_runs(
    one: Rater, other: Rater, items: Sequence[Item], *, rng: np.random.Generator
) -> Panel:
    """The agreement of two raters that ought to be one.

    The same rater twice is a test-retest check; a model rater and its twin with another
    `first_label` is a check of position.
    """
    first = await rate_all(one, items)
    second = await rate_all(other, items)
    return panel([r.label for r in first], [r.label for r in second], rng=rng)
