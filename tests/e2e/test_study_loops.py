"""A study judged by the loop detector: declared or exploratory, live, without vectors."""

import csv
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chimeralab import weights
from chimeralab.embedding import encoder
from tests.plans import SELFPLAY, changed
from tests.studies import DETECTED, MakeStudy

Chimera = Callable[..., Any]

# Two conversations that loop from their fourth turn on, and two that never do.
TABLES = """
[models.loops]
use = "phantom"
course = "verbatim"
onset = 4
[conversation]
turns = 12
repeats = 1
[outcomes]
resamples = 200
permutations = 200
[detector]
use = "loops"
"""
LOOPS = changed(SELFPLAY, TABLES)
LOCKED = '[detector]\nuse = "locked"\n'
NUDGE = """
[conditions.looping]
speakers = ["loops", "loops"]
countermeasure = { use = "nudge", turns = 4 }
"""
STOP_EARLY = ("turns = 12\n", "turns = 12\nstop_early = true\n")
STEPS = ("check", "lock", "run", "detect", "analyse", "report", "verify")


def take_through(chimera: Chimera, study: Path) -> str:
    """Every step of a study; gives the words of its report."""
    for step in STEPS:
        ran = chimera(step, study)
        assert ran.code == 0, (step, ran.err)
    return " ".join((study / "report" / "index.html").read_text(encoding="utf-8").split())


@pytest.fixture
def no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an encoder was opened")

    monkeypatch.setattr(encoder.Encoder, "__init__", refuse)
    monkeypatch.setattr(weights, "locate", lambda name: None)


@pytest.mark.usefixtures("no_encoder")
def test_declared_loop_detector_goes_through_all_steps_without_weights(
    chimera: Chimera, make_study: MakeStudy, tmp_path: Path
) -> None:
    study = make_study(LOOPS).path
    report = take_through(chimera, study)
    assert (
        "Collapse was judged by loops: a turn counts as collapsed while the conversation" in report
    )
    assert "The plan declares the loop detector; this is its outcome by kind: 2 of 4" in report
    assert "exploratory" not in report.split("Which conversations loop</h2>")[1][:600]
    assert "MiniLM" not in report
    rows = {row["id"]: row for row in chimera("detect", study, "--json").rows}
    found = rows["looping/p1/1"]
    assert found["detector"]["operating_point"] == "loops-2"
    assert (found["looping"], found["loops"][0]["kind"]) == (True, "verbatim")
    assert found["collapsed"][0] == found["loops"][0]["noticed"]
    assert found["evidence"][-1]["repeats"] == 11
    assert rows["free/p1/1"]["collapsed"] == []
    page = tmp_path / "page.html"
    assert chimera("show", study, "--id", "looping/p1/1", "--out", page).code == 0
    assert " the same text again: 9 times, to the end." in page.read_text(encoding="utf-8")


@pytest.mark.usefixtures("no_encoder")
def test_declared_loop_detector_ends_conversations_live(
    chimera: Chimera, make_study: MakeStudy
) -> None:
    study = make_study(LOOPS, STOP_EARLY).path
    take_through(chimera, study)
    for row in chimera("detect", study, "--json").rows:
        if row["metadata"]["condition"] == "looping":
            assert row["metadata"]["outcome"] == "collapsed"
            assert row["turns"] == row["loops"][0]["noticed"] < 12
        else:
            assert row["turns"] == 12


@pytest.mark.usefixtures("no_encoder")
def test_countermeasure_follows_the_declared_loop_detector(
    chimera: Chimera, make_study: MakeStudy
) -> None:
    study = make_study(LOOPS, NUDGE).path
    take_through(chimera, study)
    noticed = {
        row["id"]: row["loops"][0]["noticed"]
        for row in chimera("detect", study, "--json").rows
        if row["looping"]
    }
    with sqlite3.connect(study / "study.db") as store:
        events = store.execute(
            "SELECT trajectory, min(turn) FROM events WHERE kind = 'intervention' GROUP BY 1"
        )
        assert dict(events) == noticed
    assert len(noticed) == 2


def test_loops_end_conversations_live_while_the_locked_rule_stays_the_outcome(
    chimera: Chimera, make_study: MakeStudy
) -> None:
    live = '[live]\nuse = "loops"\n'
    study = make_study(LOOPS, LOCKED, live, NUDGE, STOP_EARLY).path
    report = take_through(chimera, study)
    assert "Collapse was judged by locked" in report
    assert "another detector acted: loops, loops-2 operating point" in report
    resolved = json.loads((study / "plan.lock").read_text("utf-8"))["resolved"]
    assert (resolved["detector"]["use"], resolved["live"]["use"]) == ("locked", "loops")
    ended = {row["id"]: row for row in chimera("detect", study, "--json").rows}
    stuck = ended["looping/p1/1"]
    assert stuck["detector"]["name"] == "locked"
    assert stuck["turns"] == stuck["loops"][0]["noticed"] < 12
    assert ended["free/p1/1"]["turns"] == 12
    with sqlite3.connect(study / "study.db") as store:
        query = "SELECT min(turn) FROM events WHERE kind = 'intervention' AND trajectory = ?"
        [(turn,)] = store.execute(query, [stuck["id"]])
    assert turn == stuck["turns"]


@pytest.mark.parametrize(
    ("live", "stop_early", "message"),
    [
        ('use = "loops"', False, "neither stop_early nor a countermeasure"),
        ('use = "loop"', True, "unknown use = 'loop' in [live] (did you mean 'loops'?)"),
        ('use = "locked"\nmarking = "retroactive"', True, "[live] can't judge live"),
    ],
)
def test_live_detector_that_cannot_act_is_rejected(
    chimera: Chimera, make_study: MakeStudy, live: str, stop_early: bool, message: str
) -> None:
    early = [STOP_EARLY] if stop_early else []
    ran = chimera("check", make_study(LOOPS, f"[live]\n{live}\n", *early).path)
    assert ran.code == 2
    assert message in ran.err


def test_changed_settings_of_the_loop_detector_are_named(
    chimera: Chimera, make_study: MakeStudy
) -> None:
    changed_settings = '[detector]\nuse = "loops"\non = 3.0\ncap = 4.0\n'
    study = make_study(LOOPS, changed_settings, steps=("run",)).path
    ran = chimera("detect", study, "--json")
    assert "loops, NOT the loops-2 operating point (on=3.0, cap=4.0)" in ran.err
    [found] = [row for row in ran.rows if row["id"] == "looping/p1/1"]
    assert found["loop_detector"]["operating_point"] == "changed"
    assert found["collapsed"][0] == found["loops"][0]["noticed"] > 7


@pytest.fixture
def locked(make_study: MakeStudy) -> Path:
    return make_study(LOOPS, LOCKED, steps=DETECTED).path


def test_loops_are_exploratory_if_the_locked_detector_is_declared(
    chimera: Chimera, locked: Path
) -> None:
    assert chimera("report", locked).code == 0
    report = " ".join((locked / "report" / "index.html").read_text(encoding="utf-8").split())
    assert "In addition to the declared detector, the loop detector (loops-2) was run" in report
    assert "2 of 4 conversations loop. The plan did not declare it" in report
    assert "The plan did not declare it, so this is exploratory." in report
    assert "same text again 2" in report
    assert report.count("the same text again: ") == 2  # a sentence for each shown
    with (locked / "report" / "tables" / "loops.csv").open(newline="") as file:
        rows = {row["condition"]: row for row in csv.DictReader(file)}
    assert (rows["looping"]["looping"], rows["looping"]["kinds"]) == ("2", "verbatim 2")
    assert (rows["free"]["conversations"], rows["free"]["looping"]) == ("2", "0")


def test_table_of_a_study_has_a_column_for_loops(chimera: Chimera, locked: Path) -> None:
    ran = chimera("detect", locked)
    assert "same text again 4–end" in ran.out
    assert ran.out.startswith("2 of 4 conversations loop; ")
    assert "detectors: loops-2, locked (default settings)" in ran.err
    assert chimera("detect", locked, "--fail-on", "loop").code == 1


def test_export_has_the_loops_of_conversations(
    chimera: Chimera, locked: Path, tmp_path: Path
) -> None:
    assert chimera("export", locked, "--format", "csv", "--out", tmp_path / "out").code == 0
    with (tmp_path / "out" / "trajectories.csv").open(newline="") as file:
        rows = {row["trajectory"]: row for row in csv.DictReader(file)}
    assert rows["looping/p1/1"]["looping"] == "true"
    assert rows["looping/p1/1"]["loops"].startswith("verdict verbatim ")
    assert float(rows["looping/p1/1"]["loop_score"]) > 0.5
    assert (rows["free/p1/1"]["looping"], rows["free/p1/1"]["steps"]) == ("false", "12")


def problems(chimera: Chimera, study: Path) -> list[str]:
    """The conversations whose verdict was written again; nothing else may be wrong."""
    found = chimera("verify", study, "--json").json["findings"]
    assert all(each["problem"].endswith("changed from outside") for each in found)
    return [each["place"] for each in found]


def test_loops_that_were_stored_without_their_echoes_verify_and_show_the_same(
    chimera: Chimera, locked: Path
) -> None:
    shown = "show", locked, "--id", "looping/p1/1", "--out", locked / "page.html"
    assert chimera(*shown).code == 0
    page = (locked / "page.html").read_text("utf-8")
    with sqlite3.connect(locked / "study.db") as store:
        for name, text in store.execute("SELECT trajectory, detection FROM detections").fetchall():
            found = json.loads(text)
            for loop in found["loops"]:
                del loop["echoes"], loop["frame"], loop["fillings"]
            change = "UPDATE detections SET detection = ? WHERE trajectory = ?"
            store.execute(change, (json.dumps(found), name))
    assert set(problems(chimera, locked)) == {"looping/p1/1", "looping/p2/1"}
    assert chimera(*shown).code == 0
    assert (locked / "page.html").read_text("utf-8") == page


def test_verdicts_of_earlier_versions_have_no_loops_and_still_work(
    chimera: Chimera, locked: Path, tmp_path: Path
) -> None:
    study = locked
    new = ("steps", "looping", "loops", "loop_score", "loop_detector")
    with sqlite3.connect(study / "study.db") as store:
        for name, text in store.execute("SELECT trajectory, detection FROM detections").fetchall():
            kept = {key: value for key, value in json.loads(text).items() if key not in new}
            change = "UPDATE detections SET detection = ? WHERE trajectory = ?"
            store.execute(change, (json.dumps(kept), name))
    ran = chimera("detect", study, "--fail-on", "loop")
    assert ran.code == 1
    assert "no conversation could be judged for loop" in ran.err
    assert "0 new verdicts" in ran.err
    for kind in ("csv", "parquet"):
        assert chimera("export", study, "--format", kind, "--out", tmp_path / kind).code == 0
    assert chimera("report", study).code == 0
    assert "Which conversations loop" not in (study / "report" / "index.html").read_text("utf-8")
    assert len(problems(chimera, study)) == 4
