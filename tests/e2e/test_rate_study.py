"""A study rated, audited and reported from the command line."""

import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chimeralab.rating.rater_checks import load_retest
from chimeralab.rating.raters import find_rater
from chimeralab.rating.rubric import BUILT_IN, lock_rubric
from chimeralab.study import Study
from tests.plans import RATED, Change, judge
from tests.studies import RUN, MakeStudy, Steps

Chimera = Callable[..., Any]

SMALL = """
[conversation]
turns = 5
repeats = 2
[gate]
rule = "point"
raters = ["rules", "judge"]
"""
HUMAN = ('"rules", "judge"', '"rules", "human:ann"')
BOTH = ("rate rules", "rate judge")


@pytest.fixture
def make_rated(make_study: MakeStudy) -> Callable[..., Path]:
    """A small study that was run and rated."""

    def make(*changes: Change, steps: Steps = ()) -> Path:
        return make_study(RATED, SMALL, *changes, steps=(*RUN, *steps)).path

    return make


def rated(chimera: Chimera, study: Path, *raters: str) -> Path:
    for rater in raters:
        assert chimera("rate", study, "--rater", rater).code == 0
    return study


def test_raters_that_agree_meet_the_gate(chimera: Chimera, make_rated: Callable[..., Path]) -> None:
    study = rated(chimera, make_rated(), "rules", "judge")
    assert chimera("detect", study).code == 0
    ran = chimera("audit", study, "--json")
    result = json.loads(ran.out)
    assert (ran.code, result["kappa"], result["n_valid"]) == (0, 1.0, 8)
    assert set(result["by_stratum"]) == {"free", "looping"}
    assert result["clustered"]
    record = json.loads((study / "audit" / "gate-record.json").read_text(encoding="utf-8"))
    assert (record["verdict"], record["consequence"]["name"]) == ("passed", "reliable")
    assert [each["name"] for each in record["rater_identities"]] == ["rules", "judge"]
    assert record["rubric"]["version"] == "3.0"
    assert [each["rater"] for each in result["validity"]] == ["rules", "judge"]
    assert result["validity"][0]["result"]["diagnosis"]["agreement"]["n_valid"] == 8
    again = chimera("audit", study, "--json")
    assert (again.code, again.out) == (0, ran.out)


def test_raters_that_disagree_fail_the_gate_and_limit_claims(
    chimera: Chimera, make_rated: Callable[..., Path]
) -> None:
    study = make_rated(judge("contrary"), steps=BOTH)
    ran = chimera("audit", study)
    assert ran.code == 1
    assert "Gate NOT met" in ran.out
    assert "run `chimera detect`" in " ".join(ran.out.split())
    markdown = (study / "audit" / "gate-record.md").read_text(encoding="utf-8")
    assert "Verdict: not reliable" in markdown
    assert "looping/p1/1" in markdown
    assert chimera("audit", study).code == 1


def test_labels_changed_after_the_verdict_do_not_change_it(
    chimera: Chimera, make_rated: Callable[..., Path]
) -> None:
    study = make_rated(steps=BOTH)
    assert chimera("audit", study).code == 0
    before = (study / "audit" / "gate-record.json").read_bytes()
    with sqlite3.connect(study / "study.db") as database:
        database.execute("UPDATE ratings SET label = 0")
    database.close()
    ran = chimera("audit", study)
    assert ran.code == 2
    assert "gate-1 was used on" in ran.err
    assert (study / "audit" / "gate-record.json").read_bytes() == before


def test_gate_waits_for_its_sample_and_its_raters(
    chimera: Chimera, make_rated: Callable[..., Path]
) -> None:
    sampled = ('raters = ["rules", "judge"]', 'raters = ["rules", "judge"]\nsample = 4')
    study = make_rated(sampled, steps=("rate rules",))
    assert "no gate sample has been drawn" in chimera("audit", study).err
    drawn = chimera("rate", "sample", study, "--for", "gate", "--json")
    assert json.loads(drawn.out)["name"] == "gate-1"
    ran = chimera("audit", study)
    assert ran.code == 2
    assert "judge has not rated 4 of the 4 conversations of the gate" in ran.err
    assert not (study / "audit").exists()
    assert chimera("rate", study, "--rater", "judge", "--only", "gate-1").code == 0
    assert chimera("audit", study).code == 0


@pytest.fixture
def short_rubric(tmp_path: Path) -> Path:
    """A locked rubric with one example and no distinction, which a small model reads quickly."""
    kept = re.sub(r"(?ms)^\[\[distinctions\]\].*?(?=^\[)", "", BUILT_IN.read_text("utf-8"))
    kept = re.sub(r"(?ms)(^\[\[examples\]\].*?)^\[\[examples\]\].*?(?=^\[\[history)", r"\1", kept)
    kept = kept.replace('state = "locked"', 'state = "calibrated"\ndistinctions = []')
    path = tmp_path / "short.toml"
    path.write_text(kept, encoding="utf-8")
    assert lock_rubric(path).state == "locked"
    return path


@pytest.mark.model
@pytest.mark.slow
def test_embedded_model_rates_and_its_gate_fails(
    chimera: Chimera, make_study: MakeStudy, short_rubric: Path
) -> None:
    pytest.importorskip("openvino_genai", reason="the embedded model runs on OpenVINO GenAI")
    own = f"""
[models.small]
use = "embedded"
[rubric]
file = "../{short_rubric.name}"
[raters]
retries = 0
max_tokens = 60
[gate]
rule = "point"
raters = ["rules", "small"]
sample = 2
"""
    study = make_study(RATED, SMALL, own).path
    for step in (("lock",), ("run", "--no-watch")):
        assert chimera(step[0], study, *step[1:]).code == 0
    rated(chimera, study, "rules")
    assert chimera("rate", "sample", study, "--size", 2).code == 0
    ran = chimera("rate", study, "--rater", "small", "--only", "gate-1", "--json")
    counts = json.loads(ran.out)["tally"]
    assert (ran.code, counts["items"], counts["attempts"]) == (0, 2, 2)
    assert chimera("rate", study, "--rater", "small", "--only", "gate-1").code == 0
    assert chimera("audit", study).code == 1
    record = json.loads((study / "audit" / "gate-record.json").read_text(encoding="utf-8"))
    assert (record["verdict"], record["consequence"]["name"]) == ("failed", "descriptive")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("run STUDY --rater nobody", "unknown rater 'nobody'"),
        ("run STUDY --rater human:ann", "human:ann is a person"),
        ("run STUDY --only gate-9", "unknown sample 'gate-9'; known: none has been drawn"),
        ("run STUDY --speaker all", "leave out --speaker"),
        ("sample STUDY --size 99 --for calibration", "a sample of 99 can't be drawn from 8 items"),
        ("sample STUDY --for calibration", "needs --size"),
        ("sample STUDY --size 3", "decided on every conversation"),
        ("import STUDY nothing.csv", "Missing option '--rater'"),
        ("import STUDY nothing.csv --rater human:ann", "can't be read"),
        ("STUDY --sample 3 --export-packet x", "--sample and --export-packet can't be combined"),
        ("STUDY --adjudicate", "Missing argument 'NAME'"),
    ],
)
def test_impossible_requests_are_rejected_in_one_sentence(
    chimera: Chimera, make_rated: Callable[..., Path], arguments: str, complaint: str
) -> None:
    study = str(make_rated())
    ran = chimera("rate", *(study if word == "STUDY" else word for word in arguments.split()))
    assert ran.code == 2
    assert complaint in ran.err


# Former options of `rate`, and the subcommand that replaces each.
FORMER = {
    "STUDY --sample 2 --for calibration --by=condition --seed 3 --json": (
        "sample STUDY --seed 3 --json --size 2 --for calibration --by condition"
    ),
    "STUDY --for gate": "sample STUDY --for gate",
    "STUDY --export-packet FOLDER --seed 4": "packet STUDY --seed 4 FOLDER",
    "STUDY --rater human:ann --import-packet FOLDER/ratings.csv": (
        "import STUDY --rater human:ann FOLDER/ratings.csv"
    ),
    "STUDY --invite bob --json": "invite STUDY --json bob",
    "STUDY --invite cid --adjudicate": "invite STUDY cid --adjudicate",
    "STUDY --rater judge --attack": "attack STUDY --rater judge",
}


def test_former_options_do_the_same_and_name_their_subcommand(
    chimera: Chimera, make_rated: Callable[..., Path], tmp_path: Path
) -> None:
    study, folder = make_rated(steps=("rate rules",)), tmp_path / "packet"

    def spell(arguments: str) -> str:
        return arguments.replace("STUDY", str(study)).replace("FOLDER", str(folder))

    for former, now in FORMER.items():
        if "--import-packet" in former:
            filled(folder, lambda row: "0")
        ran = chimera("rate", *spell(former).split())
        assert (ran.code == 0) != ("--adjudicate" in former), ran.err  # no gate is decided here
        said = ran.err.replace(" --allow-code", "")
        assert f"is deprecated; use `chimera rate {spell(now)}`" in said
        assert ran.err.count("deprecated") == 1


@pytest.mark.parametrize("place", ["run", ""])
def test_study_is_rated_with_and_without_naming_the_subcommand(
    chimera: Chimera, make_rated: Callable[..., Path], place: str
) -> None:
    ran = chimera("rate", *place.split(), "--json", make_rated())
    assert (ran.code, ran.json["newly_rated"]) == (0, 8)
    assert "deprecated" not in ran.err


def test_study_is_audited_as_its_plan_says(
    chimera: Chimera, make_rated: Callable[..., Path]
) -> None:
    ran = chimera("audit", make_rated(), "--threshold", 0.1)
    assert ran.code == 2
    assert "declared in its plan: leave out --threshold" in ran.err


def test_a_second_attempt_has_its_own_sample_and_archives_the_first_record(
    chimera: Chimera, make_rated: Callable[..., Path]
) -> None:
    twice = ('raters = ["rules", "judge"]', 'raters = ["rules", "judge"]\nsample = 4\nattempts = 2')
    study = make_rated(twice, judge("contrary"), steps=BOTH)
    for _ in (1, 2):
        assert chimera("rate", "sample", study, "--for", "gate").code == 0
        assert chimera("audit", study).code == 1
    first = json.loads((study / "audit" / "attempt-1" / "gate-record.json").read_text("utf-8"))
    second = json.loads((study / "audit" / "gate-record.json").read_text("utf-8"))
    assert first["audit"]["gate"]["population"].startswith("gate-1: 4 of 8")
    assert second["audit"]["gate"]["population"].startswith("gate-2: 4 of 4")
    ran = chimera("rate", "sample", study, "--size", 4)
    assert ran.code == 2
    assert "allows 2 attempts" in ran.err


def test_calibration_samples_can_be_audited_repeatedly(
    chimera: Chimera, make_rated: Callable[..., Path]
) -> None:
    study = make_rated(steps=BOTH)
    assert chimera("rate", "sample", study, "--size", 4, "--for", "calibration").code == 0
    for _ in range(2):
        ran = chimera("audit", study, "--only", "calibration-1", "--json")
        assert (ran.code, json.loads(ran.out)["n_valid"]) == (0, 4)
    assert not (study / "audit").exists()
    assert json.loads(chimera("audit", study, "--json").out)["n_valid"] == 4
    assert "is a gate's sample" in chimera("audit", study, "--only", "gate-1").err


def test_without_a_declared_gate_raters_are_only_compared(
    chimera: Chimera, make_rated: Callable[..., Path]
) -> None:
    study = make_rated("[gate]\n", steps=("rate rules",))
    assert "agreement needs at least two raters; the study has 1" in chimera("audit", study).err
    rated(chimera, study, "judge")
    ran = chimera("audit", study, "--json")
    assert (ran.code, json.loads(ran.out)["gate"]["declared"]) == (0, False)
    assert not (study / "audit").exists()


def test_exported_ratings_give_the_same_kappa(
    chimera: Chimera, make_rated: Callable[..., Path], tmp_path: Path
) -> None:
    study = make_rated(steps=BOTH)
    other = json.loads(chimera("audit", study, "--json").out)
    assert chimera("export", study, "--format", "csv", "--out", tmp_path / "out").code == 0
    one = json.loads(chimera("audit", tmp_path / "out" / "ratings.csv", "--json").out)
    names = ("kappa", "n_valid", "clustered", "kappa_ci_bootstrap")
    assert [one[name] for name in names] == [other[name] for name in names]
    assert sorted(one["raters"]) == sorted(other["raters"])
    assert one["by_stratum"].keys() == other["by_stratum"].keys()


def filled(folder: Path, labels: Callable[[str], str]) -> Path:
    """Fill in the sheet of a packet; `labels` gives the label of each row."""
    sheet = folder / "ratings.csv"
    heading, *rows = sheet.read_text(encoding="utf-8").splitlines()
    lines = [f"{','.join(row.split(',')[:2])},{labels(row)},," for row in rows]
    sheet.write_text("\n".join([heading, *lines]), encoding="utf-8")
    return sheet


def test_person_rates_by_packet_and_the_gate_counts_it(
    chimera: Chimera, make_rated: Callable[..., Path], tmp_path: Path
) -> None:
    agreement = ("[gate]\n", '[gate]\nstatistic = "agreement"\n')
    study = make_rated(agreement, HUMAN, steps=("rate rules",))
    packet = tmp_path / "packet"
    assert chimera("rate", "packet", study, packet, "--seed", 4).code == 0
    back = ("rate", "import", "--rater", "human:ann", study)
    wrong = chimera(*back, filled(packet, lambda row: "maybe"))
    assert (wrong.code, "a label is 0, 1 or blank" in wrong.err) == (2, True)
    assert chimera("audit", study).code == 2
    ran = chimera(*back, filled(packet, lambda row: "0"))
    assert (ran.code, "1 shown twice, 1 got the same label" in ran.err) == (0, True)
    ran = chimera("audit", study, "--json")
    result = json.loads(ran.out)
    assert (ran.code, result["agreement"], result["raters"]) == (1, 0.5, ["rules", "human:ann"])
    assert len(result["disagreements"]) == 4
    assert chimera("report", study).code == 0
    shown = (study / "report" / "index.html").read_text(encoding="utf-8")
    page, methods = shown.replace("\N{NO-BREAK SPACE}", " ").split('id="methods"')
    for text in (page.split('id="reliability"')[1], methods):
        for said in (
            "rules (a program",
            "human:ann (a person)",
            "human:ann gave 1 of 1 repeated item the same label again (100.0 %, 95 %",
            "not asked of rules",
            "The detector against human:ann, 8 items: sensitivity",
            "kappa ",
        ):
            assert said.lower() in text.lower(), said
    assert "on 8 items, rated by rules" in methods
    assert chimera("verify", study).code == 0


def test_report_says_no_more_than_the_gate_allows(
    chimera: Chimera, make_rated: Callable[..., Path]
) -> None:
    study = make_rated(judge("contrary"), steps=BOTH)
    assert chimera("audit", study).code == 1
    assert chimera("report", study).code == 0
    page = (study / "report" / "index.html").read_text(encoding="utf-8")
    assert "was not met" in page
    assert "validated" not in page


def test_rater_is_attacked_from_the_command_line(
    chimera: Chimera, make_rated: Callable[..., Path]
) -> None:
    study = make_rated()
    shown = chimera("rate", "attack", study, "--rater", "judge")
    assert shown.code == 0
    for words in ("asked twice", "labels turned round", "orders 0", "pleads", "flip rate"):
        assert words in shown.out
    assert "checked on 8 conversations" in shown.out + shown.err
    told = chimera("rate", "attack", study, "--rater", "judge", "--json")
    report = json.loads(told.out)["report"]
    assert len(report["attacks"]) == 8
    assert report["position"]["flip_rate"] == 0
    retest = load_retest(Study(study), find_rater(Study(study), "judge"))
    assert retest == (8, 8 - report["undisturbed"]["flips"])
