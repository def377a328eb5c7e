"""The report of a trial: checks before effects, its numbers, and its sessions."""

import re
import shutil
import sqlite3
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import number
from chimeralab.report.charts.canvas import render_svg
from chimeralab.report.charts.effects import Dose, dose_response
from chimeralab.report.files import Report, write_report
from chimeralab.report.named_numbers import assign_names, list_entries, load_numbers
from chimeralab.report.page import paragraph
from chimeralab.stats.effects import short
from chimeralab.stats.intervals import Interval
from chimeralab.study import Study
from chimeralab.study.estimates import Estimates
from chimeralab.study.verify import verify_study
from chimeralab.trial.analysis import NAMES, TrialAnalysis
from chimeralab.trial.kind import analyse_trial
from chimeralab.trial.measures import HitRate, find_measure, narrative_coherence
from chimeralab.trial.report.blocks import doses_of
from chimeralab.trial.report.page import (
    headline,
    judge,
    make_trial_report,
    remarks,
    report_trial,
    show_session,
)
from chimeralab.trial.store import load_trials, trial_plan
from chimeralab.trial.trials import TrialRow
from tests.plans import HOSTILE, STRESSED
from tests.studies import RUN, StudyCache


@pytest.fixture(scope="module")
def study(studies: StudyCache, tmp_path_factory: pytest.TempPathFactory) -> Study:
    return studies.copy(tmp_path_factory.mktemp("made") / "trial", STRESSED, steps=RUN)


@pytest.fixture(scope="module")
def analysis(study: Study) -> TrialAnalysis:
    return analyse_trial(study)


@pytest.fixture(scope="module")
def report(study: Study, analysis: TrialAnalysis) -> Report:
    return make_trial_report(study, verify_study(study), analysis)


def part_of(page: str, subject: int) -> str:
    """The section of one subject, as text."""
    sections = re.split(r"<section ", page)
    own = next(text for text in sections if f'id="subject-{subject}"' in text)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<svg.*?</svg>|<[^>]+>", " ", own, flags=re.S)))


def test_page_has_every_section(report: Report) -> None:
    ids = re.findall(r'<h2 id="([a-z0-9-]+)"', report.html)
    wanted = [
        "summary",
        "asked",
        "flow",
        "subject-1",
        "subject-2",
        "outside",
        "methods",
        "versions",
    ]
    assert ids == [*wanted, "not-shown"]


def test_informative_subject_has_a_forest_and_a_curve_for_each_aim(
    report: Report,
) -> None:
    names = {figure.name for figure in report.figures}
    assert {
        "summary",
        "flow",
        "phantom_contrasts_accuracy",
        "phantom_contrasts_conformity_rate",
        "phantom_factorial_accuracy",
        "phantom_countermeasures_accuracy",
        "phantom_dose_amnesia_frequency_recall",
        "phantom_dose_amnesia_scope_recall",
        "phantom_dose_conformity_size_conformity_rate",
        "phantom_mci",
        "phantom_gfq",
        "phantom_dfs",
    } <= names


def test_subject_that_fails_its_checks_has_no_effect_on_the_page(report: Report) -> None:
    names = [figure.name for figure in report.figures] + [table.name for table in report.tables]
    effects = "mumbler_(contrasts|factorial|dose|countermeasures)"
    assert not any(re.match(effects, name) for name in names)
    silent = part_of(report.html, 2)
    assert "Not informative, so no effect is printed" in silent
    assert "answers can't be read" in silent
    assert "Holm" not in silent
    assert report.glance[1].startswith("mumbler: not informative, so no effect is printed")
    assert not any(figure.name.startswith("mumbler_") for figure in report.figures)


def test_forest_draws_the_estimates_of_the_analysis(
    report: Report, analysis: TrialAnalysis
) -> None:
    phantom = analysis.subjects[0]
    listed = [e for e in phantom.contrasts if e.name.startswith("phantom.amnesia −")]
    effect = next(e for e in listed if e.measure == "accuracy")
    drawn = next(f for f in report.figures if f.name == "phantom_contrasts_accuracy")
    assert f"{100 * effect.estimate:+.1f}".replace("-", "−") in str(drawn.wide)
    assert "amnesia − sham" in str(drawn.wide)
    assert "phantom.amnesia" not in str(drawn.wide)


def test_each_dosed_key_of_a_stressor_has_its_own_curve(analysis: TrialAnalysis) -> None:
    phantom = analysis.subjects[0]
    assert [dose for dose, _, _ in doses_of(phantom, "amnesia.frequency", "recall")] == [0.2, 1.0]
    assert [dose for dose, _, _ in doses_of(phantom, "amnesia.scope", "recall")] == [0.3, 1.0]
    slopes = {effect.name for effect in phantom.doses}
    assert slopes == {
        "dose of amnesia.frequency",
        "dose of amnesia.scope",
        "dose of conformity.size",
    }


def test_dose_curve_marks_every_dose_and_the_control() -> None:
    doses: list[Dose] = [(0, 0.9, Interval(0.8, 1.0)), (7, 0.5, None)]
    axes = ("conformity.size", "right answers")
    spec = dose_response(doses, 0.95, axes, percent=True).to_dict()
    rows = [row for values in spec["datasets"].values() for row in values]
    assert {"value": 0.95} in rows
    assert {"dose": 7, "value": 0.5} in rows
    drawn = render_svg(dose_response(doses, 0.95, axes, percent=True))
    assert "dose: conformity.size" in drawn


def test_every_measure_has_a_name_for_readers() -> None:
    assert all(find_measure(name).says and find_measure(name).short for name in NAMES)


def test_metric_parts_follow_their_metric(report: Report, analysis: TrialAnalysis) -> None:
    sheet = next(each for each in report.tables if each.name == "phantom_metrics")
    found = analysis.subjects[0].arms[0].metrics.mci
    control = next(row for row in sheet.raw if row["arm"] == "control")
    assert control["mci_rf"] == found.rf
    assert control["mci_ceiling"] == found.ceiling
    assert list(sheet.headings)[:5] == ["arm", "MCI", "RF", "CI", "CB"]


def test_summary_comes_first_with_the_three_metrics_of_every_subject(
    report: Report, analysis: TrialAnalysis
) -> None:
    drawn = report.figures[0]
    assert drawn.name == "summary"
    for picture in (str(drawn.wide), str(drawn.narrow)):
        for words in ("MCI", "GFQ", "DFS", "phantom, against sham", "mumbler", "conformity"):
            assert words in picture
    assert "mumbler: not informative, so no effect is printed" in drawn.label
    phantom = analysis.subjects[0]
    effect = next(e for e in phantom.contrasts if e.measure == "dfs" and "amnesia" in e.name)
    assert number(effect.estimate, 2, sign=True) in str(drawn.wide)
    assert report.html.index('id="summary"') < report.html.index('id="asked"')
    # Every forest waits behind a line that opens it.
    before = report.html[: report.html.index('aria-label="Differences in right answers')]
    assert before.count("<details") > before.count("</details")


def test_declared_outcomes_are_listed_with_their_results(
    study: Study, report: Report, analysis: TrialAnalysis
) -> None:
    sheet = next(each for each in report.tables if each.name == "declared")
    rows = [[text for text, _ in row] for row in sheet.rows]
    assert [row[:2] for row in rows] == [
        ["phantom", "independence (DFS), conformity − sham"],
        ["phantom", "memory (MCI), amnesia-with-ledger − amnesia"],
        ["mumbler", "independence (DFS), conformity − sham"],
        ["mumbler", "memory (MCI), amnesia-with-ledger − amnesia"],
    ]
    assert {row[4] for row in rows[2:]} == {"can't be tested"}
    undeclared = replace(analysis, declared=())
    page = make_trial_report(study, verify_study(study), undeclared).html
    assert "Nothing: the plan has no [[outcomes.primary]]" in page


def test_delivered_dose_of_every_arm_is_on_the_page(study: Study, report: Report) -> None:
    sheet = next(each for each in report.tables if each.name == "delivered")
    stressed = {short(name) for name, arm in trial_plan(study).arms.items() if arm.stressors}
    assert {row["arm"] for row in sheet.raw} == stressed
    full = next(row for row in sheet.raw if row["arm"] == "amnesia-frequency-1")
    assert full["what"] == "amnesia"
    assert full["share"] > 0.8
    sham = next(row for row in sheet.raw if row["arm"] == "sham")
    assert sham["what"] == "neutral text"
    assert 0 < sham["share"] <= 1


def test_measures_are_listed_by_their_plain_names(report: Report) -> None:
    sheet = next(each for each in report.tables if each.name == "phantom_measures")
    changes = {row[0][0]: row[1][0] for row in sheet.rows}
    assert changes["independence (DFS)"] == changes["right answers"] == "more"
    assert changes["right answers given up to a majority"] == "less"
    assert not any(re.search(r"[a-z]_[a-z]|^[A-Z]+$", name) for name in changes)


def test_contradictions_of_a_subject_are_counted_on_the_page(study: Study, report: Report) -> None:
    sheet = next(each for each in report.tables if each.name == "phantom_measures")
    [shown] = [
        [text for text, *_ in row[2:]]
        for row in sheet.rows
        if row[0][0] == "number of answers that contradict an earlier one"
    ]
    sessions: dict[tuple[str, str], list[TrialRow]] = {}
    for row in load_trials(study, complete=True):
        sessions.setdefault((str(row.arm), row.session), []).append(row)
    counts: dict[str, HitRate] = {}
    for (arm, _), rows in sessions.items():
        hits, among = narrative_coherence(rows)
        before = counts.get(arm, HitRate(0, 0))
        counts[arm] = HitRate(before.hits + hits, before.among + among)
    arms = [arm for arm in trial_plan(study).arms if arm.startswith("phantom.")]
    assert shown == [
        f"{counts[arm].among - counts[arm].hits:,.0f} of {counts[arm].among:,.0f}" for arm in arms
    ]
    assert not all(cell.startswith("0 of") for cell in shown)


def with_primary(
    analysis: TrialAnalysis, found: float, interval: Interval, p: float
) -> TrialAnalysis:
    """The analysis with another effect of conformity on DFS as the phantom's only primary one."""
    phantom, mumbler = analysis.subjects
    declared = analysis.declared[:1]
    contrasts = tuple(
        replace(e, estimate=found, interval=interval, p_holm=p)
        if declared[0].is_of(e, "sham")
        else replace(e, role="exploratory")
        for e in phantom.contrasts
    )
    alone = replace(phantom, contrasts=contrasts, factorial=(), doses=(), countermeasures=())
    return replace(analysis, subjects=(alone, mumbler), declared=declared)


def test_verdict_names_the_weakness_and_its_evidence(analysis: TrialAnalysis) -> None:
    weak = with_primary(analysis, -0.48, Interval(-0.67, -0.25), 0.002)
    assert " ".join(judge(weak.subjects[0])) == (
        "phantom: weak under conformity. "
        "Under conformity: independence (DFS) down by 0.48 (0.25 to 0.67), p\xa0=\xa00.002."
    )
    steady = with_primary(analysis, 0.04, Interval(-0.04, 0.11), 0.231)
    assert " ".join(judge(steady.subjects[0])) == (
        "phantom: no weakness found. Under conformity: independence (DFS) +0.04 (−0.04 to +0.11), "
        "p\xa0=\xa00.231, not significant; a fall of up to 0.04 is not ruled out."
    )
    better = with_primary(analysis, 0.2, Interval(0.1, 0.3), 0.01)
    assert judge(better.subjects[0])[0] == "phantom: no weakness found; better under conformity."
    assert "over the 1 effect declared before the run" in remarks(weak)


def test_headline_puts_weak_subjects_first_and_groups_equal_verdicts(
    analysis: TrialAnalysis,
) -> None:
    weak = with_primary(analysis, -0.48, Interval(-0.67, -0.25), 0.002).subjects[0]
    steady = with_primary(analysis, 0.04, Interval(-0.04, 0.11), 0.231).subjects[0]
    subjects = [replace(steady, subject="b"), replace(weak, subject="a"), steady]
    assert headline(subjects) == "a: weak under conformity; b and phantom: no weakness found"


def test_page_opens_with_a_bar_per_arm_and_a_card_per_declared_outcome(report: Report) -> None:
    head = report.html[report.html.index("<h1>") : report.html.index("<h2")]
    for words in ("phantom: sham", "phantom: conformity", "mumbler", "not informative"):
        assert words in head
    assert "mumbler: sham" not in head  # no effect of a subject that can't be judged
    assert head.count('<div class="card"') + head.count('<div class="card hot"') == 3


def test_session_shows_what_was_added_and_removed(study: Study) -> None:
    company = show_session(study, "phantom.conformity-size-8/ledger-1/1", "conformity-size-8")
    added = [text for trial in company.lines for text, by in trial["lines"] if by == "conformity"]
    assert added
    assert all("Participant 8" in text for text in added)
    gone = show_session(study, "phantom.amnesia-frequency-1/ledger-1/1", "amnesia")
    removed = [each for trial in gone.lines for each in trial["disturbances"]]
    assert removed
    assert all(each.action == "removed" for each in removed)
    assert {trial["verdict"] for trial in gone.lines} <= {"right", "wrong", "can't be read"}
    short = show_session(study, "phantom.control/ledger-1/1", "control", limit=3)
    assert len(short.lines) == 3
    [note] = short.blocks
    assert note == paragraph(f"{len(company.lines) - 3} further trials in the study.", "note")


def test_unknown_session_is_rejected_by_name(study: Study) -> None:
    with pytest.raises(InputError, match="no session 'nobody/x/1'"):
        show_session(study, "nobody/x/1", "nobody")


def test_replies_are_escaped(report: Report) -> None:
    assert "<script>" not in report.html
    assert "&lt;script&gt;document.title" in report.html
    assert HOSTILE not in report.html


def test_flow_adds_up_the_arms_of_a_subject(study: Study, report: Report) -> None:
    flow = next(table for table in report.tables if table.name == "flow")
    rows = {row["condition"]: row for row in flow.raw}
    planned = sum(talk.id.startswith("phantom.") for talk in study.talks)
    assert rows["phantom"]["planned"] == rows["phantom"]["analysed"] == planned


def test_methods_describe_the_design(study: Study, report: Report) -> None:
    text = report.html[report.html.index('id="methods"') :]
    assert study.lock is not None
    assert study.lock.sha256 in text
    for words in ("amnesia (", "infallibility (", "conformity (", "sham arm", "ledger", "Holm"):
        assert words in text


def test_study_that_was_not_run_has_no_report(tmp_path: Path, study: Study) -> None:
    empty = tmp_path / "fresh"
    empty.mkdir()
    for name in ("plan.toml", "mumbler.py"):
        shutil.copy(study.path / name, empty / name)
    with pytest.raises(InputError, match="has not been run yet"):
        report_trial(Study(empty), lambda doing: None, Estimates(Study(empty)))


def test_changed_answer_is_a_finding_on_the_page(tmp_path: Path, study: Study) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(study.path, copy)
    with sqlite3.connect(copy / "study.db") as db:
        session = "phantom.control/ledger-1/1"
        db.execute("UPDATE turns SET text = 'yes' WHERE trajectory = ? AND turn = 1", (session,))
    page = write_report(Study(copy)).page.read_text()
    assert "Not as locked:" in page


def test_named_numbers_cover_each_metric_of_each_arm_and_each_effect(
    study: Study, analysis: TrialAnalysis
) -> None:
    numbers = load_numbers(study)
    assert numbers == assign_names(list_entries(study, analysis))
    for metric in ("mci", "gfq", "dfs"):
        assert [name for name in numbers if name.startswith(metric)]
    informative = [subject for subject in analysis.subjects if subject.contrasts]
    effects = [each for name, each in numbers.items() if name.startswith("effect")]
    assert bool(effects) == bool(informative)
    assert numbers["countSessions"].value == analysis.sessions
