"""Similarities are drawn exactly, and long conversations are downsampled correctly."""

import re
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics.pairwise import cosine_similarity

from chimeralab.core.records import Episode
from chimeralab.core.result_words import FACT
from chimeralab.report.charts.canvas import COLLAPSE, LOOP, draw, render_svg
from chimeralab.report.charts.timeline import (
    LOOP_WORD,
    SimilarityLine,
    compare_turns,
    heat_map,
    keep_peaks,
    split_turns,
    step_name,
    timeline,
)
from chimeralab.report.table import turn_ticks

SVG = "{http://www.w3.org/2000/svg}"
LINES = [
    SimilarityLine("s1", "to the last", range(1, 7), [None, 0.2, 0.1, 0.95, 0.96, 0.97], 0.92),
    SimilarityLine(
        "s2", "to the one before", range(1, 7), [None, None, -0.3, 0.1, 0.94, 0.95], 0.9
    ),
]


def words(drawn: str) -> list[str]:
    return [node.text or "" for node in ET.fromstring(drawn).iter(f"{SVG}text")]


def filled(drawn: str, colour: str) -> int:
    nodes = ET.fromstring(drawn).iter(f"{SVG}path")
    return sum(node.get("fill", "").lower() == colour.lower() for node in nodes)


NONE: dict[str, list[Episode]] = {}


def test_timeline_names_its_lines_and_their_thresholds() -> None:
    shown = words(render_svg(timeline(LINES, 6, NONE)))
    assert {"to the last", "to the one before", "s1 ≥ 0.92", "s2 ≥ 0.90"} <= set(shown)
    assert "collapsed" not in shown


def test_timeline_shades_every_collapsed_span_and_says_what_the_shade_means() -> None:
    drawn = render_svg(timeline(LINES, 6, {FACT.collapsed: [Episode(2, 3), Episode(5, 6)]}))
    assert filled(drawn, COLLAPSE) == 2
    assert words(drawn).count("collapsed") == 1


def test_timeline_marks_loops_under_collapsed_spans_too() -> None:
    spans = [Episode(1, 4), Episode(6, 6)]
    drawn = render_svg(timeline(LINES, 6, {LOOP_WORD: spans, FACT.collapsed: [Episode(3, 4)]}))
    # A shade and a bar at its foot for each.
    assert filled(drawn, LOOP) == 4
    assert words(drawn).count("loop") == words(drawn).count("collapsed") == 1


def test_timeline_has_room_for_negative_similarities() -> None:
    values = [row["value"] for row in _rows(timeline(LINES, 6, NONE), "value")]
    assert min(values) == -0.3
    assert "−0.2" in words(render_svg(timeline(LINES, 6, NONE)))


def test_long_timeline_draws_lines_without_points() -> None:
    turns = range(1, 401)
    line = SimilarityLine("s1", "to the last", turns, [0.5] * 400, 0.92)
    marks = [layer["mark"]["type"] for layer in timeline([line], 400, NONE).to_dict()["layer"]]
    assert "line" in marks
    assert "point" not in marks


def test_heat_map_marks_collapsed_turns_along_both_axes() -> None:
    spans = [Episode(turn, turn) for turn in range(1, 7)]
    drawn = render_svg(heat_map(spans, np.full((6, 6), 0.5), [Episode(3, 4)]))
    assert filled(drawn, COLLAPSE) == 2
    assert {"earlier turn", "later turn", "similarity", "0.9 to 1.0"} <= set(words(drawn))


@settings(max_examples=50)
@given(arrays(float, (7, 7), elements=st.floats(-1, 1) | st.just(float("nan"))))
def test_heat_map_colours_each_pair_once_by_its_own_value(values: np.ndarray) -> None:
    spans = [Episode(3 * i + 1, 3 * i + 3) for i in range(7)]
    drawn: dict[tuple[int, int], list[str]] = {}
    for cell in _rows(heat_map(spans, values, []), "step"):
        row = round(cell["top"] - 0.5) // 3
        for column in range(round(cell["from"] - 0.5) // 3, round(cell["to"] - 0.5) // 3):
            drawn.setdefault((row, column), []).append(cell["step"])
    pairs = [(i, j) for i in range(7) for j in range(i + 1) if not np.isnan(values[i, j])]
    assert drawn == {(i, j): [step_name(values[i, j])] for i, j in pairs}


@given(st.integers(1, 200_000), st.sampled_from([240, 300, 620]))
def test_ticks_are_rising_turns_with_room_between_them(last_turn: int, width: int) -> None:
    ticks = turn_ticks(last_turn, width)
    assert ticks[0] == 1
    assert ticks[-1] <= last_turn
    digits = sum(len(str(tick)) for tick in ticks)
    assert 8 * digits < width
    assert ticks == sorted(set(ticks))


def test_svg_carries_no_decimals_below_a_pixel_no_links_and_no_scripts() -> None:
    drawn = render_svg(heat_map([Episode(i, i) for i in range(1, 8)], np.full((7, 7), 0.5), []))
    assert re.search(r"\d\.\d\d", drawn)
    assert not re.search(r"\d\.\d{3}", drawn)
    tags = {node.tag.removeprefix(SVG) for node in ET.fromstring(drawn).iter()}
    assert tags <= {"svg", "g", "rect", "path", "text", "line"}


def test_png_has_two_dots_per_pixel() -> None:
    figure = draw("f", "", lambda width: timeline(LINES, 6, NONE, width=width))
    assert figure.png[:8] == b"\x89PNG\r\n\x1a\n"
    width = float(ET.fromstring(str(figure.wide)).get("width", ""))
    assert int.from_bytes(figure.png[16:20]) == pytest.approx(2 * width, abs=2)


def _rows(chart: Any, column: str) -> list[dict[str, Any]]:
    tables = chart.to_dict()["datasets"].values()
    return next((rows for rows in tables if rows and column in rows[0]), [])


def test_numbers_in_words_keep_their_decimals() -> None:
    chart = timeline([LINES[0]._replace(threshold=0.925)], 6, NONE)
    assert ">s1 ≥ 0.925<" in render_svg(chart)


SEEDS = st.integers(0, 2**32 - 1)


def vectors(turns: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(turns, 8)).astype(np.float32)


@given(st.integers(2, 30), SEEDS)
def test_short_conversation_is_compared_turn_by_turn(turns: int, seed: int) -> None:
    pairs = compare_turns(vectors(turns, seed))
    expected = cosine_similarity(vectors(turns, seed))
    np.fill_diagonal(expected, np.nan)
    assert pairs.block == 1
    np.testing.assert_allclose(pairs.values, expected, atol=1e-5)


@given(st.integers(2, 60), st.integers(1, 12), SEEDS)
def test_block_is_the_mean_over_its_pairs_of_different_turns(
    turns: int, limit: int, seed: int
) -> None:
    pairs = compare_turns(vectors(turns, seed), limit)
    alone = cosine_similarity(vectors(turns, seed))
    np.fill_diagonal(alone, np.nan)
    for i, a in enumerate(pairs.spans):
        for j, b in enumerate(pairs.spans):
            part = alone[a.start - 1 : a.end, b.start - 1 : b.end]
            known = part[~np.isnan(part)]
            expected = known.mean() if known.size else np.nan
            np.testing.assert_allclose(pairs.values[i, j], expected, atol=1e-5)


@given(st.integers(0, 10_000), st.integers(1, 500))
def test_blocks_hold_every_turn_once(turns: int, limit: int) -> None:
    spans = split_turns(turns, limit)
    assert len(spans) <= limit
    assert [t for span in spans for t in range(span.start, span.end + 1)] == list(
        range(1, turns + 1)
    )


def test_most_similar_pairs_are_sorted_with_ties_by_position() -> None:
    a, b = np.eye(2, dtype=np.float32)
    named = compare_turns(np.stack([a, b, a, b])).most_alike(3)
    assert named[:2] == [
        (Episode(1, 1), Episode(3, 3), 1.0),
        (Episode(2, 2), Episode(4, 4), 1.0),
    ]
    assert named[2][2] == 0


def test_most_similar_pairs_exclude_missing_ones() -> None:
    assert len(compare_turns(vectors(2, 1)).most_alike(5)) == 1


def test_hundred_thousand_turns_are_all_covered() -> None:
    pairs = compare_turns(vectors(100_000, 1))
    assert len(pairs.spans) <= 120
    assert pairs.spans[-1].end == 100_000


@given(st.lists(st.none() | st.floats(-1, 1), max_size=50), st.integers(1, 60))
def test_peaks_keep_the_highest_value(values: list[float | None], limit: int) -> None:
    turns, highest = keep_peaks(values, limit)
    known = [value for value in values if value is not None]
    shown = [value for value in highest if value is not None]
    assert len(turns) == len(highest) <= limit
    assert max(shown, default=None) == max(known, default=None)


def test_short_series_stays_as_it_is() -> None:
    assert keep_peaks([None, 0.5, 0.25]) == ([1, 2, 3], [None, 0.5, 0.25])


def test_similarity_never_exceeds_1() -> None:
    same = np.full((50, 8), 0.1, dtype=np.float32)
    assert compare_turns(same).most_alike(1)[0][2] == pytest.approx(1, abs=1e-6)
    assert np.nanmax(compare_turns(same).values) <= 1
