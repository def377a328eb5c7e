"""Wording of results: a validated detector reports facts, any other marks what it finds."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from chimeralab.core.records import Loop


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

KIND_NAMES = {
    "verbatim": "same text again",
    "alternating": "two texts in turn",
    "cycle": "a cycle of texts",
    "template": "one template",
    "paraphrase": "same in other words",
    "farewell": "endless goodbye",
    "ending": "nothing new to say",
    "within-turn": "inside one message",
    "silence": "empty messages",
    "tool": "same call",
    "failure": "same failure",
    "no-news": "same answer",
    "waiting": "waiting",
    "test-fix": "same failing check",
    "undo": "edit and undo",
    "reread": "the same read again",
    "handover": "handed round",
}
"""The kinds of loops as people read them, in terminals and on pages; JSON keeps identifiers."""


def name_kind(kind: str, period: int = 1, stream: str = "all") -> str:
    """The plain name of a kind of loop; one that is not in the table keeps its identifier.

    >>> name_kind("cycle", 3), name_kind("verbatim", stream="reasoning"), name_kind("new")
    ('a cycle of 3', 'same thoughts again', 'new')
    """
    if stream == "reasoning":
        return "same thoughts again"
    return f"a cycle of {period}" if kind == "cycle" and period > 1 else KIND_NAMES.get(kind, kind)


def describe_span(began: int, ended: int | None) -> str:
    """The messages of a loop.

    >>> describe_span(5, None), describe_span(5, 10)
    ('5–end', '5–10')
    """
    return f"{began}–{'end' if ended is None else ended}"


def list_verdicts(loops: "Sequence[Loop]") -> "list[Loop]":
    """The loops with a verdict, in order, without those that another one explains.

    A failure that is also put into the same words is one loop: of two streams that begin within a
    message of each other, the one that lasts longer counts, and of equals the one of calls.
    """
    found = list["Loop"]()
    verdicts = [loop for loop in loops if loop.level == "verdict"]
    longest = sorted(verdicts, key=lambda each: (-(each.ended or math.inf), each.stream != "calls"))
    for loop in longest:
        twins = (abs(loop.began - each.began) <= 1 and loop.stream != each.stream for each in found)
        if not any(twins):
            found.append(loop)
    return sorted(found, key=lambda loop: (loop.began, loop.noticed))
