"""Exports are complete, readable, and safe in a spreadsheet."""

import csv
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from chimeralab import pipeline, readers
from chimeralab.analysis import analyse, runs_of
from chimeralab.core.errors import InputError
from chimeralab.selfplay.analysis import as_json
from chimeralab.selfplay.runs import read_runs
from chimeralab.study.export import TABLES, export_study
from chimeralab.study.verdicts import load_detections
from tests.plans import LOOPERS, SCRIPTED, trial
from tests.studies import DETECTED


@pytest.fixture
def done(make_study):
    model = '[models.echo]\nuse = "scripted:Script"\nword = "=1+1"\nrevision = "abc"\n'
    return make_study(SCRIPTED, model, steps=("run",))


def test_exported_json_lines_read_back_as_the_conversations(done, tmp_path):
    (path, _) = export_study(done, "jsonl", tmp_path / "out")
    read = list(readers.read_all([path]))
    stored = list(done.trajectories())
    assert [t.id for t in read] == [t.id for t in stored]
    assert [t.turns for t in read] == [t.turns for t in stored]
    assert read[0].metadata["condition"] == stored[0].metadata["condition"]


def test_parquet_holds_every_turn_with_its_text(done, tmp_path):
    paths = {path.stem: path for path in export_study(done, "parquet", tmp_path / "out")}
    assert set(paths) == {*TABLES, "outcomes"}
    turns = pq.read_table(paths["turns"]).to_pylist()
    assert len(turns) == 48
    assert turns[0]["text"].startswith("=1+1 1 of ")
    assert turns[0]["reported_model"] == "script-1"
    assert (turns[0]["declared_revision"], turns[0]["revision_verified"]) == ("abc", False)
    assert turns[0]["completion_tokens"] == 5
    assert pq.read_table(paths["attempts"]).num_rows == 48


def test_csv_cells_cannot_be_formulas(done, tmp_path):
    export_study(done, "csv", tmp_path / "out")
    with (tmp_path / "out" / "turns.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(row["text"].startswith("'=1+1") for row in rows)
    assert len(rows) == 48


def test_exporting_again_replaces_what_was_there(done, tmp_path):
    (path, _) = export_study(done, "jsonl", tmp_path / "out")
    before = path.read_bytes()
    export_study(done, "jsonl", tmp_path / "out")
    assert path.read_bytes() == before
    assert sorted(item.name for item in (tmp_path / "out").iterdir()) == [
        "outcomes.jsonl",
        "trajectories.jsonl",
    ]


def test_folder_that_cannot_be_created_is_named(done, tmp_path):
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(InputError, match="out can't be created"):
        export_study(done, "jsonl", tmp_path / "out")


def test_every_column_of_a_table_is_filled_somewhere(done, tmp_path):
    (path, _) = export_study(done, "jsonl", tmp_path / "out")
    first = json.loads(path.read_text().splitlines()[0])
    assert {"id", "turns", "condition", "prompt", "bucket", "repeat", "outcome"} <= set(first)
    columns = {"trajectory", "condition", "turn", "speaker", "model", "seed", "hash", "seconds"}
    export_study(done, "parquet", tmp_path / "out")
    turns = pq.read_table(tmp_path / "out" / "turns.parquet").to_pylist()
    assert all(row[column] is not None for row in turns for column in columns)


def test_the_outcomes_of_every_format_analyse_to_the_numbers_of_the_study(make_study, tmp_path):
    study = make_study(LOOPERS, '[detector]\nuse = "loops"\n', steps=DETECTED)
    detections = list(load_detections(study))
    from_study = as_json(analyse(runs_of(detections, ""), study.plan.extras["outcomes"]))
    for kind in ("csv", "jsonl", "parquet"):
        *_, outcomes = export_study(study, kind, tmp_path / "out")
        assert outcomes.name == f"outcomes.{kind}"
        from_table = as_json(analyse(read_runs(outcomes), study.plan.extras["outcomes"]))
        assert from_table | {"source": ""} == from_study
    assert any(found["recovered_runs"] is not None for found in from_table["after_onset"].values())


def test_the_outcomes_of_a_trial_are_the_measures_of_its_whole_sessions(make_study, tmp_path):
    study = make_study(trial(number=2), steps=("run",))
    *_, outcomes = export_study(study, "parquet", tmp_path / "out")
    rows = pq.read_table(outcomes).to_pylist()
    assert {row["trajectory"] for row in rows} == {talk.id for talk in study.talks}
    for subject in pipeline.analyse_trial(study).subjects:
        for arm in subject.arms:
            values = [
                row["value"]
                for row in rows
                if row["condition"] == arm.arm
                and row["measure"] == "accuracy"
                and row["value"] is not None
            ]
            assert np.mean(values) == pytest.approx(arm.measures["accuracy"].value)
