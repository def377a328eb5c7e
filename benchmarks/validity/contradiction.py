"""How often two statements are taken for the same, by kind of pair, with and without the guard."""

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from benchmarks.table import Result, keep
from chimeralab.trial.scoring import SAME_ABOVE, Scorer

COMMAND = "python -m benchmarks.validity.contradiction"
PAIRS = Path(__file__).parents[2] / "tests/golden/contradiction_pairs.jsonl"
NEVER = ("negation", "number")


class Tally(NamedTuple):
    """Pairs of each kind, those taken for the same, and those that similarity alone would take."""

    pairs: Counter[str]
    same: Counter[str]
    unguarded: Counter[str]


def main() -> None:
    tally = judged()
    for kind, pairs in tally.pairs.items():
        keep(_result(kind, pairs, tally.same[kind], tally.unguarded[kind]))


def judged() -> Tally:
    """Every pair of the set, scored."""
    scorer, tally = Scorer(), Tally(Counter(), Counter(), Counter())
    for line in PAIRS.read_text(encoding="utf-8").splitlines():
        pair = json.loads(line)
        one, other, kind = pair["one"], pair["other"], pair["kind"]
        tally.pairs[kind] += 1
        tally.same[kind] += scorer.score(one, other).same
        tally.unguarded[kind] += scorer.similarity(one, other) > SAME_ABOVE
    return tally


def _result(kind: str, pairs: int, same: int, unguarded: int) -> Result:
    wanted = kind == "paraphrase"
    errors = pairs - same if wanted else same
    what = "missed" if wanted else "taken for the same"
    bar = "0" if kind in NEVER else "printed as it is"
    note = f"similarity alone: {pairs - unguarded if wanted else unguarded}"
    value = f"{errors} of {pairs} {what}"
    met = errors == 0 or kind not in NEVER
    return Result(f"statements, {kind}", value, bar, met, COMMAND, note)


if __name__ == "__main__":
    main()
