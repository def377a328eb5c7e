"""Outcomes are declared in a plan; invalid ones are rejected with a sentence."""

from typing import Any

import pytest

from chimeralab.core.errors import InputError
from chimeralab.core.parts import read_record
from chimeralab.selfplay.analysis import answer, select
from chimeralab.selfplay.outcomes import (
    Estimand,
    Outcomes,
    Settings,
    WeightedContrast,
    parse_contrast,
)

ROTATION = {"name": "rotation", "whole": "ROT", "parts": ["A", "B"]}


def outcomes(**table: Any) -> Outcomes:
    return read_record(Outcomes, table, "[outcomes]")


def test_an_empty_table_declares_the_four_measures_with_the_share_as_primary() -> None:
    declared = outcomes()
    assert declared == Outcomes()
    assert [(each.measure, each.role) for each in declared.estimands] == [
        ("share", "primary"),
        ("at_risk_share", "exploratory"),
        ("incidence", "exploratory"),
        ("restricted_mean", "exploratory"),
    ]


def test_a_plan_declares_estimands_contrasts_and_numbers() -> None:
    declared = outcomes(
        contrasts=[ROTATION, {"name": "mine", "weights": {"A": 1, "B": "-1/3", "ROT": "-2/3"}}],
        estimands=[
            {"measure": "incidence", "role": "primary", "contrast": "rotation"},
            {"measure": "share", "contrast": "mine", "population": ["x"], "failed_turns": "keep"},
        ],
        tau=30,
        seed=7,
    )
    assert declared.contrasts[0].by_condition == {"ROT": 1, "A": -0.5, "B": -0.5}
    assert declared.contrasts[1].by_condition["ROT"] == pytest.approx(-2 / 3)
    assert declared.estimands[1].population == ("x",)
    assert (declared.tau, declared.seed, declared.resamples) == (30, 7, 10_000)


def test_a_declaration_survives_being_written_out() -> None:
    declared = outcomes(contrasts=[ROTATION])
    table = {key: value for key, value in declared.as_dict().items() if value is not None}
    table["contrasts"] = [
        {key: value for key, value in contrast.items() if value is not None}
        for contrast in table["contrasts"]
    ]
    assert outcomes(**table) == declared


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"estimand": []}, "unknown key 'estimand'"),
        ({"estimands": [{"measure": "rate"}]}, "measure"),
        ({"estimands": [{"measure": "share"}]}, "no estimand is primary"),
        (
            {"estimands": [{"measure": "share", "role": "primary", "contrast": "rot"}]},
            "unknown contrast 'rot'; known: pairs",
        ),
        ({"contrasts": [{"name": "x"}]}, "needs either whole and parts, or weights"),
        ({"contrasts": [{"name": "x", "whole": "A"}]}, "needs either whole and parts"),
        ({"contrasts": [ROTATION | {"weights": {"A": 1, "B": -1}}]}, "needs either"),
        ({"contrasts": [ROTATION, ROTATION]}, "two contrasts have the same name"),
        ({"contrasts": [ROTATION | {"name": "pairs"}]}, "can't be called 'pairs'"),
        (
            {"contrasts": [{"name": "x", "weights": {"A": 1, "B": "-1/0"}}]},
            "'-1/0' is not a weight",
        ),
        (
            {"contrasts": [{"name": "x", "weights": {"A": 1, "B": -0.33, "C": -0.33}}]},
            "add up to 0.34",
        ),
        ({"level": 1.0}, "level"),
        ({"resamples": 3}, "resamples"),
    ],
)
def test_invalid_declarations_are_rejected(table: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=r"\[outcomes\]") as caught:
        outcomes(**table)
    assert message in str(caught.value)


def test_contrasts_name_conditions_that_exist() -> None:
    declared = outcomes(contrasts=[ROTATION])
    declared.check(["ROT", "A", "B"])
    with pytest.raises(InputError, match="unknown condition in contrast 'rotation': 'B'"):
        declared.check(["ROT", "A"])


def test_populations_name_buckets_that_exist() -> None:
    declared = Outcomes(estimands=(Estimand("share", "primary", population=("z",)),))
    with pytest.raises(InputError, match="unknown bucket in a population: 'z'; known: x, y"):
        declared.check(["A"], ["x", "y"])


@pytest.mark.parametrize("text", ["A", "A, B", "A: 1", "= A, B", "A: 1, B: x", "A: 1, B: 1", "A ="])
def test_unparsable_contrast_is_rejected(text: str) -> None:
    with pytest.raises(InputError, match="contrast"):
        parse_contrast(text)


def test_weights_may_be_fractions() -> None:
    assert parse_contrast("A: 1, B: -1/3, C: - 2/3").by_condition["C"] == pytest.approx(-2 / 3)


ROWS = [
    ("A", "s1", 0, 40, 10, 5, "x", None, None, "completed", 0),
    ("A", "s1", 1, 9, 0, None, "x", None, None, "overflow", 0),
    ("A", "s2", 0, 40, 20, 5, "y", None, None, "completed", 2),
    ("B", "s1", 0, 40, 0, None, "x", None, None, "collapsed", 0),
    ("B", "s2", 0, 40, 0, None, "y", None, None, "failed", 0),
]


@pytest.mark.parametrize(
    ("estimand", "kept", "reasons"),
    [
        (Estimand("share"), 3, {"cut short (overflow)", "cut short (failed)"}),
        (Estimand("share", failed_turns="keep"), 5, set()),
        (
            Estimand("share", failed_turns="keep", empty_turns="leave_out"),
            4,
            {"has empty turns"},
        ),
        (
            Estimand("share", population=("x",), failed_turns="keep"),
            3,
            {"outside the population"},
        ),
    ],
)
def test_estimand_selects_its_runs(make_runs, estimand, kept, reasons) -> None:
    chosen = select(make_runs(ROWS), estimand)
    assert len(chosen.rows) == kept
    assert {part.reason for part in chosen.left_out} == reasons
    assert sum(part.runs for part in chosen.left_out) == len(ROWS) - kept


def test_estimand_without_runs_has_a_reason_and_no_estimate(make_runs) -> None:
    estimand = Estimand("share", population=("x",), failed_turns="keep", empty_turns="leave_out")
    runs = make_runs([row for row in ROWS if row[6] == "y"])
    found = answer(runs, estimand, Outcomes(), Settings(40))
    assert found.comparisons == ()
    assert found.reason


def test_answer_uses_the_contrast_and_measure_of_its_estimand(make_runs) -> None:
    estimand = Estimand("incidence", "primary", contrast="both", failed_turns="keep")
    declared = Outcomes((estimand,), (WeightedContrast("both", whole="A", parts=("B",)),))
    (found,) = answer(make_runs(ROWS), estimand, declared, Settings(40)).comparisons
    assert (found.a, found.b, found.measure) == ("A", "B", "incidence")
    assert found.estimate == pytest.approx(0.75)
