"""Reading the metadata of GGUF files."""

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimeralab import weights
from chimeralab.core.errors import WeightsError
from chimeralab.models.engine import read_gguf

TOKENS = st.lists(st.tuples(st.text(max_size=8), st.sampled_from([1, 3, 6])), max_size=20)


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(name: str, kind: int, data: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + data


def array(kind: int, items: list[bytes]) -> bytes:
    return struct.pack("<IQ", kind, len(items)) + b"".join(items)


def gguf(context: int, tokens: list[tuple[str, int]]) -> bytes:
    """A GGUF header, following its specification."""
    entries = [
        entry("general.architecture", 8, text("llama")),
        entry("general.scale", 6, struct.pack("<f", 0.5)),
        entry("llama.context_length", 4, struct.pack("<I", context)),
        entry("tokenizer.ggml.tokens", 9, array(8, [text(token) for token, _ in tokens])),
        entry("tokenizer.ggml.token_type", 9, array(5, [struct.pack("<i", k) for _, k in tokens])),
    ]
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries) + b"weights"


@given(context=st.integers(1, 2**32 - 1), tokens=TOKENS)
def test_gguf_metadata_is_read(
    tmp_path_factory: Any, context: int, tokens: list[tuple[str, int]]
) -> None:
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    path.write_bytes(gguf(context, tokens))
    context_tokens, control_tokens = read_gguf(path)
    assert context_tokens == context
    assert control_tokens == tuple(token for token, kind in tokens if kind == 3)


@pytest.mark.parametrize("length", [0, 3, 10, 30, 100])
def test_cut_file_is_refused_by_name(tmp_path: Path, length: int) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(gguf(8192, [("a", 1)])[:length])
    with pytest.raises(WeightsError, match=r"cut\.gguf can't be read"):
        read_gguf(path)


def test_other_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(b"PK\x03\x04" * 20)
    with pytest.raises(WeightsError, match="does not start with GGUF"):
        read_gguf(path)


@pytest.mark.model
def test_smollm2_reads_8192_tokens() -> None:
    (file,) = weights.MODELS["smollm2"].files
    context_tokens, control_tokens = read_gguf(weights.ensure("smollm2") / file.name)
    assert context_tokens == 8192
    assert {"<|im_start|>", "<|im_end|>"} <= set(control_tokens)
