"""The claims check: the published slips, our own phrasings, and what must raise no alarm."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.validity.claims import Score, phrasings, score_of
from chimeralab.rating.claims import Counts, check_claims
from chimeralab.rating.claims.truths import kappa_ceiling
from chimeralab.stats import agreement as pair
from chimeralab.stats.agreement import Table2x2

STUDY = Counts(Table2x2(157, 7, 6, 10), {})
PUBLISHED = Path(__file__).parents[3] / "shared" / "seeds" / "000_1a366db00e9c4678.txt"

SLIPPED = """# Reliability

Two raters labelled 180 trajectories. Raw agreement was 92.8 % (167/180), and expected agreement
~0.75, so that Cohen's kappa came to 0.566.

163/180 trajectories were called collapse by at least one rater. With a base rate like that
(~87 % prevalence), kappa has a ceiling of ~0.65.
"""
CORRECTED = """# Reliability

Two raters labelled 180 trajectories. Raw agreement was 92.8 % (167/180), and expected agreement
~0.83, so that Cohen's kappa came to 0.566.

170/180 trajectories were called collapse by at least one rater. With a base rate like that
(~91 % prevalence), kappa has a ceiling of ~0.86, or 0.97 at these margins.
"""


def test_the_four_published_slips_are_found_with_the_right_numbers() -> None:
    findings = check_claims(SLIPPED, STUDY).findings
    assert [(claim.line, claim.stated) for claim in findings] == [
        (4, "~0.75"), (6, "163/180"), (7, "~87 %"), (7, "~0.65"),
    ]  # fmt: skip
    assert ["0.8335" in findings[0].right, "170/180" in findings[1].right] == [True, True]
    assert ["90.8 %" in findings[2].right, "0.8563" in findings[3].right] == [True, True]
    assert "both raters say 1" in findings[2].note
    assert "the second rater says 1" in findings[1].note


def test_nothing_is_found_in_the_corrected_text() -> None:
    report = check_claims(CORRECTED, STUDY)
    assert report.findings == ()
    assert len(report.claims) >= 9


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published methods page is not at hand")
@pytest.mark.parametrize("part", ["# Methods", "## Detector Reliability Outcome"])
def test_the_published_page_holds_exactly_one_slip(part: str) -> None:
    text = PUBLISHED.read_text(encoding="utf-8")
    findings = check_claims(text[text.index(part) :], STUDY).findings
    assert [(claim.stated, claim.quantity) for claim in findings] == [("~87%", "prevalence")]


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("first", Score(slips=23, found=23, sound=25, false_alarms=0, understood=45)),
        ("second", Score(slips=18, found=18, sound=18, false_alarms=0, understood=36)),
        ("third", Score(slips=21, found=21, sound=19, false_alarms=0, understood=36)),
        ("fourth", Score(slips=12, found=12, sound=14, false_alarms=1, understood=25)),
    ],
)
def test_phrasings_score_as_documented(name: str, score: Score) -> None:
    assert score_of(phrasings()[name]) == score


cells = st.integers(2, 400)


@st.composite
def tables(draw: st.DrawFn) -> Table2x2:
    return Table2x2(*(draw(cells) for _ in range(4)))


def sentences(table: Table2x2) -> list[str]:
    """True statements about a table."""
    agreed, differing = table.both + table.neither, table.first_only + table.second_only
    return [
        f"Cohen's kappa is {pair.cohen_kappa(table):.3f}.",
        f"The raters agreed on {agreed} of {table.n} items ({100 * agreed / table.n:.1f} %).",
        f"Chance alone would give an agreement of {pair.expected_agreement(table):.2f}.",
        f"Both raters said collapse in {table.both} cases.",
        f"Neither rater saw collapse in {table.neither} cases.",
        f"They disagreed on {differing}.",
        f"At least one rater saw collapse in {table.both + differing}/{table.n} items.",
        f"Prevalence is about {100 * (pair.prevalence(table) or 0):.0f} %.",
        f"PABAK is {pair.pabak(table):.2f} and AC1 {pair.gwet_ac1(table):.2f}.",
        f"Kappa has a ceiling of {kappa_ceiling(table):.3f}.",
        f"Positive agreement was {pair.positive_agreement(table):.2f}.",
    ]


@given(tables())
def test_true_statements_about_any_table_raise_no_alarm(table: Table2x2) -> None:
    report = check_claims(" ".join(sentences(table)), Counts(table, {}))
    assert report.findings == ()
    assert len(report.claims) == 13
    assert report.not_understood == ()


@given(tables(), st.integers(1, 40))
def test_a_count_that_is_off_is_found_in_any_table(table: Table2x2, off: int) -> None:
    text = f"Both raters said collapse in {table.both + off} cases."
    assert len(check_claims(text, Counts(table, {})).findings) == 1


def test_claims_about_a_stratum_are_held_against_its_own_counts() -> None:
    strata = {"HOMO_A": Table2x2(41, 2, 0, 2), "HOMO_B": Table2x2(45, 0, 0, 0)}
    counts = Counts(Table2x2(157, 7, 6, 10), strata)
    text = """Overall kappa is 0.566; in HOMO_A kappa is 0.646 and in HOMO_B kappa is 1.0.

| condition | kappa | disagreements |
|---|---|---|
| HOMO_A | 0.646 | 3 |
"""
    findings = check_claims(text, counts).findings
    assert [(claim.line, claim.stated, claim.stratum, claim.right) for claim in findings] == [
        (1, "1.0", "HOMO_B", "undefined"),
        (5, "3", "HOMO_A", "2"),
    ]


def test_raters_may_go_by_their_names() -> None:
    counts = Counts(Table2x2(157, 7, 6, 10), {}, ("GPT-4o", "Sonnet"))
    text = "GPT-4o labelled 164 items as collapsed, Sonnet labelled 164 items as collapsed."
    findings = check_claims(text, counts).findings
    assert [(claim.quantity, claim.right) for claim in findings] == [
        ("the second rater says 1", "163")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "```\nkappa = 0.99\n```",
        "See `kappa=0.99` for the default.",
        "<!-- kappa is 0.99 -->",
        "[kappa](https://example.org/0.99)",
        "The detector agrees with the raters on 71 % of the items.",
        "We would need a kappa of 0.90 to have 80 % power.",
        "Rater 2 and rater 1 followed version 3.0 for 40 turns.",
        "p = 0.03 in step 2 of section 4.",
    ],
)
def test_numbers_that_state_no_result_are_left_alone(text: str) -> None:
    assert check_claims(text, STUDY).findings == ()


def test_command_lists_slips_and_exits_with_1(chimera: Callable[..., Any], tmp_path: Path) -> None:
    text = tmp_path / "text.md"
    text.write_text(SLIPPED, encoding="utf-8")
    code, shown, told = chimera("claims", text, "--table", 157, 7, 6, 10)
    assert (code, shown.count("line "), "4 do not fit" in told) == (1, 4, True)
    text.write_text(CORRECTED, encoding="utf-8")
    code, shown, _ = chimera("claims", text, "--table", 157, 7, 6, 10, "--json")
    assert (code, json.loads(shown)["findings"]) == (0, [])
    assert "fits" in chimera("claims", text, "--table", 157, 7, 6, 10, "--all")[1]


def test_command_reads_a_file_of_ratings(chimera: Callable[..., Any], tmp_path: Path) -> None:
    rows = ["item,rater,label,stratum", "a,x,1,p", "a,y,1,p", "b,x,0,q", "b,y,1,q"]
    ratings, text = tmp_path / "r.csv", tmp_path / "text.md"
    ratings.write_text("\n".join(rows), encoding="utf-8")
    text.write_text("The raters agreed on 1/2 items.\n\nIn q they disagreed on 3 items.", "utf-8")
    code, shown, _ = chimera("claims", text, "--ratings", ratings)
    assert (code, "line 3" in shown, "(q)" in shown) == (1, True, True)


@pytest.mark.parametrize("arguments", [("nowhere.md", "--table", 1, 2, 3, 4), ("-",)])
def test_bad_arguments_exit_with_2(
    chimera: Callable[..., Any], arguments: tuple[object, ...]
) -> None:
    assert chimera("claims", *arguments)[0] == 2
