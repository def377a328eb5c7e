"""How raters see and cite turns: as their rubric labels them. Stored turns are counted from 1."""

import csv
import json
from pathlib import Path

import pytest

from chimeralab.rating.model_rater import build_prompt, read_answer
from chimeralab.rating.packets import PAGE, SHEET, export_packet, import_packet, lay_out_packet
from chimeralab.rating.raters import load_ratings, rate_study
from chimeralab.rating.ratings import Item, Shuffler
from chimeralab.rating.rubric import VERSIONS, Rubric, load_rubric, rubric_text
from chimeralab.rating.rules import rate_by_rules
from chimeralab.rating.samples import draw
from chimeralab.study.export import export_study
from tests.plans import RATED

LOOP = Item("loop", ("Well.", "Again and again.", "Again and again.", "Again and again."))
RUBRICS = [load_rubric(path) for path in VERSIONS.values()]
FROM_ZERO, FROM_ONE = RUBRICS
DONE = ("lock", "run")


def answer(turns: list[object]) -> str:
    said = {"mark": "m", "label": 1, "step": "verbatim", "turns": turns, "reason": "Equal."}
    return json.dumps(said)


@pytest.mark.parametrize(
    ("rubric", "labels"), [(FROM_ZERO, "T3-T6, T8"), (FROM_ONE, "4-7, 9")], ids=str
)
def test_labels_are_read_back_as_the_turns_that_they_stand_for(rubric: Rubric, labels: str) -> None:
    assert rubric.label_turns([7, 4, 5, 6, 9, 9]) == labels
    assert rubric.read_turns(labels, last=9) == (4, 5, 6, 7, 9)


@pytest.mark.parametrize("written", ["T3 – T5", "3-5", " t3-5 "])
def test_letter_may_be_left_out(written: str) -> None:
    assert FROM_ZERO.read_turns(written, last=9) == (4, 5, 6)


@pytest.mark.parametrize(
    ("rubric", "written"),
    [(FROM_ZERO, "9"), (FROM_ONE, "0"), (FROM_ONE, "10"), (FROM_ONE, "T3"), (FROM_ZERO, "T5-T3")],
    ids=str,
)
def test_turns_that_do_not_exist_are_rejected(rubric: Rubric, written: str) -> None:
    assert rubric.read_turns(written, last=9) is None


def test_rules_name_turns_as_the_rubric_does() -> None:
    zero, one = (rate_by_rules(LOOP, rubric) for rubric in RUBRICS)
    assert zero.reason == "T1 to T3 are the same text, 3 in a row."
    assert one.reason == "Turns 2 to 4 are the same text, 3 in a row."
    assert (zero.first_turn, one.first_turn) == ("T0", "1")
    assert zero.turns == one.turns == (2, 3, 4)


def test_reason_for_a_0_names_turns_as_the_rubric_does() -> None:
    pair = Item("pair", LOOP.texts[:3])
    assert rate_by_rules(pair, FROM_ZERO).reason == "Only T1 and T2 are alike: two in a row."
    varied = Item("varied", ("The sea is calm.", "Bees dance."))
    reasons = [rate_by_rules(varied, rubric).reason for rubric in RUBRICS]
    assert reasons == [
        "No two adjacent turns among T0 to T1 are the same.",
        "No two adjacent turns among 1 to 2 are the same.",
    ]


def test_prompt_labels_turns_as_the_examples_of_the_rubric_do() -> None:
    for rubric, first in zip(RUBRICS, ("T0", "1"), strict=True):
        system, user = build_prompt(LOOP, rubric, "m")
        assert next(iter(json.loads(user.content.splitlines()[1]))) == first
        assert rubric_text(rubric) in system.content
    assert "    T32: " in rubric_text(FROM_ZERO)
    assert "    18: " in rubric_text(FROM_ONE)


@pytest.mark.parametrize(
    ("rubric", "turns"),
    [(FROM_ZERO, [1, 2, 3]), (FROM_ZERO, ["T1", "T2", "T3"]), (FROM_ONE, [2, 3, 4])],
    ids=str,
)
def test_answer_of_a_model_is_read_by_the_labels_that_it_saw(
    rubric: Rubric, turns: list[object]
) -> None:
    rating, _ = read_answer(answer(turns), LOOP, "m", rubric)
    assert (rating.turns, rating.first_turn) == ((2, 3, 4), rubric.first_turn)


@pytest.mark.parametrize("rubric", RUBRICS, ids=str)
def test_packet_is_numbered_and_read_by_its_rubric(tmp_path: Path, rubric: Rubric) -> None:
    folder = tmp_path / "packet"
    packet = lay_out_packet([LOOP], rubric, Shuffler("secret", "a test"))
    key = export_packet(folder, packet, rubric)
    page = (folder / PAGE).read_text(encoding="utf-8")
    start = {
        "T0": '<ol class="numbered from-t0" start="0">',
        "1": '<ol class="numbered" start="1">',
    }
    assert start[rubric.first_turn] in page
    assert f'placeholder="{rubric.label_turns(range(5, 9))}"' in page
    with (folder / SHEET).open(encoding="utf-8", newline="") as file:
        [row] = csv.DictReader(file)
    filled = row | {"label": "1", "turns": rubric.label_turns([2, 3, 4]), "reason": "Equal."}
    with (folder / SHEET).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, filled)
        writer.writeheader()
        writer.writerow(filled)
    (rating,), _ = import_packet(folder / SHEET, key, {"loop": LOOP}, rubric, "ann")
    assert (rating.turns, rating.first_turn, rating.rater) == ((2, 3, 4), rubric.first_turn, "ann")


@pytest.mark.parametrize(("version", "first"), [("3.0", "T0"), ("4.0", "1")])
def test_stored_ratings_say_how_their_reason_labels_turns(make_study, tmp_path, version, first):
    study = make_study(RATED, f'[rubric]\nversion = "{version}"\n', steps=DONE)
    for rater in ("rules", "judge"):
        rate_study(study, rater)
        given = [each for each in load_ratings(study, rater).values() if each.label]
        assert given
        assert {(each.turns[:1], each.first_turn) for each in given} == {((2,), first)}
    draw(study, "calibration", 8)  # labels that a gate may be decided on are not exported
    export_study(study, "csv", tmp_path / "out")
    with (tmp_path / "out" / "ratings.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["first_turn"] for row in rows} == {first}
