"""Pairs of statements: which must never count as the same, and how many are found."""

import json
from collections import Counter
from pathlib import Path

import pytest

from chimeralab.trial.scoring import Scorer
from chimeralab.trial.wording import conflict

PAIRS = [
    json.loads(line)
    for line in (Path(__file__).parent / "contradiction_pairs.jsonl").read_text().splitlines()
]


def of_kind(*kinds: str) -> list[tuple[str, str]]:
    return [(pair["one"], pair["other"]) for pair in PAIRS if pair["kind"] in kinds]


def test_set_is_large_and_has_every_kind() -> None:
    kinds = Counter(pair["kind"] for pair in PAIRS)
    assert sum(kinds.values()) >= 200
    assert set(kinds) == {"paraphrase", "negation", "number", "antonym", "unrelated", "order"}
    assert min(kinds.values()) >= 20


@pytest.mark.parametrize(("one", "other"), of_kind("negation", "number"))
def test_negations_and_number_changes_never_count_as_the_same(one: str, other: str) -> None:
    assert conflict(one, other) is not None
    assert not Scorer().score(one, other).same
    assert not Scorer().score(other, one).same


@pytest.mark.parametrize(("one", "other"), of_kind("order"))
def test_swapped_roles_never_count_as_the_same(one: str, other: str) -> None:
    assert conflict(one, other) is not None


@pytest.mark.weights
def test_guard_is_needed_and_costs_little() -> None:
    scorer = Scorer()

    def share(kind: str) -> float:
        return sum(scorer.score(*pair).same for pair in of_kind(kind)) / len(of_kind(kind))

    assert share("unrelated") == 0
    assert share("antonym") < 0.05
    assert share("paraphrase") > 0.4
    unobjected = [pair for pair in of_kind("paraphrase") if conflict(*pair) is None]
    assert len(unobjected) >= 0.9 * len(of_kind("paraphrase"))
