"""The gate: which number is compared with the threshold, and what may be claimed."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from chimeralab.core.errors import InputError
from chimeralab.core.result_words import FACT, MARK
from chimeralab.rating.gate import (
    Gate,
    ValidityBar,
    check_wording,
    judge_gate,
)
from chimeralab.rating.labels import from_counts
from chimeralab.stats.agreement import Table2x2
from chimeralab.stats.raters import RatersPanel, raters_panel


def panel_of(*counts: int) -> RatersPanel:
    return raters_panel(from_counts(Table2x2(*counts)).labels, rng=np.random.default_rng(1))


STUDY = panel_of(157, 7, 6, 10)


def test_the_published_gate_is_not_met() -> None:
    outcome = judge_gate(Gate(rule="point"), STUDY)
    assert (outcome.passed, round(outcome.value or 0, 4)) == (False, 0.5663)
    assert outcome.reason == "0.5663 stays below 0.80"


def test_a_gate_exactly_at_its_threshold_is_met() -> None:
    half = panel_of(3, 1, 1, 3)
    assert next(iter(half.pairs.values())).kappa == 0.5
    at, above = (
        judge_gate(Gate(threshold=value, rule="point"), half)
        for value in (0.5, np.nextafter(0.5, 1))
    )
    assert (at.passed, at.reason) == (True, "0.5000 reaches 0.50")
    assert not above.passed


def test_lower_bound_of_kappa_is_that_of_the_score_interval() -> None:
    outcome = judge_gate(Gate(rule="lower_ci"), STUDY)
    assert outcome.compared == next(iter(STUDY.pairs.values())).kappa_ci_score.low


def test_perfect_agreement_on_few_items_does_not_pass_by_its_lower_bound() -> None:
    perfect = panel_of(5, 0, 0, 5)
    assert judge_gate(Gate(rule="point"), perfect).passed
    assert not judge_gate(Gate(), perfect).passed


def test_the_pair_that_agrees_least_decides() -> None:
    labels = {"x": [1, 1, 0, 0], "y": [1, 1, 0, 0], "z": [1, 0, 0, 1]}
    outcome = judge_gate(Gate(rule="point"), raters_panel(labels, rng=np.random.default_rng(1)))
    assert outcome.value == 0
    assert "(x, z)" in outcome.reason


def test_one_undefined_pair_fails_the_gate() -> None:
    labels = {"x": [1, 1, 1], "y": [1, 1, 1], "z": [1, 0, 1]}
    outcome = judge_gate(Gate(), raters_panel(labels, rng=np.random.default_rng(1)))
    assert (outcome.passed, outcome.compared) == (False, None)


def test_after_a_failed_gate_nothing_may_be_called_validated() -> None:
    scope = judge_gate(Gate(), STUDY).scope
    assert (scope.name, scope.words) == ("descriptive", MARK)
    check_wording(scope.sentence, scope)
    with pytest.raises(InputError, match="line 2 says 'Validated'"):
        check_wording("Collapse was seen.\nA Validated detector saw it.", scope)


MET = judge_gate(Gate(threshold=0.3), STUDY)
BAR = ValidityBar(sensitivity=0.8, specificity=0.9)


def test_agreement_of_raters_does_not_validate_the_detector() -> None:
    scope = MET.scope
    assert (scope.name, scope.words) == ("reliable", MARK)
    check_wording(scope.sentence, scope)
    with pytest.raises(InputError, match="validated"):
        check_wording("A validated detector.", scope)


def test_a_detector_that_agrees_with_raters_may_be_called_validated() -> None:
    scope = replace(MET, gate=replace(MET.gate, validity=BAR), validated=True).scope
    assert (scope.name, scope.words) == ("validated", FACT)
    assert "sensitivity at least 0.80, specificity at least 0.90" in scope.sentence
    check_wording("A validated detector.", scope)
    assert replace(judge_gate(Gate(), STUDY), validated=True).scope.name == "descriptive"


def test_not_validated_is_not_a_claim() -> None:
    check_wording("The detector is not validated.", MET.scope)


@pytest.mark.parametrize("values", [{}, {"sensitivity": 80.0}])
def test_validity_without_thresholds_or_out_of_range_is_rejected(values: dict[str, float]) -> None:
    with pytest.raises(InputError, match="sensitivity"):
        ValidityBar(**values)


@pytest.mark.parametrize("threshold", [-1.5, 80])
def test_threshold_outside_the_scale_is_rejected(threshold: float) -> None:
    with pytest.raises(InputError, match="between -1 and 1"):
        Gate(threshold=threshold)


@pytest.mark.parametrize(
    ("counts", "how"),
    [
        ((5, 0, 0, 5), "met at the point estimate, not at its lower bound"),
        ((90, 1, 1, 90), "met at the point estimate, and at its lower bound"),
        ((157, 7, 6, 10), "not met"),
    ],
)
def test_a_point_estimate_that_passes_says_what_its_lower_bound_does(
    counts: tuple[int, ...], how: str
) -> None:
    outcome = replace(judge_gate(Gate(rule="point"), panel_of(*counts)), validated=True)
    assert outcome.how == how
    assert (outcome.name == "validated") == ("and at its lower bound" in how)
    assert outcome.estimate in outcome.scope.sentence
    assert f"{sum(counts)} items" in outcome.headline


def test_gate_without_an_interval_says_that_its_bound_is_unknown() -> None:
    perfect = panel_of(5, 0, 0, 5)
    outcome = judge_gate(Gate(statistic="alpha", rule="point"), perfect)
    assert outcome.passed
    assert outcome.how == "met at the point estimate; its lower bound is unknown"
    assert "alpha 1.00 (no interval, 10 items)" in outcome.headline
    bound = judge_gate(Gate(statistic="alpha"), perfect)
    assert bound.reason.startswith("the lower bound of alpha is undefined: agreement is perfect")


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"threshold": 1.0}, "the gate can't be met: no lower bound reaches 1.00"),
        ({"threshold": 0.0, "rule": "point"}, "the gate can't fail: labels given at random"),
        ({"threshold": -0.2}, "the gate can't fail"),
        ({"threshold": 0.4, "statistic": "agreement"}, "the gate can't fail"),
        ({"sample": 500}, "the gate can't be decided: its sample of 500 is larger"),
        ({"validity": ValidityBar(specificity=1.0)}, "no number of items give bounds of"),
        ({"validity": ValidityBar(0.95, 0.95)}, "at least 146 items"),
    ],
)
def test_gate_that_cannot_decide_is_named(settings: dict[str, Any], advice: str) -> None:
    gate = Gate(raters=("a", "b"), **settings)
    assert advice in " ".join(gate.advise(conversations=100, prompts=100))
    fine = Gate(raters=("a", "b"), validity=ValidityBar(0.8, 0.8))
    assert list(fine.advise(conversations=400, prompts=400)) == []
