"""Reading safetensors files, and errors for broken ones."""

import json
from pathlib import Path

import numpy as np
import pytest

from chimeralab.core.errors import InputError
from chimeralab.weights.tensors import read_tensors


def written(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    """Write the published format: a length, a JSON header, the data."""
    table: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, array in arrays.items():
        kind = {"float32": "F32", "int64": "I64"}[str(array.dtype)]
        offsets = [len(data), len(data) + array.nbytes]
        table[name] = {"dtype": kind, "shape": array.shape, "data_offsets": offsets}
        data += array.tobytes()
    head = json.dumps(table).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + data)
    return path


def test_f32_arrays_are_read_and_others_ignored(tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)
    kept = {"a": numbers, "places": np.arange(4), "b.c": numbers[0]}
    found = read_tensors(written(tmp_path / "x.safetensors", kept))
    assert list(found) == ["a", "b.c"]
    np.testing.assert_array_equal(found["a"], numbers)
    np.testing.assert_array_equal(found["b.c"], numbers[0])
    with pytest.raises(ValueError, match="read-only"):
        found["a"][0, 0] = 1


@pytest.mark.parametrize("content", [b"{}", b"\x02" + 7 * b"\0" + b"[]", b"\xff" * 64])
def test_a_file_of_another_kind_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"x\.safetensors is not a safetensors file"):
        read_tensors(path)


def test_truncated_file_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "x.safetensors", {"a": np.ones((4, 4), dtype=np.float32)})
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InputError, match="is not a safetensors file"):
        read_tensors(path)


def test_released_pages_are_read_again_on_use(tmp_path: Path) -> None:
    numbers = np.arange(50_000, dtype=np.float32)
    found = read_tensors(written(tmp_path / "x.safetensors", {"a": numbers}))
    np.testing.assert_array_equal(found["a"], numbers)
    found.release_pages()
    np.testing.assert_array_equal(found["a"], numbers)
