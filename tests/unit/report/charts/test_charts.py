"""Charts of a study draw any names and any amount of data."""

import xml.etree.ElementTree as ET
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimeralab.core.result_words import MARK
from chimeralab.detection.locked import LockedRule
from chimeralab.report.charts.canvas import (
    NARROW,
    WIDE,
    Chart,
    draw,
    render_svg,
    series_style,
    truncate,
)
from chimeralab.report.charts.effects import ForestRow, forest
from chimeralab.report.charts.flow import Stage, flow_diagram
from chimeralab.selfplay.comparisons import RankCounts
from chimeralab.selfplay.conditions import OnsetCurve
from chimeralab.selfplay.report.charts import (
    Distribution,
    all_choices,
    buckets,
    distributions,
    specification,
    stability,
    survival,
)
from chimeralab.selfplay.specifications import Specification
from chimeralab.stats.effects import SELF_PLAY, ContrastSpec, Effect
from chimeralab.stats.intervals import Interval

SVG = "{http://www.w3.org/2000/svg}"
WIDTHS = pytest.mark.parametrize("width", [NARROW, WIDE])


def words(chart: Chart) -> list[str]:
    return [node.text or "" for node in ET.fromstring(render_svg(chart)).iter(f"{SVG}text")]


def rows(chart: Chart, layer: int) -> list[dict[str, Any]]:
    data: Any = chart.layer[layer].data
    return list(data.values)


def filled(chart: Chart, colour: str) -> int:
    nodes = ET.fromstring(render_svg(chart)).iter(f"{SVG}path")
    return sum(node.get("fill", "").lower() == colour.lower() for node in nodes)


def effect(estimate: float | None, interval: Interval | None = None) -> Effect:
    return Effect(ContrastSpec({"A": 1.0, "B": -1.0}), SELF_PLAY, "share", estimate, interval)


@WIDTHS
def test_distributions_name_every_condition_and_its_numbers(width: int) -> None:
    conditions: list[Distribution] = [
        (("A", "50.0 % (40.0 to 60.0)"), [0.5, 0.6], 0.55, Interval(0.4, 0.6)),
        (("B", "0.0 % (–), 1 run"), [0.0], 0.0, None),
    ]
    assert {"A", "B", "50.0 % (40.0 to 60.0)", "0.0 % (–), 1 run"} <= set(
        words(distributions(conditions, MARK, width=width))
    )


def test_every_bin_with_runs_has_a_bar() -> None:
    shares = [0.0, 0.02, 0.31, 1.0]
    chart = distributions([(("A", ""), shares, 0.3, None)], MARK)
    assert filled(chart, series_style(0)[0]) == 3


@WIDTHS
def test_survival_runs_to_the_last_turn_even_when_all_collapsed_before(width: int) -> None:
    curve = OnsetCurve((0, 3, 5), (1, 0.5, 0), None, None, (2, 2, 1), 0)
    assert {"0", "40", "A"} <= set(words(survival({"A": curve}, 40, MARK, width=width)))


def test_forest_draws_the_naive_interval_only_where_there_is_one() -> None:
    effects: list[ForestRow] = [
        (("A − B", "+1.0, p < 0.001"), effect(0.1, Interval(0.0, 0.2)), Interval(0.05, 0.15)),
        (("A − C", "–"), effect(0.3), None),
        (("B − C", "no run"), effect(None), None),
    ]
    chart = forest(effects, "difference", percent=True)
    assert [row["kind"] for row in rows(chart, 1)] == [
        "by prompt",
        "as if all runs were independent",
        "by prompt",
    ]
    assert "+1.0, p < 0.001" in words(chart)


def test_stability_counts_are_on_their_bars() -> None:
    units = [
        (("36 prompts", ""), RankCounts(12, 3, 21, 36, 0)),
        (("1", ""), RankCounts(0, 0, 1, 1, 0)),
    ]
    assert {"12", "3", "21", "1"} <= set(words(stability(units)))


def test_a_bucket_without_runs_of_a_condition_has_no_point_for_it() -> None:
    chart = buckets({"x": [0.1, None], "y": [0.2, 0.3]}, ["A", "B"], MARK)
    assert len(rows(chart, 1)) == 3


def test_names_with_markup_are_escaped() -> None:
    hostile = "<script>alert(1)</script>\u202e\x00"
    figure = draw("f", "", lambda width: buckets({hostile: [0.1]}, ["A"], MARK, width=width))
    assert "<script" not in figure.wide
    assert "&lt;script&gt;" in figure.wide
    assert "[U+202E][U+0000]" in figure.wide


def specified(
    estimate: float, detector: LockedRule, *, declared: bool = False, ci: Interval | None = None
) -> Specification:
    return Specification(detector, 1, declared, 8, estimate, ci, None, None)


@WIDTHS
def test_specification_curve_marks_the_declared_detector(width: int) -> None:
    rng = np.random.default_rng(1)
    curve = [
        specified(
            n / 100,
            LockedRule(s1=0.5 + rng.integers(2) / 4),
            declared=n == 7,
            ci=Interval(n / 100 - 0.1, n / 100 + 0.1),
        )
        for n in range(90)
    ]
    chart = specification(curve, "difference", percent=True, width=width)
    assert {"as declared", "s1 ≥ 0.50", "s1 ≥ 0.75"} <= set(words(chart))


def test_specification_curve_of_one_detector_can_be_drawn() -> None:
    only = [specified(0.0, LockedRule(drift="both"), declared=True)]
    assert "drift both" in words(specification(only, "difference", percent=False))


def test_choices_of_one_setting_are_adjacent() -> None:
    curve = [specified(0, LockedRule(s1=0.9)), specified(0, LockedRule(s1=0.8))]
    assert all_choices(curve)[:2] == [("s1 ≥", "0.80"), ("s1 ≥", "0.90")]
    assert len(all_choices(curve)) == len(all_choices(curve[:1])) + 1


@WIDTHS
def test_flow_diagram_shows_every_stage_of_every_arm(width: int) -> None:
    stages = [Stage("Planned", 1_000), Stage("Analysed", 998, ["all well"], ["2 not started"])]
    shown = words(flow_diagram(dict.fromkeys("ABCDEFG", stages), width=width))
    assert shown.count("Planned: 1,000") == shown.count("2 not started") == 7
    assert set("ABCDEFG") <= set(shown)


def test_boxes_of_the_flow_do_not_overlap() -> None:
    stages = [Stage("Planned", 1), Stage("Ended", 1, ["a long story " * 8], ["lost " * 20])]
    chart = flow_diagram(dict.fromkeys("ABCDE", stages), width=NARROW)
    boxes = sorted([*rows(chart, 0), *rows(chart, 1)], key=lambda row: row["top"])
    assert len(boxes) == 10
    assert all(above["bottom"] < below["top"] for above, below in pairwise(boxes))


def test_numbers_in_words_keep_their_digits() -> None:
    row = (("A − B", "p = 0.0163"), effect(0.123456789), None)
    text = render_svg(forest([row], "difference", percent=False))
    assert "p = 0.0163" in text
    assert "0.123456789" not in text


@given(st.integers(0, 200), st.integers(0, 200))
def test_fifteen_series_have_different_styles(one: int, two: int) -> None:
    if one // 15 == two // 15 and one != two:
        assert series_style(one) != series_style(two)


@given(st.text(), st.integers(20, 400))
def test_truncated_text_fits(text: str, width: int) -> None:
    assert len(truncate(text, width)) <= max(1, width / 6.6)
