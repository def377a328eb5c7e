"""`chimera sweep`: distinct detectors, the range of rates, and the order of the groups."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Chimera = Callable[..., Any]
LOOP = "Here is the revised version of the text."
WORDS = ["anchor", "bread", "cello", "desert", "engine", "forest", "garden", "harbour"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    talks = [("a1", "rotating", "s1", 8), ("b1", "alone", "s1", 5), ("b2", "alone", "s2", 9)]
    lines = []
    for name, condition, seed, loops in talks:
        turns = [f"Tell me about the {word}." for word in WORDS] + [LOOP] * loops
        lines.append({"id": name, "condition": condition, "seed": seed, "turns": turns})
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_default_grid_is_that_of_the_study(chimera: Chimera, log: Path) -> None:
    ran = chimera("sweep", log, "--json", "--within", "seed")
    [result] = ran.rows
    assert (result["cells"], result["distinct_detectors"]) == (36, 25)
    assert result["conversations"] == 3
    assert result["lowest_rate"] <= result["highest_rate"]
    assert result["stability"][0]["units"] == 1
    assert len(result["points"]) == 25


def test_table_shows_the_range_and_the_order(chimera: Chimera, log: Path) -> None:
    ran = chimera("sweep", log, "--within", "seed")
    assert ran.code == 0
    assert "36 cells, 25 distinct detectors" in ran.out
    assert "Judged: all turns (self-play) in 3 conversations." in ran.out
    assert "Order at the locked point: " in ran.out
    assert "By seed: the order of the means holds in" in ran.out


def test_custom_grid_is_swept(chimera: Chimera, log: Path) -> None:
    [result] = chimera("sweep", log, "--json", "--s1", "0.5,0.92,0.99", "--d1", "0.08").rows
    assert result["cells"] == 3 * 2 * 1 * 3


def test_grid_must_be_a_list_of_numbers(chimera: Chimera, log: Path) -> None:
    ran = chimera("sweep", log, "--s1", "high,low")
    assert ran.code == 2
    assert "'high,low' is not a list of numbers such as 0.90,0.92" in ran.err


def test_threshold_out_of_range_is_rejected(chimera: Chimera, log: Path) -> None:
    ran = chimera("sweep", log, "--s1", "7")
    assert ran.code == 2
    assert "s1 must be a number from -1 to 1, not 7.0" in ran.err


def test_study_is_sent_to_the_command_that_varies_its_thresholds(chimera, tmp_path):
    chimera("new", tmp_path / "study")
    ran = chimera("sweep", tmp_path / "study")
    assert (ran.code, "analyse" in ran.err, ran.err.count("\n")) == (2, True, 1)
