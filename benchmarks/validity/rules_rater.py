"""The rules rater against labels given by the manual before it ran: recall and precision.

Half of the cases served to develop the rater; only the other half is reported against the bars.
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
from chimeralab.rating.ratings import Item, Rating, item_of
from chimeralab.rating.rubric import Label, load_rubric
from chimeralab.rating.rules import rate_by_rules
from chimeralab.stats.intervals import wilson

COMMAND = "python -m benchmarks.validity.rules_rater"
CASES = ROOT / "tests" / "golden" / "rules_cases.jsonl"
DATA = ROOT.parent / "shared" / "data"
SPEAKERS = {"dialogue-eval/conversations.jsonl": "bot"}
RECALL, PRECISION = 0.8, 0.9


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
    for half in ("develop", "report"):
        part = [one for one in judged if one.case.half == half]
        print(f"{half}: {_counts(part)}")
        if half == "develop" or "--all" in sys.argv:
            _print_errors(part)
    reported = [one for one in judged if one.case.half == "report"]
    _keep("recall", RECALL, [one for one in reported if one.case.label == 1], reported)
    _keep("precision", PRECISION, [one for one in reported if one.rating.label == 1], reported)


def cases() -> list[Case]:
    """Every case whose text is at hand: public conversations are read in place."""
    rows = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
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
    return item_of(talk, SPEAKERS.get(row["source"])).texts[row["first"] - 1 : row["last"]]


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


def _keep(what: str, bar: float, part: Sequence[Judged], reported: Sequence[Judged]) -> None:
    right = sum(one.case.label == one.rating.label for one in part)
    low, high = wilson(right, len(part))
    value = f"{right} of {len(part)} ({right / len(part):.2f}, {low:.2f} to {high:.2f})"
    note = f"{len(reported)} cases labelled by the manual before the rater ran; {_counts(reported)}"
    keep(Result(f"rules rater, {what}", value, f"{bar}", right >= bar * len(part), COMMAND, note))


if __name__ == "__main__":
    main()
