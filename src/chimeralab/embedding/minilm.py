"""MiniLM as an OpenVINO graph built from its weights: word pieces in, unit vectors out.

One vector per text, or one per word piece for comparing statements piece by piece.
"""

from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset13 as op
from safetensors.numpy import load_file

from chimeralab import weights
from chimeralab.core.text import readable
from chimeralab.embedding.pieces import WordPieces

WIDTH = 384
HEADS = 12
LAYERS = 6
NORM_EPSILON = 1e-12

Weights = dict[str, NDArray[np.float32]]
Node = Any


def compile_minilm(weights: Path, precision: str, *, pool: bool = True) -> Any:
    """The compiled model. Its inputs are `ids` and `mask`, both (texts, pieces).

    It gives one unit vector a text, or, without pooling, one for each of its pieces.
    """
    hints = {"INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY"}
    return ov.Core().compile_model(_graph(load_file(weights), pool=pool), "CPU", hints)


def fastest_precision() -> str:
    """bf16 where this CPU computes in it, else f32."""
    capabilities = ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return "bf16" if "BF16" in capabilities else "f32"


def _graph(weights: Weights, *, pool: bool) -> Any:
    ids = op.parameter([-1, -1], ov.Type.i32, "ids")
    mask = op.parameter([-1, -1], ov.Type.f32, "mask")
    hidden = _embed(weights, ids)
    hide_padding = _multiply(op.subtract(op.unsqueeze(mask, _axes(1, 2)), _number(1)), 1e9)
    for index in range(LAYERS):
        hidden = _layer(weights, f"encoder.layer.{index}", hidden, hide_padding)
    vectors = _mean(hidden, mask) if pool else hidden
    unit = op.normalize_l2(vectors, _axes(1 if pool else 2), NORM_EPSILON, "max")
    return ov.Model([unit], [ids, mask], "all-MiniLM-L6-v2")


def _embed(weights: Weights, ids: Node) -> Node:
    piece = weights["embeddings.word_embeddings.weight"]
    # All pieces belong to the first segment, so its vector is part of every position.
    place = (
        weights["embeddings.position_embeddings.weight"]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    length = op.gather(op.shape_of(ids), _index(1), _index(0))
    positions = op.range(_index(0), length, _index(1), output_type="i64")
    summed = op.add(_rows(piece, ids), _rows(place, positions))
    return _layer_norm(weights, "embeddings.LayerNorm", summed)


def _layer(weights: Weights, name: str, hidden: Node, hide_padding: Node) -> Node:
    linear, norm = partial(_linear, weights), partial(_layer_norm, weights)
    query, key, value = (
        _split_heads(linear(f"{name}.attention.self.{part}", hidden))
        for part in ("query", "key", "value")
    )
    seen = _join_heads(op.scaled_dot_product_attention(query, key, value, hide_padding))
    seen = linear(f"{name}.attention.output.dense", seen)
    hidden = norm(f"{name}.attention.output.LayerNorm", op.add(hidden, seen))
    wide = op.gelu(linear(f"{name}.intermediate.dense", hidden), "erf")
    narrow = linear(f"{name}.output.dense", wide)
    return norm(f"{name}.output.LayerNorm", op.add(hidden, narrow))


def _linear(weights: Weights, name: str, x: Node) -> Node:
    product = op.matmul(x, op.constant(weights[f"{name}.weight"]), False, True)
    return op.add(product, op.constant(weights[f"{name}.bias"]))


def _layer_norm(weights: Weights, name: str, x: Node) -> Node:
    scaled = op.mvn(x, _axes(-1), True, NORM_EPSILON, "inside_sqrt")
    scaled = op.multiply(scaled, op.constant(weights[f"{name}.weight"]))
    return op.add(scaled, op.constant(weights[f"{name}.bias"]))


def _split_heads(x: Node) -> Node:
    return op.transpose(op.reshape(x, _axes(0, 0, HEADS, WIDTH // HEADS), True), _axes(0, 2, 1, 3))


def _join_heads(x: Node) -> Node:
    return op.reshape(op.transpose(x, _axes(0, 2, 1, 3)), _axes(0, 0, WIDTH), True)


def _mean(hidden: Node, mask: Node) -> Node:
    mask = op.unsqueeze(mask, _axes(2))
    total = op.reduce_sum(op.multiply(hidden, mask), _axes(1))
    return op.divide(total, op.reduce_sum(mask, _axes(1)))


def _rows(table: NDArray[np.float32], indices: Node) -> Node:
    return op.gather(op.constant(table), indices, _index(0))


def _axes(*values: int) -> Node:
    return op.constant(np.array(values, dtype=np.int64))


def _index(value: int) -> Node:
    return op.constant(np.int64(value))


def _number(value: float) -> Node:
    return op.constant(np.float32(value))


def _multiply(x: Node, factor: float) -> Node:
    return op.multiply(x, _number(factor))


REMEMBERED_TEXTS = 4_096

TokenVectors = NDArray[np.float32]


class TokenEncoder:
    """MiniLM before it pools: unit vectors of the pieces, without [CLS] and [SEP].

    Texts are computed in f32 and one by one, so that a vector depends on nothing but its text.
    """

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or weights.ensure("minilm")
        self._words = WordPieces(folder / "tokenizer.json")
        self._model = compile_minilm(folder / "model.safetensors", "f32", pool=False)
        self.encode = lru_cache(REMEMBERED_TEXTS)(self._encode)

    def _encode(self, text: str) -> TokenVectors:
        [pieces] = self._words.split([readable(text)])
        ids = np.array([pieces.ids], dtype=np.int32)
        vectors = self._model([ids, np.ones(ids.shape, dtype=np.float32)])[0][0, 1:-1]
        return np.array(vectors, dtype=np.float32)


@cache
def default_token_encoder() -> TokenEncoder:
    """The one that a process shares, with the weights from the user's cache."""
    return TokenEncoder()
