"""The copy of a store in a bundle: complete, read-only, and without sealed labels."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from chimeralab import pipeline
from chimeralab.core.errors import InputError
from chimeralab.study import RunOptions, Study, run_study
from chimeralab.study.database import MANIFEST
from chimeralab.study.export import copy_records
from tests.plans import SELFPLAY
from tests.studies import DETECTED


@pytest.fixture
def rated(make_study):
    gated = """
[conversation]
turns = 6
[detector]
use = "loops"
[gate]
raters = ["rules", "human:ann"]
threshold = 0.5
"""
    return make_study(SELFPLAY, gated, steps=(*DETECTED, "rate rules"))


def copied(study, folder):
    folder.mkdir()
    for name in ("plan.toml", "plan.lock"):
        shutil.copyfile(study.path / name, folder / name)
    (folder / MANIFEST).touch()
    gone = copy_records(study, folder / "study.db")
    return Study(folder), gone


def test_copy_without_sealed_labels_still_verifies(rated, tmp_path):
    with rated.archive() as archive:
        said = [row["reason"] for row in archive.rows("SELECT reason FROM ratings")]
    copy, gone = copied(rated, tmp_path / "copy")
    assert gone == len(said) == 4
    content = copy.store_path.read_bytes()
    assert not [reason for reason in said if reason and reason.encode() in content]
    shutil.copytree(rated.path / "steps", copy.path / "steps")
    found = pipeline.verify(copy)
    assert (found.findings, found.root) == ((), pipeline.verify(rated).root)
    assert any("without 4 labels and packets" in note for note in found.notes)


def test_only_what_a_copy_withholds_may_be_missing(rated, tmp_path):
    copy, _ = copied(rated, tmp_path / "copy")
    with closing(sqlite3.connect(copy.store_path)) as db, db:
        db.execute("DELETE FROM withheld WHERE rowid = 1")
    assert [each for each in pipeline.verify(copy).findings if "deleted" in each.problem]
    # A study is not a copy, whatever its store claims.
    with closing(sqlite3.connect(rated.store_path)) as db, db:
        [(key, talk)] = db.execute(
            "SELECT key, json_extract(key, '$[0]') FROM chain WHERE kind = 'ratings' LIMIT 1"
        )
        db.execute("CREATE TABLE withheld (kind, key)")
        db.execute("INSERT INTO withheld VALUES ('ratings', ?)", [key])
        db.execute("DELETE FROM ratings WHERE trajectory = ?", [talk])
    assert [each for each in pipeline.verify(rated).findings if "deleted" in each.problem]


def test_copy_is_read_only_and_reading_leaves_no_files(rated, tmp_path):
    copy, _ = copied(rated, tmp_path / "copy")
    before = copy.store_path.read_bytes()
    with pytest.raises(InputError, match="use the study it was made from"):
        run_study(copy, RunOptions(watch=False))
    assert len(list(copy.trajectories())) == 4
    pipeline.verify(copy)
    assert copy.store_path.read_bytes() == before
    names = {path.name for path in copy.path.iterdir()} - {".running"}
    assert names == {"plan.toml", "plan.lock", "study.db", MANIFEST}


def test_two_copies_of_the_same_records_are_the_same_file(rated, tmp_path):
    first, _ = copied(rated, tmp_path / "first")
    second, _ = copied(rated, tmp_path / "second")
    assert first.store_path.read_bytes() == second.store_path.read_bytes()
