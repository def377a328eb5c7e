"""Cycles that the declared rule can't count: said with every primary result, never hidden."""

import csv
import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.plans import SELFPLAY, Change, changed
from tests.studies import DETECTED, MakeStudy

Chimera = Callable[..., Any]

# Three speakers in turn, each with one line of its own: a cycle of three, from the first turn on.
LINES = {
    "ann": "The harbour lies still and the boats wait for the morning tide.",
    "ben": "Numbers are patient; they add up long after we have gone home.",
    "cat": "A garden needs rain, then sun, then somebody to notice it.",
}
MODELS = "".join(
    f'[models.{name}]\nuse = "phantom"\ncourse = "script"\nscript = ["{line}"]\n'
    for name, line in LINES.items()
)
TABLES = f"""{MODELS}
[models.loops]
use = "phantom"
course = "verbatim"
onset = 12
[conditions.looping]
speakers = ["loops", "loops"]
[conditions.rotation]
speakers = ["ann", "ben", "cat"]
[conditions.free]
speakers = ["free", "free"]
[conversation]
turns = 24
repeats = 2
[outcomes]
resamples = 200
permutations = 200
"""
ROTATION = changed(SELFPLAY, TABLES)
SECONDARY = """
[[outcomes.estimands]]
measure = "share"
role = "primary"
[[outcomes.estimands]]
measure = "cycle_share"
role = "secondary"
"""
SEES = (
    "sees a cycle that the declared rule can't count, with the 95 % interval and the number of "
    "conversations: "
)


def plain(text: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


@pytest.fixture
def rotated(make_study: MakeStudy) -> Callable[..., Path]:
    return lambda *changes: make_study(ROTATION, *changes, steps=DETECTED).path


def test_cycle_of_a_rotation_stands_next_to_the_result_that_misses_it(
    chimera: Chimera, rotated: Callable[..., Path]
) -> None:
    study = rotated()
    found = chimera("analyse", study, "--json").json
    of = found["conditions"]
    assert (of["rotation"]["mean"], of["looping"]["mean"] > 0.2) == (0, True)
    assert {name: each["unseen_share"] for name, each in of.items()} == {
        "free": 0, "looping": 0, "rotation": 1,
    }  # fmt: skip
    assert of["rotation"]["unseen_ci"][1] == 1
    assert of["rotation"]["mean_if_seen"] > of["looping"]["mean_if_seen"] == of["looping"]["mean"]
    assert found["order_if_seen"] == ["rotation", "looping", "free"]
    told = plain(chimera("analyse", study).out)
    assert chimera("report", study).code == 0
    page = (study / "report" / "index.html").read_text(encoding="utf-8")
    opening = plain(page.split('id="glance"')[1].split("</section>")[0])
    contrasts = plain(page.split('id="contrasts"')[1].split("</section>")[0])
    for text in (told, opening, contrasts):
        assert re.search(rf"{SEES}[^:]*rotation 100\.0 % \(\d[^)]*\) of 4", text)
        assert "the order of the conditions would change from looping > free = rotation to" in text
        assert "rotation (" in text.split("would change from")[1]
    with (study / "report" / "tables" / "unseen_cycles.csv").open() as file:
        assert {row["condition"]: row["unseen_runs"] for row in csv.DictReader(file)} == {
            "free": "0", "looping": "0", "rotation": "4",
        }  # fmt: skip
    numbers = json.loads((study / "report" / "numbers.json").read_text(encoding="utf-8"))
    assert numbers["unseenCyclesRotation"]["value"] == 1


def test_equal_conditions_are_not_ranked(chimera: Chimera, rotated: Callable[..., Path]) -> None:
    study = rotated('[models.still]\nuse = "phantom"\n', ('"loops", "loops"', '"still", "still"'))
    assert chimera("report", study).code == 0
    page = plain((study / "report" / "index.html").read_text(encoding="utf-8"))
    told = plain(chimera("analyse", study).out)
    for text in (told, page):
        assert "would change from free = looping = rotation to" in text
        assert re.search(r"to rotation \(\d\d\.\d %\) > free \(0\.0 %\) = looping \(0\.0 %\)", text)


def test_smallest_share_is_that_of_every_equal_condition(
    chimera: Chimera, rotated: Callable[..., Path]
) -> None:
    study = rotated()
    told = plain(chimera("analyse", study).out)
    assert "would change from looping > free = rotation to" in told
    assert "largest under looping" in told
    assert re.search(r"smallest under free \(0\.0 %\) and rotation \(0\.0 %\)", told)
    assert (
        "The order looping > free = rotation holds in 0 of 2 prompts, and but for ties in 2" in told
    )


def test_export_has_the_unseen_turns_and_gives_the_same_analysis(
    chimera: Chimera, rotated: Callable[..., Path], tmp_path: Path
) -> None:
    study = rotated(SECONDARY)
    assert chimera("export", study, "--format", "csv", "--out", tmp_path / "out").code == 0
    with (tmp_path / "out" / "outcomes.csv").open() as file:
        rows = list(csv.DictReader(file))
    unseen = {row["condition"]: int(row["unseen_turns"]) for row in rows}
    assert unseen["rotation"] > 10
    assert (unseen["looping"], unseen["free"]) == (0, 0)
    cycle = {row["condition"]: int(row["cycle_turns"]) for row in rows}
    # A run of three repeats at lag 3 is complete at turn 6; the rule itself marks none of them.
    assert cycle["rotation"] == 24 - 6 + 1
    there, here = (
        chimera("analyse", path, "--json").json
        for path in (study, tmp_path / "out" / "outcomes.csv")
    )
    assert there["conditions"] == here["conditions"]
    assert there["order_if_seen"] == here["order_if_seen"]


def test_plan_may_declare_an_outcome_that_sees_the_cycle(
    chimera: Chimera, rotated: Callable[..., Path]
) -> None:
    study = rotated(SECONDARY)
    [primary, secondary] = chimera("analyse", study, "--json").json["answers"]
    assert secondary["estimand"]["role"] == "secondary"
    differences = {(each["a"], each["b"]): each["difference"] for each in secondary["comparisons"]}
    assert differences["looping", "rotation"] < -0.2
    declared = {(each["a"], each["b"]): each["difference"] for each in primary["comparisons"]}
    assert declared["looping", "rotation"] > 0.2
    told = plain(chimera("analyse", study).out)
    assert "Secondary: difference in the mean share of turns marked as collapsed at its own" in told
    assert chimera("report", study).code == 0
    page = plain((study / "report" / "index.html").read_text(encoding="utf-8"))
    assert "looping − rotation (secondary)" in page


def test_check_names_a_rotation_that_the_rule_cannot_see(
    chimera: Chimera, rotated: Callable[..., Path]
) -> None:
    advice = "rotation: a cycle of its 3 speakers is longer than the 2 turns that the rule looks"
    assert advice in plain(chimera("check", rotated(), "--offline").out)


def test_loop_detector_leaves_no_cycle_unseen(
    chimera: Chimera, rotated: Callable[..., Path]
) -> None:
    found = chimera("analyse", rotated('[detector]\nuse = "loops"\n'), "--json").json
    assert [each["unseen_runs"] for each in found["conditions"].values()] == [0, 0, 0]
    assert found["conditions"]["rotation"]["mean"] > 0.5


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ((SECONDARY, '[[outcomes.estimands]]\nmeasure = "cycle_share"\nrole = "primary"\n'),
         "measure = 'cycle_share' can't be primary"),
        (("unseen_turns", "30"), "column unseen_turns is 30"),
    ],
)  # fmt: skip
def test_wrong_cycle_turns_and_roles_are_rejected(
    chimera: Chimera, make_study: MakeStudy, tmp_path: Path, change: Change, error: str
) -> None:
    if change[0] == SECONDARY:
        study = make_study(ROTATION).path
        plan = study / "plan.toml"
        plan.write_text(plan.read_text() + change[1], encoding="utf-8")
        ran = chimera("check", study, "--offline")
    else:
        names = "condition,seed_id,repeat_index,total_turns,collapsed_turns,first_collapse_turn"
        table = tmp_path / "runs.csv"
        table.write_text(f"{names},{change[0]}\nA,p,1,24,0,,{change[1]}\n", encoding="utf-8")
        ran = chimera("analyse", table)
    assert (ran.code, error in ran.err) == (2, True), ran.err
