"""A vector for every word piece of a text, for comparing statements piece by piece."""

from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset13 as op
from safetensors.numpy import load_file

from chimeralab.embedding import minilm, weights
from chimeralab.embedding.pieces import WordPieces, readable

REMEMBERED_TEXTS = 4_096

TokenVectors = NDArray[np.float32]


class TokenEncoder:
    """MiniLM before it pools: unit vectors of the pieces, without [CLS] and [SEP].

    Texts are computed in f32 and one by one, so that a vector depends on nothing but its text.
    """

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or weights.ensure("minilm")
        self._words = WordPieces(folder / "tokenizer.json")
        self._model = _compiled(folder / "model.safetensors")
        self.encode = lru_cache(REMEMBERED_TEXTS)(self._encode)

    def _encode(self, text: str) -> TokenVectors:
        [pieces] = self._words.split([readable(text)])
        vectors = self._model(np.array([pieces.ids], dtype=np.int32))[0][0, 1:-1]
        return np.array(vectors, dtype=np.float32)


@cache
def default_token_encoder() -> TokenEncoder:
    """The one that a process shares, with the weights from the user's cache."""
    return TokenEncoder()


def _compiled(path: Path) -> Any:
    hints = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    return ov.Core().compile_model(_graph(load_file(path)), "CPU", hints)


def _graph(parts: minilm.Weights) -> Any:
    ids = op.parameter([1, -1], ov.Type.i32, "ids")
    # One text at a time has no padding to hide.
    nothing_hidden = op.constant(np.zeros((1, 1, 1, 1), dtype=np.float32))
    hidden = minilm._embed(parts, ids)
    for index in range(minilm.LAYERS):
        hidden = minilm._layer(parts, f"encoder.layer.{index}", hidden, nothing_hidden)
    unit = op.normalize_l2(hidden, minilm._axes(2), minilm.NORM_EPSILON, "max")
    return ov.Model([unit], [ids], "all-MiniLM-L6-v2 pieces")
