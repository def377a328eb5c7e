"""The words for what the detector found: as a fact once it is validated, as its mark before.

Every sentence about a result is composed from one of the two records here.
"""

from typing import NamedTuple


class ResultWords(NamedTuple):
    """The forms that sentences about collapse are made of.

    >>> for words in (FACT, MARK):
    ...     print(f"In A, 3 runs {words.were}; 2 have not {words.been}: no {words.event}.")
    In A, 3 runs collapsed; 2 have not collapsed: no collapse.
    In A, 3 runs were marked as collapsed; 2 have not been marked as collapsed: no marked collapse.
    """

    collapsed: str  # after a form of "to be", or behind a noun
    turns: str
    runs: str
    event: str  # fits behind "a", "any" and "first"
    was: str  # the verb of one in the past
    were: str  # the verb of several
    been: str  # the verb after "have" or "has"


FACT = ResultWords(
    collapsed="collapsed",
    turns="collapsed turns",
    runs="collapsed runs",
    event="collapse",
    was="collapsed",
    were="collapsed",
    been="collapsed",
)
MARK = ResultWords(
    collapsed="marked as collapsed",
    turns="turns marked as collapsed",
    runs="runs marked as collapsed",
    event="marked collapse",
    was="was marked as collapsed",
    were="were marked as collapsed",
    been="been marked as collapsed",
)
