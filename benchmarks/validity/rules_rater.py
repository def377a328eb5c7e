"""The rules rater against labels given by the manual before it ran: recall and precision.

Five parts. `develop` served to develop the rater, and so did `report` and `fresh` in the end: the
first was not read at the time, the second was bot talk that was labelled last and measured once,
and the misses of both were read before the next change. `held-out` is the closed half of
`manual_cases.jsonl`: written and labelled before that change, measured once after it. The same
person wrote the cases and changed the rules; no word that was added to the synonyms occurs in it.
`outside` was written afterwards by somebody who had not read the rules, and measured once.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.table import ROOT, Result, keep
from chimeralab import readers
from chimeralab.core.records import Trajectory
from chimeralab.rating.ratings import Item, Rating, make_item
from chimeralab.rating.rubric import Label, load_rubric
from chimeralab.rating.rules import rate_by_rules
from chimeralab.stats.intervals import wilson

COMMAND = "python -m benchmarks.validity.rules_rater"
GOLDEN = ROOT / "tests" / "golden"
DATA = ROOT.parent / "shared" / "data"
SPEAKERS = {"dialogue-eval/conversations.jsonl": "bot"}
RECALL, PRECISION = 0.8, 0.9
NOTES = {
    "develop": "the rater was developed on these",
    "report": "developed on these, too; first measured unread",
    "fresh": "bot talk; developed on these, too; first measured unread, 9 of 17",
    "held-out": "measured once, when the rules were finished",
    "outside": "written by somebody who had not read the rules, measured once",
}


class Case(NamedTuple):
    """One labelled stretch of turns, and the half it belongs to."""

    id: str
    half: str
    kind: str
    label: Label
    item: Item


class Judged(NamedTuple):
    """A case and what the rules say about it."""

    case: Case
    rating: Rating


def main() -> None:
    rubric = load_rubric()
    judged = [Judged(case, rate_by_rules(case.item, rubric)) for case in cases()]
    for half, note in NOTES.items():
        part = [one for one in judged if one.case.half == half]
        if half == "develop" or "--all" in sys.argv:
            _print_errors(part)
        loops = [one for one in part if one.case.label == 1]
        found = [one for one in part if one.rating.label == 1]
        noted = f"{note}; {_counts(part)}"
        _keep(f"{half}, recall", RECALL, loops, noted)
        _keep(f"{half}, precision", PRECISION, found, noted)


def cases() -> list[Case]:
    """Every case whose text is at hand: public conversations are read in place."""
    paths = (GOLDEN / f"{name}_cases.jsonl" for name in ("rules", "manual"))
    lines = (line for path in paths for line in path.read_text(encoding="utf-8").splitlines())
    rows = [json.loads(line) for line in lines]
    found = [(row, _texts(row)) for row in rows]
    return [
        Case(row["id"], row["half"], row["kind"], row["label"], Item(row["id"], texts))
        for row, texts in found
        if texts
    ]


def _texts(row: dict[str, Any]) -> tuple[str, ...]:
    if "texts" in row:
        return tuple(row["texts"])
    path = DATA / row["source"]
    if not path.exists():
        return ()
    talk = _talks(path)[row["talk"]]
    return make_item(talk, SPEAKERS.get(row["source"])).texts[row["first"] - 1 : row["last"]]


@cache
def _talks(path: Path) -> dict[str, Trajectory]:
    return {talk.id: talk for talk in readers.read(path)}


def _counts(part: Sequence[Judged]) -> str:
    pairs = Counter((one.case.label, one.rating.label) for one in part)
    return (
        f"{pairs[1, 1]} of {pairs[1, 1] + pairs[1, 0]} loops found, "
        f"{pairs[0, 1]} of {pairs[0, 1] + pairs[0, 0]} others labelled 1"
    )


def _print_errors(part: Sequence[Judged]) -> None:
    for case, rating in part:
        if case.label != rating.label:
            print(f"  {case.id}: {case.label} by the manual, {rating.label}: {rating.reason}")


def _keep(what: str, bar: float, part: Sequence[Judged], note: str) -> None:
    right = sum(one.case.label == one.rating.label for one in part)
    low, high = wilson(right, len(part))
    value = f"{right} of {len(part)} ({right / len(part):.2f}, {low:.2f} to {high:.2f})"
    met = right >= bar * len(part)
    keep(Result(f"rules rater, {what}", value, f"{bar}", met, COMMAND, note))


if __name__ == "__main__":
    main()
