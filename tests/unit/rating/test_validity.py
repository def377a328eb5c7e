"""The detector against raters, and one reading of it against another."""

import numpy as np
import pytest

from chimeralab.core.errors import InputError
from chimeralab.core.records import Detection
from chimeralab.detection.locked import LOCKED
from chimeralab.rating.gate import ValidityBar
from chimeralab.rating.ratings import Item, Rating
from chimeralab.rating.rubric import Label
from chimeralab.rating.validity import MEANING, Validity, judge_validity, robustness, validity

UNRELATED = [
    "The ferry sails at noon.", "Bees dance.", "Iron rusts in salt.", "A comet passed.",
    "Chess needs patience.", "Jazz began here.", "Owls hunt mice.", "Lace is fragile.",
]  # fmt: skip


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def detection(item: str, *collapsed: int, rate: float | None = 0.1) -> Detection:
    return Detection(
        id=item, source=None, judged="all", turns=8, at_risk_turns=4, collapsed=collapsed,
        positions=tuple(range(1, 9)), collapsed_turns=len(collapsed), collapse_rate=rate,
        at_risk_rate=rate, first_collapse_turn=collapsed[0] if collapsed else None, episodes=(),
        evidence=(), warnings=(), reason=None, detector=LOCKED.describe(), encoder={},
    )  # fmt: skip


def rating(item: str, label: Label | None, *turns: int, rater: str = "ann") -> Rating:
    return Rating(item, rater, label, "Because.", turns)


def compare(verdict: Detection, told: Rating, *texts: str) -> Validity:
    items = {told.item: Item(told.item, texts or tuple(UNRELATED))}
    return validity([verdict], [told], items, rng=rng())


@pytest.mark.parametrize(
    ("turns", "name"),
    [
        ((4, 5, 6), "short loop"),
        ((1, 2, 3, 4), "short loop"),
        ((4, 5, 6, 7), "reworded loop"),
        ((4, 6, 8), "no loop named"),
        ((), "no loop named"),
    ],
)
def test_missed_loops_are_classified_by_length(turns: tuple[int, ...], name: str) -> None:
    (difference,) = compare(detection("a"), rating("a", 1, *turns)).differences
    assert (difference["name"], difference["turns"]) == (name, turns)
    assert difference["meaning"] == MEANING[name]


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        (["hi", "Hello there."] * 4, "alternation"),
        (["Bye.", "Take care.", "See you soon.", "Goodbye.", "Farewell.", "Bye now.",
          "All the best.", "Good night."], "farewell"),
        ([f"The capital of {land} is the best place for its coffee and its bread." for land in
          ("France", "Spain", "Italy", "Greece", "Peru", "Chile", "Cuba", "Malta")], "new content"),
        (UNRELATED, "similar meaning"),
    ],
)  # fmt: skip
def test_false_alarms_are_classified_by_their_texts(texts: list[str], name: str) -> None:
    (difference,) = compare(detection("a", 5, 6, 7, 8), rating("a", 0), *texts).differences
    assert (difference["name"], difference["turns"]) == (name, (5, 6, 7, 8))


def test_sensitivity_and_specificity_come_from_the_rater() -> None:
    verdicts = [detection("a", 5), detection("b"), detection("c", 6), detection("d")]
    told = [rating("a", 1), rating("b", 1, 3, 4, 5), rating("c", 0), rating("d", 0)]
    items = {each.item: Item(each.item, tuple(UNRELATED)) for each in told}
    result = validity(verdicts, told, items, rng=rng())
    assert (result.diagnosis.sensitivity.value, result.diagnosis.specificity.value) == (0.5, 0.5)
    assert result.classes == {"short loop": 1, "similar meaning": 1}


def test_detector_that_marks_everything_is_not_validated_by_its_sensitivity() -> None:
    """Without a 0 from the rater, nothing is known of false alarms."""
    names = [f"t{n}" for n in range(40)]
    items = {name: Item(name, tuple(UNRELATED)) for name in names}
    verdicts, told = [detection(name, 5) for name in names], [rating(name, 1) for name in names]
    found = validity(verdicts, told, items, rng=rng())
    assert found.diagnosis.sensitivity.interval[0] > 0.9
    validated, why = judge_validity(ValidityBar(sensitivity=0.8), {"ann": found})
    assert (validated, why) == (False, "its specificity against ann is undefined")


def test_items_without_verdict_or_label_are_excluded() -> None:
    silent = compare(detection("a", rate=None), rating("a", 1, 3, 4, 5))
    unlabelled = compare(detection("a", 5), rating("a", None))
    for result in (silent, unlabelled):
        assert result.differences == ()
        assert result.diagnosis.agreement.n_valid == 0


def test_unknown_items_and_mixed_raters_are_rejected() -> None:
    items = {"a": Item("a", tuple(UNRELATED))}
    with pytest.raises(InputError, match="'b' has no verdict"):
        validity([detection("a")], [rating("b", 1)], items, rng=rng())
    with pytest.raises(InputError, match="'a' has no text"):
        validity([detection("a")], [rating("a", 1)], {}, rng=rng())
    told = [rating("a", 1), rating("a", 1, rater="ben")]
    with pytest.raises(InputError, match="one rater"):
        validity([detection("a")], told, items, rng=rng())
    with pytest.raises(InputError, match="two verdicts on 'a'"):
        validity([detection("a"), detection("a")], [rating("a", 1)], items, rng=rng())


def test_robustness_names_the_conversations_that_change() -> None:
    one = [detection("a", 5), detection("b", 5), detection("c"), detection("d")]
    other = [detection("a", 5), detection("b"), detection("c"), detection("d")]
    agreement, changed, p_value = robustness(one, other, rng=rng())
    assert (changed, agreement.agreement, p_value) == (("b",), 0.75, 1.0)
    with pytest.raises(InputError, match="'d' has no verdict of the second reading"):
        robustness(one, other[:3], rng=rng())
