"""The report of a small study: every section, every number in its place, nothing overclaimed."""

import re
from dataclasses import replace

import numpy as np
import pytest

from chimeralab.detection.locked import LOCKED
from chimeralab.embedding.encoder import default_encoder
from chimeralab.rating.gate import NO_AUDIT
from chimeralab.report.files import Report
from chimeralab.report.page import TextBlock, find_blocks
from chimeralab.selfplay.report.figures import naive_interval
from chimeralab.selfplay.report.material import (
    Material,
    Results,
    glance,
    least_certain,
    methods,
)
from chimeralab.selfplay.report.page import few_prompts, make_report, study_flow
from chimeralab.selfplay.runs import ExcludedRuns
from chimeralab.selfplay.specifications import (
    judge_with_all,
    list_detectors,
    load_similarities,
    tally,
)
from chimeralab.stats.effects import ContrastSpec


@pytest.fixture(scope="module")
def results(material: Material) -> Results:
    assert material.results is not None
    return material.results


def text_of(page: str) -> str:
    return re.sub(
        r"\s+", " ", re.sub(r"<style>.*?</style>|<svg.*?</svg>|<[^>]+>", " ", page, flags=re.S)
    )


def test_page_has_every_section(report: Report) -> None:
    ids = re.findall(r'<h2 id="([a-z-]+)"', report.html)
    assert ids == [
        "distributions",
        "asked",
        "flow",
        "survival",
        "contrasts",
        "ranks",
        "robustness",
        "loops",
        "reliability",
        "conversations",
        "methods",
        "versions",
        "not-shown",
    ]


def test_page_names_the_lock(report: Report, material: Material) -> None:
    assert material.lock is not None
    assert material.lock.sha256 in report.html
    assert report.html.count("none in what was checked") == 3
    assert "verdicts recomputed from their texts" in report.html
    assert material.verification.root in report.html


def test_every_figure_has_a_text_alternative_and_a_file(report: Report) -> None:
    labels = re.findall(r'role="img" aria-label="([^"]+)"', report.html)
    bars = report.html.count('<svg viewBox="0 0 100 10"')  # their numbers stand next to them
    assert len(labels) == report.html.count('role="img"') == report.html.count("<svg") - bars
    assert all(len(label) > 40 for label in labels)
    assert all(figure.png.startswith(b"\x89PNG") for figure in report.figures)
    assert len({figure.name for figure in report.figures}) == len(report.figures)


def test_page_without_an_audit_never_claims_that_anything_was_validated(report: Report) -> None:
    said = text_of(report.html)
    assert not re.search(r"\bvalidat", said, re.IGNORECASE)
    assert "No reliability audit has been run" in said


def test_page_escapes_text_of_models_and_plans(report: Report) -> None:
    assert "<script" not in report.html
    assert "<img" not in report.html
    assert "<i>and</i>" not in report.html
    assert "&lt;script&gt;document.title" in report.html


def test_page_loads_nothing(report: Report) -> None:
    addresses = re.findall(r'(?:src|href)="([^"]+)"', report.html)
    assert all(address.startswith(("#", "data:")) for address in addresses)


def test_links_lead_to_sections(report: Report) -> None:
    for target in re.findall(r'href="#([^"]+)"', report.html):
        assert f'id="{target}"' in report.html


def test_glance_is_two_sentences_with_an_interval(material: Material) -> None:
    first, second = glance(material)
    assert "marked as collapsed" in first
    assert re.search(r"\d % \(\d+\.\d to \d+\.\d\)", first.replace("\N{NO-BREAK SPACE}", " "))
    assert second.endswith(".")


def test_page_opens_with_the_result_a_bar_per_condition_and_a_card_per_question(
    report: Report, results: Results
) -> None:
    head = text_of(report.html[report.html.index("<h1>") : report.html.index("<h2")])
    assert "By the detector, " in head
    assert "most, in" in head
    first = report.html[report.html.index("<h1>") : report.html.index("<h2")]
    assert first.count('<svg viewBox="0 0 100 10"') == len(results[0].conditions)
    asked = results[0].primary or results[0].contrasts
    cards = first.count('<div class="card"') + first.count('<div class="card hot"')
    assert cards == min(5, len(asked)) + 1
    assert "detector only" in first
    assert " by a t test." in first
    assert re.search(r"(\d+) of \d+ turns are this text; the detector marks \d+ of them", head)
    assert "`" not in head


def test_glance_of_a_study_without_results_says_why(material: Material) -> None:
    none = material._replace(results=None, no_results="no run to analyse")
    assert glance(none) == ("There is no result yet.", "No run to analyse.")


def test_report_of_a_study_without_results_has_no_empty_sections(material: Material) -> None:
    page = make_report(material._replace(results=None, no_results="no run to analyse")).html
    assert 'id="survival"' not in page
    assert 'id="flow"' in page


def test_flow_gives_a_reason_for_every_loss(material: Material, results: Results) -> None:
    lost = (
        ExcludedRuns("loops", "too short for a verdict", 1),
        ExcludedRuns("loops", "cut short (failed)", 2),
    )
    analysis, runs = results
    conditions = dict(analysis.conditions)
    conditions["loops"] = replace(conditions["loops"], n=5)
    changed = replace(analysis, conditions=conditions), replace(runs, left_out=lost)
    stages = study_flow(material._replace(results=changed))["loops"]
    assert [stage.reached for stage in stages] == [8, 8, 8, 7, 5]
    assert [list(stage.lost) for stage in stages[3:]] == [
        ["1 too short for a verdict"],
        ["2 cut short (failed)"],
    ]


def test_flow_counts_requests_without_an_answer(material: Material) -> None:
    arms = (replace(material.arms[0], attempts={"answered": 112, "timeout": 3, "server": 1}),)
    (stages,) = study_flow(material._replace(arms=arms)).values()
    assert list(stages[1].lines) == [
        "116 requests",
        "4 without an answer: timed out 3, server error 1",
    ]


def test_conditions_are_in_plan_order(material: Material, results: Results) -> None:
    assert list(results[0].conditions) == ["loops", "drifts", "collapsed_ones"]
    assert [arm.condition for arm in material.arms] == ["loops", "drifts", "collapsed_ones"]


def test_naive_interval_excludes_0_exactly_when_its_p_is_small(
    results: Results,
) -> None:
    analysis, runs = results
    for each in analysis.contrasts:
        interval = naive_interval(each, runs, analysis)
        assert interval is not None
        assert each.naive_p is not None
        assert (interval.low * interval.high > 0) == (each.naive_p < 0.05)


def test_curve_is_drawn_for_the_least_certain_finding(
    results: Results,
) -> None:
    base = results[0].contrasts[0]

    def spec(p: float) -> ContrastSpec:
        return ContrastSpec({str(p): 1.0, "other": -1.0})

    found = [replace(base, spec=spec(p), p_holm=p) for p in (0.001, 0.04, 0.3)]
    assert least_certain(found).a == "0.04"
    assert least_certain(found[2:]).a == "0.3"
    assert least_certain([replace(base, p_holm=None)]).p_holm is None


def test_stored_similarities_give_the_same_verdicts_as_new_ones(material: Material) -> None:
    talks = list(material.study.trajectories())
    stored = tally(load_similarities(material.detections, talks, LOCKED), list_detectors(LOCKED))
    again = judge_with_all(talks, default_encoder(), LOCKED, "all")
    assert [row.seed_id for row in stored.rows] == [row.seed_id for row in again.rows]
    differing = (stored.collapsed != again.collapsed).mean()
    assert differing < 0.001


def test_conversations_with_blank_turns_are_measured_again(material: Material) -> None:
    talk = next(material.study.trajectories())
    turns = list(talk.turns)
    turns[3] = replace(turns[3], text=" ... ")
    ((whole, skipped),) = load_similarities(
        material.detections, [replace(talk, turns=tuple(turns))], LOCKED
    )
    assert whole.blank.tolist() == [n == 3 for n in range(len(turns))]
    assert len(skipped.similarities) == len(turns) - 1


def test_methods_cite_only_what_is_listed(material: Material) -> None:
    found = methods(material)
    [listed] = find_blocks(TextBlock, found.blocks)
    references = listed.lines
    groups = re.findall(r"\[([\d, ]+)\]", " ".join(found.lines))
    cited = {int(number) for group in groups for number in group.split(",")}
    assert cited == set(range(1, len(references) + 1))
    assert len(set(references)) == len(references)


def test_loops_are_counted_by_condition_next_to_the_declared_outcome(
    report: Report, material: Material
) -> None:
    section = text_of(report.html.split('<h2 id="loops"')[1].split("<h2")[0])
    looping = sum(bool(found.looping) for found in material.detections)
    assert f"{looping} of {len(material.detections)} conversations loop" in section
    assert "The plan did not declare it, so this is exploratory." in section
    [table] = [table for table in report.tables if table.name == "loops"]
    assert [row["condition"] for row in table.raw] == list(material.study.plan.conditions)
    assert sum(row["looping"] for row in table.raw) == looping
    assert "The loop detector (loops-2) was also run and is exploratory." in report.html


def test_a_loop_without_a_collapse_is_shown_and_marked(report: Report) -> None:
    article = report.html.split('<article id="looping-1"')[1].split("</article>")[0]
    words = text_of(article)
    assert "Loops without a marked collapse" in words
    assert "Since message " in words
    assert "a loop begins here: " in words
    assert "href=" not in article


def test_methods_of_an_unlocked_study_say_that_it_is_exploratory(material: Material) -> None:
    found = " ".join(methods(material._replace(lock=None)).lines)
    assert "not locked in advance, so all results are exploratory" in found
    assert "primary outcome" not in found


def test_page_lists_what_it_omits(report: Report, material: Material) -> None:
    tail = report.html.split('id="not-shown"')[1]
    shown = report.html.count("<article")
    assert f"the texts of {len(material.detections) - shown} judged conversations" in tail
    assert "hazard ratio" in tail


def test_every_table_of_the_page_is_a_file_with_all_digits(
    report: Report, results: Results
) -> None:
    tables = {table.name: table for table in report.tables}
    assert {"conditions", "contrasts_share", "flow", "survival", "runs", "buckets"} <= set(tables)
    means = [row["mean"] for row in tables["conditions"].raw]
    assert np.allclose(means, [each.mean for each in results[0].conditions.values()], rtol=0)


def test_top_of_the_page_says_that_there_was_no_audit(report: Report) -> None:
    assert NO_AUDIT.sentence in report.html.split("<nav")[0]


def test_few_prompts_cause_a_warning(results: Results) -> None:
    analysis = results[0]
    assert few_prompts(analysis).startswith("With 4 prompts no permutation p can be below 0.125")
    share = analysis.measures["share"]
    many = replace(share, pairs=tuple(replace(each, units=36) for each in share.pairs))
    assert few_prompts(replace(analysis, measures={**analysis.measures, "share": many})) == ""
