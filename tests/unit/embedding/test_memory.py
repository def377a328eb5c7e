"""Vectors are cached by text, separately for each model and precision."""

from pathlib import Path

import numpy as np
import pytest

from chimeralab.core.errors import InputError
from chimeralab.embedding.encoder import RecentVectors, VectorFile, text_key

ONE = np.ones(384, dtype=np.float32)


def test_recent_vectors_evict_the_oldest() -> None:
    memory = RecentVectors(capacity=2)
    memory.remember({b"a": ONE, b"b": ONE * 2})
    memory.remember({b"c": ONE * 3})
    found = memory.recall([b"a", b"b", b"c"])
    assert {key: vector[0] for key, vector in found.items()} == {b"b": 2, b"c": 3}


def test_recalled_vectors_are_not_overwritten() -> None:
    memory = RecentVectors(capacity=1)
    memory.remember({b"a": ONE})
    recalled = memory.recall([b"a"])[b"a"]
    memory.remember({b"b": ONE * 2})
    assert (recalled == 1).all()


def test_vector_file_persists_across_runs(tmp_path: Path) -> None:
    VectorFile(tmp_path / "v.db", "model/f32").remember({text_key("hi"): ONE * 0.5})
    again = VectorFile(tmp_path / "v.db", "model/f32")
    np.testing.assert_array_equal(again.recall([text_key("hi")])[text_key("hi")], ONE * 0.5)


def test_precisions_have_separate_spaces(tmp_path: Path) -> None:
    VectorFile(tmp_path / "v.db", "model/int16").remember({b"k": ONE})
    assert VectorFile(tmp_path / "v.db", "model/exact").recall([b"k"]) == {}


def test_cache_that_is_not_a_database_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "v.db"
    broken.write_bytes(b"not a database " * 100)
    with pytest.raises(InputError, match=r"vector cache .*v\.db can't be used"):
        VectorFile(broken, "model/f32")


def test_cache_path_that_cannot_exist_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="pass a writable file with --cache"):
        VectorFile(tmp_path / "file" / "v.db", "model/f32")
