"""Sentences of a self-play report are true, including for ties and unfinished studies."""

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from chimeralab.analysis import Analysis
from chimeralab.selfplay.report.material import Material, glance
from chimeralab.selfplay.report.page import choose, headline, make_report, study_flow
from chimeralab.selfplay.report.tables import format_order


@pytest.fixture
def analysis(material: Material) -> Analysis:
    assert material.results is not None
    return material.results[0]


def glance_with(material: Material, analysis: Analysis) -> tuple[str, ...]:
    """The glance of a study with another analysis of the same runs."""
    assert material.results is not None
    return glance(material._replace(results=(analysis, material.results[1])))


def with_means(analysis: Analysis, **means: float) -> Analysis:
    """The analysis as if its conditions had these means."""
    conditions = {
        name: replace(each, mean=means[name], share_ci=None)
        for name, each in analysis.conditions.items()
    }
    order = tuple(sorted(means, key=lambda name: -means[name]))
    stability = replace(analysis.rank_stability, order=order)
    return replace(analysis, conditions=conditions, rank_stability=stability)


def first_sentence(material: Material, analysis: Analysis, **means: float) -> str:
    said = glance_with(material, with_means(analysis, **means))[0]
    return said.replace("\N{NO-BREAK SPACE}", " ")


def test_equal_shares_are_not_called_largest_and_smallest(
    material: Material, analysis: Analysis
) -> None:
    said = first_sentence(material, analysis, loops=0.375, drifts=0.375, collapsed_ones=0.375)
    assert said.startswith("All 3 conditions had the same share")
    assert "largest" not in said
    assert "37.5 %" in said


def headline_with(material: Material, analysis: Analysis, **means: float) -> str:
    assert material.results is not None
    results = with_means(analysis, **means), material.results[1]
    return headline(material._replace(results=results)).replace("\N{NO-BREAK SPACE}", " ")


def test_headline_names_the_conditions_that_repeat_most_and_least(
    material: Material, analysis: Analysis
) -> None:
    said = headline_with(material, analysis, loops=0.5, drifts=0.004, collapsed_ones=0.25)
    assert said.startswith(
        "By the detector, conversations under “loops” repeat themselves most, in"
    )
    assert " in 50 % of the turns, and those under “drifts” least, in 0.4 %: " in said
    equal = headline_with(material, analysis, loops=0.3, drifts=0.3, collapsed_ones=0.3)
    assert "all 3 conditions repeat themselves in the same share of turns: 30 %." in equal
    tied = headline_with(material, analysis, loops=0.5, drifts=0.5, collapsed_ones=0.1)
    assert "under “loops” and “drifts” repeat themselves most" in tied


def test_headline_tells_found_differences_from_unclear_ones(
    material: Material, analysis: Analysis
) -> None:
    pairs = analysis.primary or analysis.contrasts
    found, unclear = (replace(pairs[0], p_holm=p, role="primary") for p in (0.01, 0.4))
    answers = (replace(analysis.answers[0], comparisons=(found, unclear)),)
    said = headline_with(
        material,
        replace(analysis, answers=answers),
        **{name: each.mean for name, each in analysis.conditions.items()},
    )
    one, other = f"“{found.a}”", f"“{found.b}”"
    assert said.endswith(f" %: {one} differs from {other}, {one} not clearly from {other}.")


def test_tied_conditions_are_named_together(material: Material, analysis: Analysis) -> None:
    said = first_sentence(material, analysis, loops=0.5, drifts=0.25, collapsed_ones=0.25)
    assert "loops had the largest share" in said
    assert "drifts and collapsed_ones the smallest, 25.0 %" in said


def test_order_shows_ties(analysis: Analysis) -> None:
    tied = with_means(analysis, loops=0.5, drifts=0.25, collapsed_ones=0.25)
    assert format_order(tied) == "loops > drifts = collapsed_ones"


def test_equal_differences_are_not_called_largest(material: Material, analysis: Analysis) -> None:
    share = analysis.measures["share"]
    size: dict[str, Any] = {SIZE: 0.2}
    alike = tuple(replace(each, **size) for each in share.pairs)
    measures = {**analysis.measures, "share": replace(share, pairs=alike)}
    answers = tuple(
        replace(each, comparisons=alike) if each.estimand.role == "primary" else each
        for each in analysis.answers
    )
    changed = replace(analysis, measures=measures, answers=answers)
    said = glance_with(material, changed)[1]
    assert "3 differences are equally large, such as" in said


SIZE = "estimate"


def test_interventions_are_counted_among_attempts(material: Material) -> None:
    arm = replace(material.arms[0], outcomes={})
    changed = material._replace(arms=(arm,), interventions=Counter({arm.condition: 1}))
    attempted, ended = study_flow(changed)[arm.condition][1:3]
    assert "1 intervention" in attempted.lines
    assert (ended.reached, list(ended.lines)) == (0, [])


def test_the_page_does_not_say_that_an_intraclass_correlation_starts_at_0(
    material: Material,
) -> None:
    page = make_report(material).html
    note = re.search(r"<p class=\"note\">[^<]*ICC[^<]*</p>", page)
    assert note is not None
    assert "from 0 to 1" not in note[0]
    assert "below 0" in note[0]
    table = page.rindex("<table>", 0, note.start())
    assert ">ICC</th>" in page[table : note.start()]


def test_conversation_as_collapsed_as_the_worst_is_not_called_healthy(material: Material) -> None:
    worst = max(material.detections, key=lambda found: found.collapse_rate or 0.0)
    collapsed, _, healthy = choose([replace(worst, id=str(n)) for n in range(4)])
    assert (len(collapsed), len(healthy)) == (2, 0)
