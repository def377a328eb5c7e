"""Numbers, phrases and passages as the claims check sees them."""

import pytest

from chimeralab.rating.claims.mentions import Mention, mentions
from chimeralab.rating.claims.passages import Passage, passages
from chimeralab.rating.claims.truths import intervals, kappa_ceiling, truths
from chimeralab.stats.agreement import Table2x2, cohen_kappa, raw_agreement


def only(text: str) -> Mention:
    found = mentions(Passage(text, 1))
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        ("was 0.57 then", "decimal", (0.57,)),
        ("κ = .57", "decimal", (0.57,)),
        ("is −0.12", "decimal", (-0.12,)),
        ("92.8 percent agreed", "percent", (0.928,)),
        ("Ninety-three percent agreed", "percent", (0.93,)),
        ("167 out of the 180", "fraction", (167, 180)),
        ("thirteen of 180", "fraction", (13, 180)),
        ("from 0.36 to 0.78", "interval", (0.36, 0.78)),
        ("CI: 0.36, 0.78", "interval", (0.36, 0.78)),
        ("88.0–95.7 %", "interval", (0.88, 0.957)),
        ("twelve were", "count", (12,)),
    ],
)
def test_numbers_are_read_in_every_form(text: str, kind: str, values: tuple[float, ...]) -> None:
    mention = only(text)
    assert mention.kind == kind
    assert mention.values == pytest.approx(values)


@pytest.mark.parametrize(
    ("text", "relation"),
    [
        ("about 90 %", "about"),
        ("~0.75", "about"),
        ("more than 90 %", "above"),
        ("stayed below the threshold of 0.80", "below"),
        ("did not reach 0.80", "below"),
        ("was 0.80", "is"),
    ],
)
def test_how_firmly_a_number_is_stated_is_told(text: str, relation: str) -> None:
    assert only(text).relation == relation


@pytest.mark.parametrize(
    "text",
    ["rater 2 spoke", "GPT-4o and v3.0", "a 95 % CI", "40 turns", "Claude Sonnet 4 spoke",
     "p = 0.03", "(157, 7, 6, 10)", "label 1", "missed it by 0.2"],
)  # fmt: skip
def test_numbers_that_name_things_are_passed_over(text: str) -> None:
    assert mentions(Passage(text, 1)) == []


def test_passages_keep_their_lines() -> None:
    text = "# Head\n\nOne line\nand 5 more. Then 6.\n\n| a | b |\n|---|---|\n| x | 7 |\n"
    lines = {m.stated: p.line_of(m.start) for p in passages(text) for m in mentions(p)}
    assert lines == {"5": 4, "6": 4, "7": 8}


def test_ceiling_is_the_largest_kappa_at_this_agreement() -> None:
    """Against every table with the same number of items and of disagreements."""
    table = Table2x2(12, 2, 1, 5)
    others = [
        cohen_kappa(Table2x2(both, first, 3 - first, 17 - both))
        for both in range(18)
        for first in range(4)
    ]
    best = max(kappa for kappa in others if kappa is not None)
    ceiling = kappa_ceiling(table)
    assert ceiling is not None
    assert best <= ceiling < best + 0.01


def test_undefined_truths_stay_undefined() -> None:
    known = truths(Table2x2(45, 0, 0, 0))
    assert known["kappa"].shares == (None,)
    assert known["agreement"].shares == (raw_agreement(Table2x2(45, 0, 0, 0)),)


def test_intervals_follow_the_level() -> None:
    wide, narrow = (
        intervals(Table2x2(157, 7, 6, 10), level)["kappa"]["Wald"] for level in (0.95, 0.90)
    )
    assert wide is not None
    assert narrow is not None
    assert wide.low < narrow.low < narrow.high < wide.high
