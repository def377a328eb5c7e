"""Sixty cases labelled by the coding manual before the rules rater was changed for them.

Half of each label, drawn by the hash of its id, was open while the rules were changed. The other
half was measured once, afterwards. Thirty more, `outside`, were written later by somebody who had
not read the rules, and measured once.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from chimeralab.rating.ratings import Item
from chimeralab.rating.rubric import load_rubric
from chimeralab.rating.rules import rate_by_rules

CASES: list[dict[str, Any]] = [
    json.loads(line)
    for line in Path(__file__).with_name("manual_cases.jsonl").read_text("utf-8").splitlines()
]


def test_halves_are_drawn_by_the_hash_of_the_id() -> None:
    for label in (0, 1):
        part = [case for case in CASES if case["label"] == label and case["half"] != "outside"]
        part.sort(key=lambda case: hashlib.sha256(case["id"].encode()).hexdigest())
        assert len(part) == len({case["id"] for case in part}) == 30
        assert [case["half"] for case in part] == ["develop", "held-out"] * 15


def errors(half: str, label: int) -> list[str]:
    """The cases that the rules label differently from the manual."""
    part = [case for case in CASES if (case["half"], case["label"]) == (half, label)]
    items = [Item(case["id"], tuple(case["texts"])) for case in part]
    return [item.id for item in items if rate_by_rules(item, load_rubric()).label != label]


def test_rules_label_the_open_half_as_the_manual_does() -> None:
    assert errors("develop", 0) == errors("develop", 1) == []


def test_rules_find_four_of_five_loops_of_the_closed_half_and_nothing_else() -> None:
    assert errors("held-out", 0) == []
    assert len(errors("held-out", 1)) <= 3


def test_rules_find_four_of_five_loops_of_another_writer_and_nothing_else() -> None:
    assert sum(case["half"] == "outside" for case in CASES) == 30
    assert errors("outside", 0) == []
    assert len(errors("outside", 1)) <= 3
