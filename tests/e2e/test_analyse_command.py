"""`chimera analyse` and `chimera compare` as a user runs them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.plans import Files
from tests.studies import RUN, MakeStudy

HEADER = "condition,seed_id,repeat_index,total_turns,collapsed_turns,first_collapse_turn"

TALKERS: Files = {
    "plan.toml": """
[study]
name = "scripted"
[models.calm]
use = "talkers:Talker"
[models.stuck]
use = "talkers:Talker"
stuck_from = 4
[conditions.calm]
speakers = ["calm", "calm"]
[conditions.stuck]
speakers = ["stuck", "stuck"]
[conversation]
turns = 12
repeats = 2
[prompts]
items = [
  { id = "p1", text = "Begin.", bucket = "x" },
  { id = "p2", text = "Start.", bucket = "x" },
  { id = "p3", text = "Go.", bucket = "y" },
]
""",
    "talkers.py": '''
"""A model that talks about ever new things, or gets stuck after a while."""

from dataclasses import dataclass

from chimeralab.models.seam import Reply

WORDS = "anchor bread cello desert engine forest garden harbour island jungle kettle lamp".split()


@dataclass(frozen=True)
class Talker:
    stuck_from: int = 1000

    def open(self):
        return Voice(self)


class Voice:
    def __init__(self, settings):
        self.settings = settings

    async def reply(self, request):
        late = sum(map(ord, request.conversation)) % 4
        if request.turn >= self.settings.stuck_from + late:
            return Reply("Let me say that again, my friend.")
        return Reply(f"Tell me about the {WORDS[request.turn - 1]}, number {request.turn * 37}.")
''',
}


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    """A table of two conditions on four prompts; `shift` adds collapsed turns."""

    def write(name: str = "runs.csv", shift: int = 0, *more: str) -> Path:
        rows = [HEADER]
        for place, seed in enumerate("wxyz"):
            for repeat in (0, 1):
                for condition, level in (("calm", 2), ("stuck", 20)):
                    collapsed = level + 2 * place + repeat + shift
                    rows.append(f"{condition},{seed},{repeat},40,{collapsed},{41 - collapsed}")
        path = tmp_path / name
        path.write_text("\n".join([*rows, *more]) + "\n")
        return path

    return write


def test_table_of_runs_gives_tables_and_an_interpretation(chimera, table) -> None:
    ran = chimera("analyse", table(), "--full")
    assert ran.code == 0
    assert "Share of turns marked as collapsed" in ran.out
    assert "of 40" in ran.out
    assert "naive p" in ran.out
    assert "The order stuck > calm holds in 4 of 4 prompts" in ran.out
    assert "exploratory" in ran.out


def test_json_is_one_object_with_the_promised_keys(chimera, table) -> None:
    ran = chimera("analyse", table(), "--json", "--resamples", 500, "--seed", 3)
    found = json.loads(ran.out)
    assert {
        "n", "mean", "median", "sd", "cluster_ci", "bootstrap_ci", "incidence", "km_median", "rmst",
    } <= set(found["conditions"]["calm"])  # fmt: skip
    assert {"a", "b", "difference", "ci", "p", "p_holm", "naive_p"} <= set(found["contrasts"][0])
    assert {"chi2", "df", "p"} <= set(found["logrank"])
    assert found["settings"]["seed"] == 3
    assert found["settings"]["resamples"] == 500


def test_same_command_prints_the_same_bytes(chimera, table) -> None:
    path = table()
    assert chimera("analyse", path, "--json").out == chimera("analyse", path, "--json").out


@pytest.mark.parametrize("text", ["stuck = calm", "stuck: 1, calm: -1"])
def test_contrast_can_be_written_in_two_ways(chimera, table, text: str) -> None:
    found = json.loads(chimera("analyse", table(), "--json", "--contrast", text).out)
    assert found["weighted"][0]["difference"] == pytest.approx(18 / 40)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--contrast", "stuck = clam"], "unknown condition in contrast 'stuck = clam': 'clam'"),
        (["--contrast", "stuck: 1, calm: 1"], "the weights add up to 2"),
        (["--robustness"], "--robustness needs the texts"),
    ],
)
def test_invalid_question_is_rejected_in_one_sentence(chimera, table, arguments, message) -> None:
    ran = chimera("analyse", table(), *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert "Traceback" not in ran.err


def test_bad_row_stops_with_its_place_and_exit_code_2(chimera, table) -> None:
    path = table("runs.csv", 0, "calm,w,7,40,6,41")
    ran = chimera("analyse", path)
    assert (ran.code, ran.out) == (2, "")
    assert f"{path}, line 18: column first_collapse_turn is 41" in ran.err
    assert len(ran.err.splitlines()) == 1


def test_names_from_a_table_cannot_control_the_terminal(chimera, table) -> None:
    path = table("runs.csv", 0, "[red]\x1b[31mevil,w,0,40,0,")
    ran = chimera("analyse", path)
    assert ran.code == 0
    assert "\x1b[31m" not in ran.out
    assert "[red]" in ran.out


def test_two_tables_are_compared_condition_by_condition(chimera, table) -> None:
    ran = chimera("compare", table("a.csv", 3), table("b.csv"))
    assert ran.code == 0
    assert "The order of the conditions is the same" in ran.out
    found = json.loads(chimera("compare", table("a.csv", 3), table("b.csv"), "--json").out)
    assert found["paired"] is True
    assert found["conditions"]["calm"]["share"]["difference"] == pytest.approx(3 / 40)
    apart = chimera("compare", table("a.csv", 3), table("b.csv"), "--json", "--separate")
    assert json.loads(apart.out)["paired"] is False


def test_conditions_can_be_matched_by_hand(chimera, table) -> None:
    arguments = ("--match", "calm=stuck", "--match", "stuck=calm", "--json")
    found = json.loads(chimera("compare", table("a.csv"), table("b.csv"), *arguments).out)
    assert found["conditions"]["calm"]["share"]["difference"] == pytest.approx(-18 / 40)
    assert chimera("compare", table("a.csv"), table("b.csv"), "--match", "calm").code == 2


@pytest.mark.weights
def test_study_is_judged_analysed_and_checked_for_robustness(
    chimera, make_study: MakeStudy
) -> None:
    study = make_study(TALKERS, steps=RUN).path
    found: dict[str, Any] = json.loads(chimera("analyse", study, "--json", "--robustness").out)
    assert found["lock"]
    assert found["conditions"]["calm"]["mean"] == 0
    assert found["conditions"]["stuck"]["incidence"] == 1
    assert found["after_onset"]["stuck"]["episodes"] == 6
    assert found["answers"][0]["estimand"]["role"] == "primary"
    (curve,) = found["robustness"]["curves"]
    assert (curve["distinct_detectors"], curve["same_sign"]) == (1164, 1164)
    assert curve["declared"] == pytest.approx(found["contrasts"][0]["difference"])
    assert found["robustness"]["co_detectors"][0]["both"] == 6
    assert len(found["robustness"]["lexical"]) == 12
    printed = chimera("analyse", study, "--robustness")
    assert "Primary: difference in the mean share" in printed.out
    assert "over 1164 detectors" in printed.out


@pytest.mark.weights
def test_study_and_a_table_can_be_compared(chimera, make_study: MakeStudy, table) -> None:
    study = make_study(TALKERS, steps=("run",)).path
    ran = chimera("compare", study, table(), "--json")
    assert "not locked" in ran.err
    found = json.loads(ran.out)
    assert found["paired"] is False
    assert found["settings"]["tau"] == 12


def test_covariates_of_a_study_are_joined_by_turn(chimera, make_study: MakeStudy, tmp_path) -> None:
    study = make_study(TALKERS, steps=RUN)
    rows = [
        f"{condition},p{prompt},{repeat},{turn},{turn % 4}"
        for condition in ("calm", "stuck")
        for prompt in (1, 2, 3)
        for repeat in (1, 2)
        for turn in range(1, 13)
    ]
    turns = tmp_path / "turns.csv"
    turns.write_text("\n".join(["condition,prompt,repeat,turn,beat", *rows]) + "\n")
    quick = ("--resamples", 100, "--permutations", 100)
    ran = chimera("analyse", study.path, "--covariates", turns, "--lag", 2, "--json", *quick)
    found = json.loads(ran.out)["covariates"]
    assert (found["about"], found["matched"], found["notes"]) == ("turn", 144, [])
    assert [each["outcome"] for each in found["associations"]] == ["collapse 2 turns ahead"]
    shown = chimera("analyse", study.path, "--covariates", turns, *quick)
    assert "Covariates by turn and collapse at the turn, in clusters by seed_id" in shown.out
    assert "collapse 1 turn ahead" in shown.out


def test_covariates_that_match_no_turn_are_refused_in_one_sentence(
    chimera, table, tmp_path
) -> None:
    other = tmp_path / "other.csv"
    other.write_text("condition,seed_id,repeat_index,heat\nwild,w,0,1\n")
    ran = chimera("analyse", table(), "--covariates", other)
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert "matches no run of" in ran.err
    ran = chimera("analyse", table(), "--lag", 2)
    assert (ran.code, "give --covariates TABLE" in ran.err) == (2, True)
