"""How often a free answer is judged wrongly, by kind of truth, on our own labelled pairs."""

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from benchmarks.table import Result, keep
from chimeralab.trial.scoring import Scorer

COMMAND = "python -m benchmarks.validity.answers"
PAIRS = Path(__file__).parents[2] / "tests/golden/answer_pairs.jsonl"
BAR = 0.05


class AnswerErrors(NamedTuple):
    """Pairs of each kind, right ones that were rejected, and wrong ones that passed."""

    pairs: Counter[str]
    missed: Counter[str]
    passed: Counter[str]


def main() -> None:
    for held_out, part in ((False, "tuned on"), (True, "held out")):
        found = errors(held_out=held_out)
        for kind, pairs in found.pairs.items():
            missed, passed = found.missed[kind], found.passed[kind]
            value = f"{missed + passed} of {pairs} ({missed} missed, {passed} let through)"
            met = missed + passed <= BAR * pairs
            keep(Result(f"answers, {kind}, {part}", value, "at most 5 %", met, COMMAND))


def errors(*, held_out: bool) -> AnswerErrors:
    """The pairs of one half, judged as a trial judges them."""
    scorer, found = Scorer(), AnswerErrors(Counter(), Counter(), Counter())
    for line in PAIRS.read_text(encoding="utf-8").splitlines():
        pair = json.loads(line)
        if pair["held_out"] is not held_out:
            continue
        right = scorer.score(pair["answer"], pair["truth"], pair["question"]).same
        found.pairs[pair["kind"]] += 1
        found.missed[pair["kind"]] += pair["right"] and not right
        found.passed[pair["kind"]] += right and not pair["right"]
    return found


if __name__ == "__main__":
    main()
