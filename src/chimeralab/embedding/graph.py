"""MiniLM as an OpenVINO graph built from its weights: word pieces in, unit vectors out."""

from collections.abc import Sequence
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset13 as op

from chimeralab.embedding.minilm import HEADS, LAYERS, MARGINS, WIDTH, places
from chimeralab.embedding.pieces import grouped
from chimeralab.weights.tensors import Tensors

NORM_EPSILON = 1e-12
# Batches above this many pieces run no faster and fall out of the CPU's caches.
PIECES_AT_ONCE = 2_048

Node = Any


class Graph:
    """The compiled graph in one precision."""

    def __init__(self, tensors: Tensors, precision: str) -> None:
        hints = {"INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY"}
        self._model = ov.Core().compile_model(_graph(tensors), "CPU", hints)
        self._one_request = Lock()  # OpenVINO refuses a second one while it computes
        self.precision = precision
        self.margin = MARGINS[precision]

    def __call__(self, texts: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """One unit vector per text."""
        vectors = np.empty((len(texts), WIDTH), dtype=np.float32)
        for group in grouped(texts, PIECES_AT_ONCE):
            padded = _padded([texts[index] for index in group])
            with self._one_request:
                vectors[group] = self._model(padded)[0]
        return vectors


def _padded(texts: Sequence[Sequence[int]]) -> list[NDArray[Any]]:
    shape = (len(texts), max(map(len, texts)))
    ids, mask = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.float32)
    for row, pieces in enumerate(texts):
        ids[row, : len(pieces)] = pieces
        mask[row, : len(pieces)] = 1
    return [ids, mask]


def computes_in_bf16() -> bool:
    """Whether this CPU does."""
    return "BF16" in ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def _graph(tensors: Tensors) -> Any:
    ids = op.parameter([-1, -1], ov.Type.i32, "ids")
    mask = op.parameter([-1, -1], ov.Type.f32, "mask")
    hidden = _embed(tensors, ids)
    hide_padding = _multiply(op.subtract(op.unsqueeze(mask, _axes(1, 2)), _number(1)), 1e9)
    for index in range(LAYERS):
        hidden = _layer(tensors, f"encoder.layer.{index}", hidden, hide_padding)
    unit = op.normalize_l2(_mean(hidden, mask), _axes(1), NORM_EPSILON, "max")
    return ov.Model([unit], [ids, mask], "all-MiniLM-L6-v2")


def _embed(tensors: Tensors, ids: Node) -> Node:
    piece = tensors["embeddings.word_embeddings.weight"]
    length = op.gather(op.shape_of(ids), _index(1), _index(0))
    positions = op.range(_index(0), length, _index(1), output_type="i64")
    summed = op.add(_rows(piece, ids), _rows(places(tensors), positions))
    return _layer_norm(tensors, "embeddings.LayerNorm", summed)


def _layer(tensors: Tensors, name: str, hidden: Node, hide_padding: Node) -> Node:
    linear, norm = partial(_linear, tensors), partial(_layer_norm, tensors)
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


def _linear(tensors: Tensors, name: str, x: Node) -> Node:
    product = op.matmul(x, op.constant(tensors[f"{name}.weight"]), False, True)
    return op.add(product, op.constant(tensors[f"{name}.bias"]))


def _layer_norm(tensors: Tensors, name: str, x: Node) -> Node:
    scaled = op.mvn(x, _axes(-1), True, NORM_EPSILON, "inside_sqrt")
    scaled = op.multiply(scaled, op.constant(tensors[f"{name}.weight"]))
    return op.add(scaled, op.constant(tensors[f"{name}.bias"]))


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
