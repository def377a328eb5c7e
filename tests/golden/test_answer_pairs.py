"""Answers labelled before the scorer was tuned: few of any kind are judged wrongly."""

import json
from collections import Counter
from pathlib import Path

import pytest

from chimeralab.trial.scoring import Scorer

PAIRS = [
    json.loads(line)
    for line in (Path(__file__).parent / "answer_pairs.jsonl").read_text().splitlines()
]
KINDS = ("names", "numbers", "things", "yes/no")


def test_set_is_large_balanced_and_half_of_it_is_held_out() -> None:
    assert len(PAIRS) >= 300
    counts = Counter((pair["kind"], pair["right"], pair["held_out"]) for pair in PAIRS)
    assert len(counts) == 4 * len(KINDS)
    assert set(counts.values()) == {20}


@pytest.mark.weights
@pytest.mark.parametrize("kind", KINDS)
def test_at_most_one_answer_in_twenty_is_judged_wrongly(kind: str) -> None:
    scorer = Scorer()
    pairs = [pair for pair in PAIRS if pair["kind"] == kind]
    for asked in (True, False):
        wrong = [
            pair
            for pair in pairs
            if scorer.score(pair["answer"], pair["truth"], pair["question"] if asked else "").same
            is not pair["right"]
        ]
        assert len(wrong) <= len(pairs) / 20
