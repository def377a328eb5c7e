"""`chimera report STUDY` writes one page with figures and tables, completely or not at all."""

import csv
import sqlite3
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.plans import LOOPERS, changed
from tests.studies import DETECTED, RUN, MakeStudy

Chimera = Callable[..., Any]

ONE_TALK = changed(
    LOOPERS,
    """
[conditions.drifts]
[conditions.collapsed_ones]
[prompts]
items = [{ id = "p1", bucket = "plain", text = "Plan a trip." }]
""",
    ("repeats = 2", "repeats = 1"),
)


@pytest.fixture
def reported(make_study: MakeStudy) -> Path:
    """A study with its report."""
    return make_study(LOOPERS, steps=(*DETECTED, "report")).path


@pytest.fixture
def study(make_study: MakeStudy) -> Path:
    """A minimal study."""
    return make_study(ONE_TALK, steps=RUN).path


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def stored(study: Path) -> list[Any]:
    with sqlite3.connect(study / "study.db") as db:
        tables = ("trajectories", "turns", "attempts", "events", "runs", "study")
        return [db.execute(f"SELECT * FROM {table}").fetchall() for table in tables]


def test_report_says_where_the_page_is_and_writes_every_file(chimera: Chimera, study: Path) -> None:
    before = stored(study)
    ran = chimera("report", study)
    assert ran.code == 0
    assert ran.out.strip() == str(study / "report" / "index.html")
    found = files(study / "report")
    assert {"index.html", "figures/flow.svg", "figures/flow.png", "tables/flow.csv"} <= set(found)
    assert stored(study) == before


def test_every_figure_is_there_as_svg_and_png(reported: Path) -> None:
    folder = reported / "report" / "figures"
    drawn, pictures = list(folder.glob("*.svg")), list(folder.glob("*.png"))
    assert {path.stem for path in drawn} == {path.stem for path in pictures}
    assert len(drawn) > 12
    for path in drawn:
        ET.fromstring(path.read_bytes())
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)


def test_second_report_is_identical(chimera: Chimera, study: Path) -> None:
    assert chimera("report", study).code == 0
    first = files(study / "report")
    (study / "report" / "figures" / "from_an_earlier_report.svg").write_text("<svg/>")
    (study / "report" / "notes.txt").write_text("my own")
    assert chimera("report", study).code == 0
    assert files(study / "report") == first | {"notes.txt": b"my own"}


def test_json_names_the_page_the_result_and_the_files(chimera: Chimera, study: Path) -> None:
    (row,) = chimera("report", study, "--json").rows
    assert row["page"] == str(study / "report" / "index.html")
    assert len(row["glance"]) == 2
    assert all(Path(name).is_file() for name in row["files"])


def test_table_of_runs_can_be_analysed_again(chimera: Chimera, reported: Path) -> None:
    (again,) = chimera("analyse", "--json", reported / "report" / "tables" / "runs.csv").rows
    with (reported / "report" / "tables" / "conditions.csv").open(encoding="utf-8") as file:
        means = {row["condition"]: float(row["mean"]) for row in csv.DictReader(file)}
    assert means == {name: each["mean"] for name, each in again["conditions"].items()}


def test_tables_are_guarded_against_formulas(reported: Path) -> None:
    for path in (reported / "report" / "tables").iterdir():
        with path.open(encoding="utf-8") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert not any(cell.startswith(("=", "@")) for cell in cells)


def test_report_that_cannot_be_made_leaves_the_last_one_alone(
    chimera: Chimera, reported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(reported / "report")

    def fails(*_: Any, **__: Any) -> str:
        raise OSError("no more room")

    monkeypatch.setattr("chimeralab.report.files.render", fails)
    assert chimera("report", reported).code == 2
    assert files(reported / "report") == before


def test_study_that_was_not_run_says_what_to_do(chimera: Chimera, make_study: MakeStudy) -> None:
    study = make_study(LOOPERS, steps=("lock",))
    ran = chimera("report", study.path)
    assert ran.code == 2
    assert f"start with `chimera run {study.path}`" in ran.err
    assert not (study.path / "report").exists()


def test_folder_that_is_not_a_study_is_rejected(chimera: Chimera, tmp_path: Path) -> None:
    ran = chimera("report", tmp_path)
    assert ran.code == 2
    assert "is not a study" in ran.err


def test_trial_that_was_not_run_is_sent_to_its_run(chimera: Chimera, tmp_path: Path) -> None:
    assert chimera("new", tmp_path / "trial", "--template", "trial-amnesia").code == 0
    ran = chimera("report", tmp_path / "trial")
    assert ran.code == 2
    assert "`chimera run" in ran.err


def test_place_that_cannot_be_written_is_named(chimera: Chimera, study: Path) -> None:
    (study / "report").write_text("a file")
    ran = chimera("report", study)
    assert ran.code == 2
    assert f"{study / 'report' / 'figures'} can't be created (Not a directory)" in ran.err


def test_report_of_one_conversation_says_what_it_cannot_show(chimera: Chimera, study: Path) -> None:
    (study / "plan.lock").unlink()
    (row,) = chimera("report", study, "--json").rows
    page = Path(row["page"]).read_text(encoding="utf-8")
    assert "nothing to compare it with" in row["glance"][1]
    assert "<strong>Exploratory:</strong>" in page.split("<nav")[0]
    assert "one seed prompt alone says nothing" in page
    assert not (study / "report" / "figures" / "contrasts.svg").exists()


def test_study_with_nothing_to_analyse_has_a_report_that_says_why(
    chimera: Chimera, make_study: MakeStudy
) -> None:
    study = make_study(ONE_TALK, ("turns = 14", "turns = 3"), steps=RUN)
    (row,) = chimera("report", study.path, "--json").rows
    assert row["glance"][0] == "There is no result yet."
    assert "too short for a verdict" in row["glance"][1]
    with (study.path / "report" / "tables" / "flow.csv").open(encoding="utf-8") as file:
        (arm,) = csv.DictReader(file)
    assert (arm["ended"], arm["parsable"], arm["analysed"]) == ("1", "0", "0")
    assert "1 too short for a verdict" in arm["notes"]


def test_plan_that_changed_after_the_lock_is_reported_as_a_deviation(
    chimera: Chimera, study: Path
) -> None:
    chimera("detect", study)
    plan = (study / "plan.toml").read_text(encoding="utf-8")
    (study / "plan.toml").write_text(plan.replace("seed = 3", "seed = 4"), encoding="utf-8")
    ran = chimera("report", study)
    assert ran.code == 0
    page = (study / "report" / "index.html").read_text(encoding="utf-8")
    assert "<strong>Not as locked:</strong>" in page
    assert "run.seed: 3 → 4" in page


def test_edited_turn_is_reported_as_a_deviation(chimera: Chimera, study: Path) -> None:
    with sqlite3.connect(study / "study.db") as db:
        db.execute("UPDATE turns SET text = 'edited' WHERE trajectory = 'loops/p1/1' AND turn = 2")
    chimera("report", study)
    page = (study / "report" / "index.html").read_text(encoding="utf-8")
    assert "loops/p1/1: turn 2 is not the one that was stored" in page


def test_planted_gate_record_is_not_believed(chimera: Chimera, study: Path) -> None:
    counts = ("--table", 157, 0, 0, 100)
    assert chimera("audit", *counts, "--record", study / "audit").code == 0
    chimera("report", study)
    page = (study / "report" / "index.html").read_text(encoding="utf-8")
    assert "Gate: " not in page
    assert "No reliability audit has been run" in page
