"""Scenarios as records: hashed completely, with limits on their settings."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from chimeralab.core.errors import InputError
from chimeralab.trial.scenarios import GENERATORS, Beliefs, Consensus, Framing, Ledger

PRINT_HASHES = """
from chimeralab.trial.scenarios import GENERATORS
print(*(generator().make(7).sha256 for generator in GENERATORS.values()))
"""


def test_hash_covers_every_word() -> None:
    scenario = Ledger().make(1)
    first = scenario.questions[0]
    for change in ({"truth": "else"}, {"prompt": first.prompt + " "}, {"weight": 0.1}):
        changed = replace(scenario, questions=(replace(first, **change), *scenario.questions[1:]))
        assert changed.sha256 != scenario.sha256


def test_scenarios_are_the_same_in_every_process() -> None:
    here = [generator().make(7).sha256 for generator in GENERATORS.values()]
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-c", PRINT_HASHES]
        ran = subprocess.run(
            command, env={"PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True
        )
        assert ran.stdout.split() == here


def test_kinds_do_not_share_their_draws() -> None:
    assert Consensus(items=4).make(3).sha256 != Beliefs(items=4).make(3).sha256


def test_session_asks_what_its_design_says() -> None:
    scenario = Ledger(people=5, recall=3, inference=2, novel=1).make(1)
    assert len(scenario.facts) == 4 * 5 - 1
    assert sum(bool(question.novel) for question in scenario.questions) == 1
    assert sum(question.kind == "recall" for question in scenario.questions) == 3
    assert len(scenario.questions) == 6


def test_halves_of_a_pair_lie_apart() -> None:
    pairs = [question.pair for question in Framing(pairs=5).make(2).questions]
    assert pairs[:5] == pairs[5:]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Ledger(people=2), "ledger: people must be 3 to 30, not 2"),
        (lambda: Ledger(people=3, recall=9), "ledger: recall must be 0 to 8, not 9"),
        (lambda: Beliefs(items=0), r"beliefs: items must be \d+ to \d+, not 0"),
        (lambda: Consensus(items=0), r"consensus: items must be \d+ to \d+, not 0"),
        (lambda: Framing(pairs=0), r"framing: pairs must be \d+ to \d+, not 0"),
    ],
)
def test_settings_outside_their_limits_are_rejected(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()
