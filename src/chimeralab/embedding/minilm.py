"""MiniLM in numpy f32, the reference for faster networks: text to word pieces to vectors.

The pieces of all texts are rows of one table, so that a layer is one product over all of them; only
attention works text by text.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from chimeralab.embedding.workers import blas_is_single_threaded, on_all_cores
from chimeralab.weights.tensors import Tensors

WIDTH = 384
HEADS = 12
LAYERS = 6
NORM_EPSILON = np.float32(1e-12)

# Bounds of the error of a similarity, by the precision of the vectors. In int16 the largest error
# of 141,706 real lag similarities was 0.00044; in f32, rounding depends on the rows of a product.
MARGINS = {"int16": 0.001, "f32": 1e-5}

# Larger products are hardly faster per row.
ROWS_AT_ONCE = 512
# Enough to occupy all cores, few enough to keep memory small.
GROUPS_AT_ONCE = 8
# Rows of the feed-forward layer that fit a core's cache, with the temporaries of `gelu`.
ROWS_IN_CACHE = 32

# erf(z) is z P(z²) / Q(z²) for |z| <= 4, fitted to within 3e-8; beyond, it is 1 to the last bit.
ERF_NUMERATOR = (1.97469387e-06, 2.88019463e-04, 4.00333160e-03, 5.34665533e-02, 1.96243755e-01, 1.12837898e+00)  # fmt: skip  # noqa: E501
ERF_DENOMINATOR = (
    3.74782588e-05,
    1.21625371e-03,
    1.54438395e-02,
    1.16474046e-01,
    5.07247666e-01,
    1.0,
)

MAX_PIECES = 256
# [CLS] and [SEP] count towards the limit.
_ROOM = MAX_PIECES - 2
# Characters. A piece is about four letters, so that a head of this size is usually enough.
_FIRST_HEAD = 2_048

Floats = NDArray[np.float32]
Pieces = Sequence[int]
Hidden = tuple[Floats, list[slice]]
"""The hidden states of all pieces, and the rows of each text."""


class WordPieces:
    """MiniLM's own tokenizer. Texts must be free of surrogates."""

    def __init__(self, tokenizer_json: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(tokenizer_json))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._first, self._last = self._tokenizer.encode("").ids

    def split(self, texts: Sequence[str]) -> list[tuple[list[int], bool]]:
        """The pieces of each text, with [CLS] and [SEP], and whether it was truncated."""
        heads = [_head(text, _FIRST_HEAD) for text in texts]
        encoded = self._tokenizer.encode_batch_fast(heads, add_special_tokens=False)
        return [
            self._with_ends(text, head, item.ids)
            for text, head, item in zip(texts, heads, encoded, strict=True)
        ]

    def _with_ends(self, text: str, head: str, ids: list[int]) -> tuple[list[int], bool]:
        size = _FIRST_HEAD
        while len(ids) <= _ROOM and len(head) < len(text):
            size *= 4
            head = _head(text, size)
            ids = self._tokenizer.encode(head, add_special_tokens=False).ids
        return [self._first, *ids[:_ROOM], self._last], len(ids) > _ROOM


def _head(text: str, size: int) -> str:
    """The first words of a text, about `size` characters.

    It is cut before white space, where the tokenizer splits too, so that the pieces of the head are
    the first pieces of the text.
    """
    if len(text) <= size:
        return text
    for end in range(size, len(text)):
        if text[end] in " \t\n\r":
            return text[:end]
    return text


def group_by_length(texts: Sequence[Sequence[int]], limit: int) -> list[list[int]]:
    """Group texts of similar length, up to `limit` pieces per group; returns their indices.

    >>> group_by_length([[1] * 5, [1] * 9, [1] * 3, [1] * 8], limit=16)
    [[1], [3, 0, 2]]
    """
    groups: list[list[int]] = []
    room = 0
    for index in sorted(range(len(texts)), key=lambda index: -len(texts[index])):
        room -= len(texts[index])
        if room < 0:
            groups.append([])
            room = limit - len(texts[index])
        groups[-1].append(index)
    return groups


class MiniLM:
    """The network; `after_layer` is called after each layer, for instance to free its weights."""

    precision = "f32"
    margin = MARGINS[precision]

    def __init__(self, tensors: Tensors, after_layer: Callable[[], None] = lambda: None) -> None:
        self._tensors = tensors
        self._positions = position_embeddings(tensors)
        self._after_layer = after_layer

    def __call__(self, texts: Sequence[Pieces]) -> Floats:
        """One unit vector per text."""
        return self._in_groups(texts, ROWS_AT_ONCE)

    def one_by_one(self, texts: Sequence[Pieces]) -> Floats:
        """One unit vector per text, computed separately, so that it depends on the text alone."""
        return self._in_groups(texts, 0)

    def encode_pieces(self, text: Pieces) -> Floats:
        """The last layer's hidden states of a text, before pooling."""
        [(rows, _)] = self._run_layers([[text]])
        return rows

    def _in_groups(self, texts: Sequence[Pieces], rows: int) -> Floats:
        vectors = np.empty((len(texts), WIDTH), dtype=np.float32)
        groups = iter(group_by_length(texts, rows))
        while some := list(islice(groups, GROUPS_AT_ONCE)):
            done = self._run_layers([[texts[index] for index in group] for group in some])
            for group, (hidden, spans) in zip(some, done, strict=True):
                vectors[group] = [hidden[span].mean(axis=0) for span in spans]
        return unit(vectors)

    def _run_layers(self, groups: Sequence[Sequence[Pieces]]) -> list[Hidden]:
        """Run all groups through a layer before the next layer is read."""
        states = [self._embed(texts) for texts in groups]
        for index in range(LAYERS):

            def advance(place: int, name: str = f"encoder.layer.{index}") -> None:
                rows, spans = states[place]
                states[place] = self._layer(name, rows, spans), spans

            if blas_is_single_threaded():
                on_all_cores(advance, range(len(states)))
            else:
                for place in range(len(states)):
                    advance(place)
            self._after_layer()
        return states

    def _embed(self, texts: Sequence[Pieces]) -> Hidden:
        ends = np.cumsum([len(text) for text in texts])
        spans = [slice(end - len(text), end) for text, end in zip(texts, ends, strict=True)]
        x = self._tensors["embeddings.word_embeddings.weight"][np.concatenate(texts)]
        for span, text in zip(spans, texts, strict=True):
            x[span] += self._positions[: len(text)]
        return self._layer_norm("embeddings.LayerNorm", x), spans

    def _layer(self, name: str, x: Floats, spans: Sequence[slice]) -> Floats:
        query, key, value = (
            self._linear(f"{name}.attention.self.{part}", x) for part in ("query", "key", "value")
        )
        seen = np.empty_like(x)
        for span in spans:
            seen[span] = _attention(query[span], key[span], value[span])
        x = x + self._linear(f"{name}.attention.output.dense", seen)
        x = self._layer_norm(f"{name}.attention.output.LayerNorm", x)
        wide = self._linear(f"{name}.intermediate.dense", x)
        for start in range(0, len(wide), ROWS_IN_CACHE):
            part = wide[start : start + ROWS_IN_CACHE]
            part[:] = gelu(part)
        x = x + self._linear(f"{name}.output.dense", wide)
        return self._layer_norm(f"{name}.output.LayerNorm", x)

    def _linear(self, name: str, x: Floats) -> Floats:
        y: Floats = x @ self._tensors[f"{name}.weight"].T
        y += self._tensors[f"{name}.bias"]
        return y

    def _layer_norm(self, name: str, x: Floats) -> Floats:
        x = x - x.mean(axis=1, keepdims=True)
        variance = np.einsum("ij,ij->i", x, x)[:, None] / np.float32(WIDTH)
        x /= np.sqrt(variance + NORM_EPSILON)
        x *= self._tensors[f"{name}.weight"]
        x += self._tensors[f"{name}.bias"]
        return x


def position_embeddings(tensors: Tensors) -> Floats:
    """Position embeddings, with that of the first segment added, which all pieces belong to."""
    segment = tensors["embeddings.token_type_embeddings.weight"][0]
    summed: Floats = tensors["embeddings.position_embeddings.weight"] + segment
    return summed


def _attention(query: Floats, key: Floats, value: Floats) -> Floats:
    """Scaled dot-product attention over the pieces of one text."""
    pieces = len(query)
    q, k, v = (x.reshape(pieces, HEADS, -1).transpose(1, 0, 2) for x in (query, key, value))
    weight: Floats = q @ k.transpose(0, 2, 1)
    weight *= np.float32((WIDTH // HEADS) ** -0.5)
    weight -= weight.max(axis=2, keepdims=True)
    np.exp(weight, out=weight)
    weight /= weight.sum(axis=2, keepdims=True)
    output: Floats = (weight @ v).transpose(1, 0, 2).reshape(pieces, WIDTH)
    return output


def gelu(x: Floats) -> Floats:
    """Gaussian error linear unit, x Φ(x): the activation of the feed-forward layer.

    >>> gelu(np.array([-9, -1, 0, 1, 9], dtype=np.float32)).round(4).tolist()
    [-0.0, -0.15870000422000885, 0.0, 0.8413000106811523, 9.0]
    """
    z: Floats = np.clip(x * np.float32(0.5**0.5), -4, 4)
    square = z * z
    z *= _polynomial(ERF_NUMERATOR, square)
    z /= _polynomial(ERF_DENOMINATOR, square)
    z += 1
    z *= x
    z *= np.float32(0.5)
    return z


def _polynomial(coefficients: Sequence[float], x: Floats) -> Floats:
    """np.polyval in f32."""
    y = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        y *= x
        y += np.float32(coefficient)
    return y


def unit(x: Floats) -> Floats:
    """Scale rows to length 1.

    >>> unit(np.array([[3, 4]], dtype=np.float32)).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", x, x))
    rows: Floats = x / np.maximum(lengths, NORM_EPSILON)[:, None]
    return rows
