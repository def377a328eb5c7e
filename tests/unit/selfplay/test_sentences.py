"""The interpretation says what the tables say."""

from dataclasses import replace

from chimeralab.analysis import Outcomes, analyse
from chimeralab.core.result_words import FACT
from chimeralab.selfplay.outcomes import EXPLORATORY
from chimeralab.selfplay.report.tables import interpret

QUICK = replace(EXPLORATORY, resamples=200, permutations=200)
ROWS = [
    ("calm", "p", 0, 20, 0, None, "x"),
    ("calm", "q", 0, 20, 2, 10, "y"),
    ("calm", "r", 0, 20, 1, 9, "y"),
    ("stuck", "p", 0, 20, 12, 9, "x"),
    ("stuck", "q", 0, 20, 10, 7, "y"),
    ("stuck", "r", 0, 20, 14, 7, "y"),
]


def test_interpretation_names_order_recovery_and_pairs(make_runs) -> None:
    text = "\n".join(interpret(analyse(make_runs(ROWS), QUICK), FACT))
    assert "The share of collapsed turns is largest under stuck (60.0 %" in text
    assert "1 of 1 pairs differ" in text
    assert "The order stuck > calm holds in 3 of 3 prompts" in text
    assert "3 of 5 collapsed runs recovered" in text
    assert "Next time" not in text


def test_pairs_that_do_not_differ_are_named(make_runs) -> None:
    rows = [*ROWS, *(("other", *row[1:]) for row in ROWS[:3])]
    rows[-1] = ("other", "r", 0, 20, 3, 9, "y")
    text = "\n".join(interpret(analyse(make_runs(rows), QUICK), FACT))
    assert "2 of 3 pairs differ" in text
    assert "not other and calm" in text


def test_primary_answers_come_first(make_runs) -> None:
    declared = replace(QUICK, estimands=Outcomes().estimands)
    first = interpret(analyse(make_runs(ROWS), declared), FACT)[0]
    assert first.startswith("Primary: difference in the mean share of collapsed turns")
    assert "stuck against calm: +0.550" in first


def test_one_condition_alone_can_be_interpreted(make_runs) -> None:
    text = "\n".join(interpret(analyse(make_runs(ROWS[:3]), QUICK), FACT))
    assert "No log-rank test: fewer than two groups." in text
    assert "pairs" not in text


def test_tied_conditions_are_not_ranked(make_runs) -> None:
    rows = [*ROWS[:3], *(("other", *row[1:]) for row in ROWS[:3])]
    text = "\n".join(interpret(analyse(make_runs(rows), QUICK), FACT))
    assert "No share of collapsed turns stands out: calm (5.0 %" in text
    assert "largest" not in text


def test_repeats_are_called_similar_only_if_they_are(make_runs) -> None:
    """Repeats that differ more than prompts do, while the sides move together within prompts."""
    levels = {"p": (2, 18), "q": (3, 17), "r": (5, 16)}
    rows = [
        (condition, prompt, repeat, 20, max(level - shift, 1), 20 - max(level - shift, 1) + 1)
        for condition, shift in (("a", 0), ("b", 1))
        for prompt, pair in levels.items()
        for repeat, level in enumerate(pair)
    ]
    found = analyse(make_runs(rows), QUICK)
    assert all(part.icc < 0 for part in found.conditions.values())
    assert "are similar" not in "\n".join(interpret(found, FACT))
