"""Wording of results: a validated detector reports facts, any other marks what it finds."""

from typing import NamedTuple


class ResultWords(NamedTuple):
    """The forms of "collapse" that sentences about results use.

    >>> for words in (FACT, MARK):
    ...     print(f"In A, 3 runs {words.were}; 2 have not {words.been}: no {words.event}.")
    In A, 3 runs collapsed; 2 have not collapsed: no collapse.
    In A, 3 runs were marked as collapsed; 2 have not been marked as collapsed: no marked collapse.
    """

    collapsed: str  # after a form of "to be", or after a noun
    turns: str
    runs: str
    event: str  # after "a", "any" or "first"
    was: str  # past tense, singular
    were: str  # past tense, plural
    been: str  # after "have" or "has"


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
