"""Contrasts of self-play and of trials: their wording, their key, their JSON."""

import pickle

import pytest

from chimeralab.stats.clusters import cells_of
from chimeralab.stats.effects import (
    SELF_PLAY,
    TRIAL,
    ArmKey,
    ContrastSpec,
    correct_with_holm,
    empty_effect,
    estimate_contrast,
)

SHAM = ArmKey("y.sham", subject="y", arm="sham")
CROWD = ArmKey("y.crowd", subject="y", arm="crowd")
ASKED = ContrastSpec({CROWD: 1.0, SHAM: -1.0}, about=("conformity",))


def test_name_is_made_from_the_key_with_and_without_the_subject() -> None:
    assert (ASKED.name, ASKED.short_name) == ("y.crowd − y.sham", "crowd − sham")
    mine = ContrastSpec({ArmKey("y.y.z", "y", "y.z"): 1.0, SHAM: -1.0})
    assert mine.short_name == "y.z − sham"
    assert ContrastSpec(ASKED.weights, "dose of size").short_name == "dose of size"


def test_key_survives_pickling() -> None:
    back = pickle.loads(pickle.dumps(SHAM))
    assert (back, back.subject, back.arm) == ("y.sham", "y", "sham")
    assert {"y.sham": 1}[SHAM] == 1


@pytest.mark.parametrize(
    ("words", "unit"), [(SELF_PLAY, "prompt"), (TRIAL, "scenario")], ids=["self-play", "trial"]
)
def test_reason_is_given_in_the_words_of_the_study(words, unit) -> None:
    cells = cells_of([1.0, 0.5, 1.0, 0.5], [CROWD, SHAM] * 2, ["u", "u", "v", "v"])
    found = estimate_contrast(cells, ASKED, words, "accuracy")
    assert (found.estimate, found.units, found.p) == (0.5, 2, None)
    assert found.reason == f"the difference is the same in every {unit}"
    one = estimate_contrast(cells_of([1.0, 0.5], [CROWD, SHAM], "uu"), ASKED, words, "accuracy")
    assert one.reason == f"one {unit} alone says nothing about the spread between {unit}s"


def test_json_has_the_names_that_each_kind_of_study_always_had() -> None:
    cells = cells_of([1.0, 0.2, 0.9, 0.3], [CROWD, SHAM] * 2, ["u", "u", "v", "v"])
    selfplay, trial = (
        correct_with_holm([estimate_contrast(cells, ASKED, words, "share")])[0].as_dict()
        for words in (SELF_PLAY, TRIAL)
    )
    assert (selfplay["a"], selfplay["b"], selfplay["seeds"]) == ("y.crowd", "y.sham", 2)
    assert (trial["name"], trial["scenarios"]) == ("y.crowd − y.sham", 2)
    assert selfplay["difference"] == trial["estimate"] == pytest.approx(0.7)
    assert selfplay["ci"] == trial["interval"]
    assert selfplay["p_holm"] == trial["p_holm"] == selfplay["p"]
    assert trial["weights"] == {"y.crowd": 1.0, "y.sham": -1.0}
    assert "permutation_p" not in trial


def test_every_missing_number_has_its_reason_under_its_name_in_json() -> None:
    found = empty_effect(ASKED, SELF_PLAY, "share", "no run under y.crowd").as_dict()
    nulls = {name for name, value in found.items() if value is None}
    assert nulls == set(found["reasons"])
