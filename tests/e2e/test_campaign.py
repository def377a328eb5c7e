"""The first cases of each part of `make campaign`, and what its command does with a fault."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests import campaign
from tests.attacks import Damage, Tamper
from tests.campaign import GROUPS, PARTS, Part, Worker, run_case
from tests.fuzzing import TARGETS
from tests.kills import Kills
from tests.studies import StudyCache
from tests.tamper import ATTACKS as TAMPERINGS
from tests.tamper import SUBSET

CASES = {"readers": 160, "streams": 100, "commands": 24, "locks": 12}
FUZZED = [name for name in GROUPS["fuzz"] if name != "kernel"]


@pytest.mark.parametrize("name", FUZZED)
def test_first_inputs_are_read_or_refused(name: str, tmp_path: Path) -> None:
    target = TARGETS[name](tmp_path)
    faults = [run_case(name, target, number) for number in range(CASES.get(name, 60))]
    assert [fault for fault in faults if fault] == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the records of a campaign."""
    monkeypatch.setattr(campaign, "FOLDER", tmp_path)
    monkeypatch.setenv("CAMPAIGN_FOLDER", str(tmp_path))
    return tmp_path


@pytest.mark.weights
def test_first_calls_of_the_encoder_satisfy_the_sanitizers(folder: Path) -> None:
    worker = Worker("kernel")
    try:
        assert worker.run(0, 20)["faults"] == []
    finally:
        worker.close()
        campaign._with_sanitizers.cache_clear()


@pytest.mark.kill
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="looks for processes as Linux lists them")
def test_commands_and_the_app_survive_kills(tmp_path: Path, studies: StudyCache) -> None:
    kills = Kills(tmp_path, studies, clock=False)
    for name in ("run", "rate packet", "rubric lock", "new", "view"):
        kills.kill(name, random.Random(name))


def test_damaged_databases_are_read_or_refused(
    tmp_path: Path, studies: StudyCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAMPAIGN_STUDIES", str(studies.folder))
    attack = Damage(tmp_path)
    assert [run_case("damage", attack, number) for number in (1, 4)] == [None, None]


def name_tampering(ways: Iterable[int], folder: Path, studies: StudyCache) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CAMPAIGN_STUDIES", str(studies.folder))
        attack = Tamper(folder)
        faults = [run_case("tamper", attack, number) for number in ways]
    assert [fault for fault in faults if fault] == []


def test_tampering_is_named_or_on_the_documented_list(tmp_path: Path, studies: StudyCache) -> None:
    name_tampering(SUBSET, tmp_path, studies)


@pytest.mark.slow
def test_every_tampering_is_named_or_on_the_documented_list(
    tmp_path: Path, studies: StudyCache
) -> None:
    name_tampering(set(range(len(TAMPERINGS))) - set(SUBSET), tmp_path, studies)


class Faulty:
    """A part with a fault of each kind."""

    shown = "nothing"

    def __init__(self, folder: Path) -> None:
        self.kept: list[bytes] = []

    def attack(self, number: int, _rng: random.Random) -> None:
        match number:
            case 1:
                raise KeyError("no such key")
            case 2:
                while True:
                    pass
            case 3:
                self.kept.append(b"x" * (500 << 20))
            case 4:
                os.abort()


PLANTED = Part("faults", 6, 3, 0.1, "tests.e2e.test_campaign:FAULTY", 1.0)
FAULTY = {"faulty": Faulty}
PLANT = "from tests import campaign as c; from tests.e2e.test_campaign import PLANTED; "


class FaultyWorker(Worker):
    """A worker that knows the faulty part."""

    def _start(self) -> subprocess.Popen[str]:
        plant = f"{PLANT}c.PARTS['faulty'] = PLANTED; c.work('faulty')"
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [sys.executable, "-c", plant], stdin=pipe, stdout=pipe, text=True, env=os.environ
        )


def test_every_kind_of_fault_is_found_and_the_rest_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PARTS, "faulty", PLANTED)
    worker = FaultyWorker("faulty")
    try:
        found = worker.run(0, 6)["faults"]
    finally:
        worker.close()
    assert [fault["case"] for fault in found] == [1, 2, 3, 4]
    raised, late, large, dead = (fault["what"] for fault in found)
    assert raised.startswith("KeyError in tests/e2e/test_campaign.py")
    assert "more than 1 s of CPU" in late
    assert "MB of memory" in large
    assert dead == "died: SIGABRT"


def run_campaign(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.campaign", "--workers", "1", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_campaign_is_recorded_and_continued(folder: Path) -> None:
    ran = run_campaign("--only", "packets,rubrics", "--cases", "50")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    records = folder / "records.jsonl"
    rows: list[dict[str, Any]] = [json.loads(line) for line in records.read_text().splitlines()]
    assert [(row["part"], row["cases"], row["failed"]) for row in rows] == [
        ("packets", 20, 0),
        ("rubrics", 30, 0),
    ]
    records.write_text(json.dumps(rows[1]) + "\n")  # as if it had been stopped
    again = run_campaign("--only", "packets,rubrics", "--cases", "50")
    assert again.returncode == 0
    assert [json.loads(line)["part"] for line in records.read_text().splitlines()] == [
        "rubrics",
        "packets",
    ]


def test_case_can_be_repeated_alone(folder: Path) -> None:
    ran = run_campaign("--repeat", "packets:3")
    assert (ran.returncode, "no fault" in ran.stdout) == (0, True)
    assert (folder / "packets-3").read_bytes()


def test_unknown_part_is_named() -> None:
    ran = run_campaign("--only", "reader")
    assert ran.returncode != 0
    assert "no part 'reader'; known: fuzz, " in ran.stderr
