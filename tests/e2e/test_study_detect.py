"""`chimera detect STUDY` judges what is finished, once, and shows what is stored."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.plans import SELFPLAY
from tests.studies import MakeStudy

Chimera = Callable[..., Any]

# One loops from its fourth turn on.
TABLES = """
[models.loops]
use = "phantom"
course = "verbatim"
onset = 4
[conversation]
turns = 10
[prompts]
items = [{ id = "p1", bucket = "planning", text = "Plan a trip." }]
"""


@pytest.fixture
def study(make_study: MakeStudy) -> Path:
    return make_study(SELFPLAY, TABLES, steps=("run",)).path


def test_study_is_judged_by_its_plan(chimera: Chimera, study: Path) -> None:
    found = {row["metadata"]["condition"]: row for row in chimera("detect", "--json", study).rows}
    assert found["looping"]["first_collapse_turn"] == 7
    assert found["free"]["collapsed"] == []
    assert found["looping"]["judged"].startswith("all turns")


def test_the_second_time_nothing_is_judged_again(chimera: Chimera, study: Path) -> None:
    first = chimera("detect", "--json", study)
    second = chimera("detect", "--json", study)
    assert "2 new verdicts" in first.err
    assert "0 new verdicts" in second.err
    assert first.out == second.out


def test_trusting_stored_verdicts_is_explicit(
    chimera: Chimera, study: Path, tmp_path: Path
) -> None:
    said = f"using stored verdicts; `chimera verify {study}` recomputes and checks them"
    assert said in chimera("analyse", study).err
    assert chimera("compare", study, study).err.count(said) == 2
    assert said in chimera("export", study, "--out", tmp_path / "out").err
    text = tmp_path / "text.md"
    text.write_text("Nothing.", encoding="utf-8")
    assert said in chimera("claims", text, "--study", study).err


def test_table_groups_by_condition(chimera: Chimera, study: Path) -> None:
    ran = chimera("detect", study, "--group-by", "condition")
    # One prompt alone says nothing about others, so there is no interval.
    assert "1 of 2 conversations was marked as collapsed (50.0 %)." in ran.out
    assert "intervals treat the conversations on one prompt as a cluster" in ran.out
    assert "looping" in ran.out


def test_other_settings_than_the_plan_says_are_rejected(chimera: Chimera, study: Path) -> None:
    ran = chimera("detect", study, "--s1", "0.5")
    assert ran.code == 2
    assert "the plan of a study sets its detector: leave out --s1" in ran.err


def test_show_reports_the_progress_of_a_study(chimera: Chimera, study: Path) -> None:
    ran = chimera("show", study)
    assert ran.code == 0
    assert "not locked: exploratory" in ran.out
    assert "looping" in ran.out


def test_show_draws_a_stored_conversation(chimera: Chimera, study: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert chimera("show", study, "--id", "looping/p1/1", "--out", page).code == 0
    assert "Turns 7–10 were marked as collapsed" in page.read_text(encoding="utf-8")


def test_study_that_was_not_run_says_so(chimera: Chimera, make_study: MakeStudy) -> None:
    ran = chimera("detect", make_study(SELFPLAY).path)
    assert ran.code == 2
    assert "`chimera run` creates it" in ran.err
