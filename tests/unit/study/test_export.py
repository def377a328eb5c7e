"""Records for other tools: complete, readable, and harmless in a spreadsheet."""

import csv
import json

import pyarrow.parquet as pq
import pytest

from chimeralab import readers
from chimeralab.core.errors import InputError
from chimeralab.study import run_study
from chimeralab.study.export import TABLES, export_study


@pytest.fixture
def done(make_study):
    study = make_study(
        ('use = "scripted:Script"', 'use = "scripted:Script"\nword = "=1+1"\nrevision = "abc"')
    )
    run_study(study)
    return study


def test_json_lines_are_the_conversations_as_our_reader_reads_them(done, tmp_path):
    (path,) = export_study(done, "jsonl", tmp_path / "out")
    read = list(readers.read_all([path]))
    stored = list(done.trajectories())
    assert [t.id for t in read] == [t.id for t in stored]
    assert [t.turns for t in read] == [t.turns for t in stored]
    assert read[0].metadata["condition"] == stored[0].metadata["condition"]


def test_parquet_holds_every_turn_with_its_text(done, tmp_path):
    paths = {path.stem: path for path in export_study(done, "parquet", tmp_path / "out")}
    assert set(paths) == set(TABLES)
    turns = pq.read_table(paths["turns"]).to_pylist()
    assert len(turns) == 48
    assert turns[0]["text"].startswith("=1+1 1 of ")
    assert turns[0]["reported_model"] == "script-1"
    assert (turns[0]["declared_revision"], turns[0]["revision_verified"]) == ("abc", False)
    assert turns[0]["completion_tokens"] == 5
    assert pq.read_table(paths["attempts"]).num_rows == 48


def test_csv_is_guarded_against_formulas(done, tmp_path):
    export_study(done, "csv", tmp_path / "out")
    with (tmp_path / "out" / "turns.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(row["text"].startswith("'=1+1") for row in rows)
    assert len(rows) == 48


def test_exporting_again_replaces_what_was_there(done, tmp_path):
    (path,) = export_study(done, "jsonl", tmp_path / "out")
    before = path.read_bytes()
    export_study(done, "jsonl", tmp_path / "out")
    assert path.read_bytes() == before
    assert [item.name for item in (tmp_path / "out").iterdir()] == ["trajectories.jsonl"]


def test_a_folder_that_can_not_be_made_is_named(done, tmp_path):
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(InputError, match="out can't be made"):
        export_study(done, "jsonl", tmp_path / "out")


def test_every_column_of_a_table_is_filled_somewhere(done, tmp_path):
    (path,) = export_study(done, "jsonl", tmp_path / "out")
    first = json.loads(path.read_text().splitlines()[0])
    assert {"id", "turns", "condition", "prompt", "bucket", "repeat", "outcome"} <= set(first)
    columns = {"trajectory", "condition", "turn", "speaker", "model", "seed", "hash", "seconds"}
    export_study(done, "parquet", tmp_path / "out")
    turns = pq.read_table(tmp_path / "out" / "turns.parquet").to_pylist()
    assert all(row[column] is not None for row in turns for column in columns)
