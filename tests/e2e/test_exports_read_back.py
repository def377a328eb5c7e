"""What `export` writes, other commands read, with the numbers of the study itself."""

import csv
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chimeralab.study import Study
from chimeralab.study.export import TABLES, export_study
from chimeralab.trial.trials import TrialLog
from tests.e2e.test_gate import BOTH, GATED
from tests.plans import LOOPERS, changed, trial
from tests.studies import DETECTED, RUN, rows

FORMATS = ("csv", "jsonl", "parquet")
# Two subjects, years among the answers, private answers, and weights of its own.
DESIGN = """
[models.p]
use = "subject"
[models.q]
use = "subject"
conformity = 0.6
[trial]
subjects = ["p", "q"]
each = ["amnesia", "conformity"]
countermeasures = ["ledger"]
[metrics]
mci = [0.5, 0.25, 0.25]
[[outcomes.primary]]
measure = "dfs"
arm = "conformity"
"""
TWO_SUBJECTS = changed(trial(design='each = ["amnesia"]', number=5), DESIGN)


@pytest.fixture
def done(make_study) -> Study:
    return make_study(TWO_SUBJECTS, steps=RUN)


@pytest.fixture
def cut_short(done) -> Study:
    """The trial with a session that did not get to its end."""
    with sqlite3.connect(done.store_path) as db:
        db.execute("UPDATE trajectories SET outcome = 'overflow' WHERE id = 'p.sham/ledger-2/1'")
    return done


@pytest.fixture
def exported(tmp_path, chimera) -> Callable[[Study, str], Path]:
    """Exports a study in a format, into a folder of its own."""

    def export(study: Study, kind: str) -> Path:
        folder: Path = tmp_path / f"tables-{study.path.name}-{kind}"
        assert chimera("export", study.path, "--format", kind, "--out", folder).code == 0
        return folder

    return export


def uncorrected(found: Any) -> Any:
    """Everything but the p-values that are corrected for the other comparisons."""
    if isinstance(found, dict):
        return {name: uncorrected(each) for name, each in found.items() if name != "p_holm"}
    return [uncorrected(each) for each in found] if isinstance(found, list) else found


def without(found: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in names}


@pytest.mark.parametrize("kind", FORMATS)
def test_exported_trials_are_the_stored_ones(done, exported, kind):
    read = list(TrialLog(exported(done, kind) / f"trials.{kind}").read())
    # The doses of arms stand in the plan and in the table of outcomes.
    assert read == [replace(row, dose=None) for row in rows(done)]
    assert any(row.alone for row in read)
    assert any(str(row.response).isdigit() for row in read)


@pytest.mark.parametrize("kind", FORMATS)
def test_measure_gives_the_numbers_of_the_study(done, exported, chimera, kind):
    of_study = chimera("measure", done.path, "--by", "arm", "--json").json
    of_table = chimera("measure", exported(done, kind) / f"trials.{kind}", "--by", "arm", "--json")
    assert of_table.code == 0, of_table.err
    assert without(of_table.json, "source") == without(of_study, "source")
    assert of_study["dfs"]["pairs"] > 0
    assert of_study["weights"]["mci"] == [0.5, 0.25, 0.25]


@pytest.mark.parametrize("kind", FORMATS)
def test_analyse_gives_the_numbers_of_the_study(cut_short, exported, chimera, kind):
    of_study = chimera("analyse", cut_short.path, "--json").json
    of_table = chimera("analyse", exported(cut_short, kind) / f"trials.{kind}", "--json")
    assert of_table.code == 0, of_table.err
    assert without(of_table.json, "source") == without(of_study, "source")
    assert of_study["left_out"] == [{"arm": "p.sham", "reason": "overflow", "sessions": 1}]
    assert of_study["subjects"][0]["countermeasures"]


@pytest.mark.parametrize("kind", FORMATS)
def test_compare_gives_the_numbers_of_the_studies(make_study, done, exported, chimera, kind):
    other = make_study(TWO_SUBJECTS, ("conformity = 0.6", "conformity = 0.0"), steps=RUN, name="b")
    of_studies = chimera("compare", done.path, other.path, "--json").json
    tables = (exported(study, kind) / f"trials.{kind}" for study in (done, other))
    of_tables = chimera("compare", *tables, "--json")
    assert of_tables.code == 0, of_tables.err
    assert without(of_tables.json, "a", "b") == without(of_studies, "a", "b")
    found = {(each["name"], each["measure"]): each for each in of_studies["effects"]}
    changed_arm = found["q.conformity [first] − q.conformity [second]", "toward_signal"]
    assert changed_arm["estimate"] > 0.3
    assert changed_arm["interval"][0] > 0
    same_arm = found["p.conformity [first] − p.conformity [second]", "toward_signal"]
    assert same_arm["estimate"] == 0


def test_compare_of_trials_prints_measures_and_says_nothing_of_collapse(done, chimera):
    ran = chimera("compare", done.path, done.path)
    assert ran.code == 0
    assert "collapse" not in ran.out + ran.err
    assert "q.conformity [first] −" in " ".join(ran.out.split())
    assert "Scenarios with the same names" in ran.out
    refused = chimera("compare", done.path, done.path, "--separate")
    assert refused.code == 2
    assert "--separate is for self-play" in refused.err


def test_compare_of_a_trial_and_self_play_is_refused(make_study, done, chimera):
    talks = make_study(LOOPERS, steps=DETECTED, name="talks")
    ran = chimera("compare", done.path, talks.path)
    assert ran.code == 2
    assert "is a trial" in ran.err


def test_analyse_of_trials_without_their_plan_says_what_is_missing(done, exported, chimera):
    folder = exported(done, "csv")
    (folder / "plan.toml").unlink()
    ran = chimera("analyse", folder / "trials.csv")
    assert ran.code == 2
    assert "needs the plan of the trial" in ran.err
    # The metrics need none, and have the published weights.
    found = chimera("measure", folder / "trials.csv", "--json")
    assert found.json["weights"]["mci"] == [0.4, 0.3, 0.3]


def test_analyse_of_the_outcomes_of_a_trial_points_to_its_trials(done, exported, chimera):
    ran = chimera("analyse", exported(done, "csv") / "outcomes.csv")
    assert ran.code == 2
    assert "trials.csv" in ran.err


def test_answers_that_look_like_formulas_come_back_as_they_were(done, tmp_path):
    with sqlite3.connect(done.store_path) as db:
        db.execute("UPDATE trials SET response = '=1+1', alone = '''-2' WHERE trial = 1")
        db.execute("UPDATE trials SET response = '-3', truth = '-3' WHERE trial = 2")
    export_study(done, "csv", tmp_path / "out")
    with (tmp_path / "out" / "trials.csv").open(newline="") as file:
        cells = {cell for row in csv.DictReader(file) for cell in row.values()}
    assert not any(cell.startswith(("=", "-")) for cell in cells)
    read = list(TrialLog(tmp_path / "out" / "trials.csv").read())
    assert read == [replace(row, dose=None) for row in rows(done)]


def test_damaged_cell_of_an_export_is_named_with_its_line(done, exported, chimera):
    path = exported(done, "csv") / "trials.csv"
    lines = path.read_text().splitlines()
    place = lines[0].split(",").index("confidence")
    cells = lines[1].split(",")
    cells[place] = "1.2"
    path.write_text("\n".join([lines[0], ",".join(cells), *lines[2:]]) + "\n")
    ran = chimera("measure", path)
    assert ran.code == 2
    assert "trials.csv, line 2: confidence must be between 0 and 1, not '1.2'" in ran.err


@pytest.mark.parametrize("kind", FORMATS)
def test_outcomes_of_self_play_analyse_to_the_numbers_of_the_study(
    make_study, exported, chimera, kind
):
    study = make_study(LOOPERS, steps=DETECTED)
    numbers = ("--resamples", 200, "--permutations", 200, "--json")
    of_study = chimera("analyse", study.path, *numbers).json
    of_table = chimera("analyse", exported(study, kind) / f"outcomes.{kind}", *numbers)
    assert of_table.code == 0, of_table.err
    # A table declares no outcomes, so that nothing in it is primary and corrected by itself.
    asked = ("source", "lock", "answers", "notes")
    assert uncorrected(without(of_table.json, *asked)) == uncorrected(without(of_study, *asked))
    assert of_study["measures"]["share"]["pairs"]


@pytest.mark.parametrize("kind", FORMATS)
def test_outcomes_of_self_play_compare_like_the_studies(make_study, exported, chimera, kind):
    study = make_study(LOOPERS, steps=DETECTED)
    other = make_study(LOOPERS, ("soonest = 8", "soonest = 4"), steps=DETECTED, name="b")
    numbers = ("--resamples", 200, "--permutations", 200, "--json")
    of_studies = chimera("compare", study.path, other.path, *numbers).json
    tables = []
    for each in (study, other):
        # A table is named after its file, as a study after its folder.
        path = exported(each, kind) / f"outcomes.{kind}"
        tables.append(path.rename(path.with_stem(each.path.name)))
    of_tables = chimera("compare", *tables, *numbers)
    assert of_tables.code == 0, of_tables.err
    assert without(of_tables.json, "a", "b") == without(of_studies, "a", "b")


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("of", ["trials", "outcomes"])
def test_every_other_exported_table_points_to_the_one_that_is_read(
    make_study, exported, chimera, kind, of
):
    plan = (TWO_SUBJECTS, RUN) if of == "trials" else (LOOPERS, DETECTED)
    study = make_study(plan[0], steps=plan[1])
    folder = exported(study, kind)
    others = [path for path in folder.glob(f"*.{kind}") if path.stem != of]
    assert {path.stem for path in others} >= ({"trajectories"} if kind == "jsonl" else {*TABLES})
    for path in others:
        commands = [("analyse", path), ("compare", path, path)]
        for command in commands + ([("measure", path)] if of == "trials" else []):
            ran = chimera(*command)
            assert ran.code == 2, command
            assert f"give{folder / of}.{kind}" in "".join(ran.err.split()), command
    if kind != "jsonl":
        ran = chimera("audit", folder / f"turns.{kind}")
        assert (ran.code, f"ratings.{kind}" in ran.err) == (2, True)


# A rater that sees more loops than the rules do.
EAGER = (
    ("item.texts[-3:])) == 1", "item.texts[-3:])) == 1 or sum(map(len, item.texts)) % 3 == 0"),
    ('raters = ["rules", "mine"]', 'raters = ["mine", "rules"]'),
    ("sample = 24", "sample = 32"),
)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_audit_of_the_ratings_gives_the_numbers_of_the_study(make_study, exported, chimera, kind):
    study = make_study(GATED, *EAGER, steps=(*BOTH, "draw", "audit"))
    of_study = chimera("audit", study.path, "--json").json
    path = exported(study, kind) / f"ratings.{kind}"
    of_table = chimera("audit", path, "--json").json
    for found in (of_study, of_table):  # in the order of the sample, or of the table
        found["disagreements"].sort(key=lambda each: each["item"])
    of_gate = ("sample", "validity", "revisions", "outcome", "validated", "gate")
    assert without(of_table, "gate") == without(of_study, *of_gate)
    assert 0 < of_study["kappa"] < 1
