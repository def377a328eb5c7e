"""Loop → escape → relapse on the page: the figure, its words, and the numbers under their names."""

import json

import pytest

from chimeralab.report.page import find_blocks
from chimeralab.report.table import Table
from chimeralab.selfplay.escape import Against, Escape, PerturbedLoop, analyse_escape
from chimeralab.selfplay.report.escape import (
    arm_table,
    comparison_table,
    describe_escape,
    escape_figure,
    escape_section,
)
from tests.plans import PERTURBED


def analysed(*ended):
    courses = [
        PerturbedLoop("duo", arm, str(n), 8, 3, 30, False, 4 if n < count else None, None)
        for arm, count in zip(("nudge", "sham"), ended, strict=True)
        for n in range(8)
    ]
    return analyse_escape(courses, Escape(), ["nudge", "sham"], [Against("nudge", "sham")])


def test_one_sentence_says_which_loops_ended_and_what_differs():
    (said,) = describe_escape(analysed(7, 1))
    assert "nudge 87.5" in said
    assert "then 0.0" in said
    assert "nudge ended more loops than sham: +75.0\xa0points" in said
    (alike,) = describe_escape(analysed(3, 2))
    assert "nudge did not clearly differ from sham" in alike


def test_nothing_known_is_said_with_its_reason():
    found = analyse_escape([], Escape(), ["nudge"], [])
    assert list(describe_escape(found)) == [
        "Nothing is known about escapes: nudge: no conversation was in a loop."
    ]
    assert escape_figure(found) is None


def test_every_arm_has_a_row_for_every_measure():
    found = analysed(7, 1)
    assert len(arm_table(found).rows) == 10
    first, last = comparison_table(found).rows
    assert first[0][0] == "nudge − sham (primary): share that escaped"
    assert last[0][0] == "each turn in the loop before: share that escaped"


def test_figure_says_what_it_shows_for_those_who_do_not_see_it():
    figure = escape_figure(analysed(8, 0))
    assert "nudge: in the loop 0\xa0%, escaped 100\xa0%" in figure.label
    assert "<svg" in figure.wide


def test_section_has_a_table_to_download():
    names = [table.name for table in find_blocks(Table, [escape_section(analysed(5, 2))])]
    assert names == ["escape_arms", "escape_differences"]


@pytest.fixture
def perturbed(make_study):
    return make_study(PERTURBED, steps=("lock", "run", "detect"))


def test_report_and_analyse_and_claims_have_the_same_numbers(perturbed, chimera):
    printed = json.loads(chimera("analyse", perturbed.path, "--json").out)
    value = printed["escape"]["arms"]["nudge"]["estimates"]["escape"]["value"]
    assert value == 1
    assert "Loop → escape → relapse" in chimera("analyse", perturbed.path).out
    assert chimera("report", perturbed.path).code == 0
    page = (perturbed.path / "report" / "index.html").read_text(encoding="utf-8")
    assert "Loop → escape → relapse" in page
    numbers = json.loads((perturbed.path / "report" / "numbers.json").read_text(encoding="utf-8"))
    assert numbers["escapeNudge"]["value"] == value
    assert numbers["escapeNudge"]["text"] == "100.0\xa0%"
    assert numbers["escapeDiffNudgeMinusSham"]["value"] == 1


def test_preregistration_says_what_an_escape_is(perturbed, chimera, tmp_path):
    command = ("export", perturbed.path, "--format", "preregistration", "--out", tmp_path)
    assert chimera(*command).code == 0
    said = (tmp_path / "preregistration.md").read_text(encoding="utf-8")
    assert "3 judged turns in a row outside of a loop are an escape" in said
    assert "every treatment minus its sham and its mark" in said
    assert "1 turn into a loop nudge" in said
