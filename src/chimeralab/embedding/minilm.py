"""MiniLM in numpy f32: word pieces in, vectors out. Every other encoder is held against this one.

The pieces of all texts stand below each other in one table, a row each: what a layer does to a row
it does to all of them at once, and only attention looks at the rows of one text together.
"""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chimeralab import weights
from chimeralab.core.text import readable
from chimeralab.embedding.pieces import WordPieces, grouped
from chimeralab.embedding.workers import blas_stays_in_its_thread, on_all_cores
from chimeralab.weights.tensors import Tensors, read_tensors

WIDTH = 384
HEADS = 12
LAYERS = 6
NORM_EPSILON = np.float32(1e-12)

# How far a similarity may lie from the exact one, by what the vectors were computed in. In int16
# the largest error of 141,706 real lag similarities was 0.00044; in f32, rounding changes with the
# rows that share a product.
MARGINS = {"int16": 0.001, "f32": 1e-5}

# One product over this many rows is about as fast as any larger one.
ROWS_AT_ONCE = 512
# Enough for all cores to have work, few enough that memory stays small.
GROUPS_AT_ONCE = 8
# So many rows of the wide layer, with the temporaries of its nonlinearity, fit a core's cache.
ROWS_IN_CACHE = 32

# erf(z) is z P(z²) / Q(z²) for |z| <= 4, fitted to within 3e-8; beyond, it is 1 to the last bit.
ERF_OVER = (1.97469387e-06, 2.88019463e-04, 4.00333160e-03, 5.34665533e-02, 1.96243755e-01, 1.12837898e+00)  # fmt: skip  # noqa: E501
ERF_UNDER = (3.74782588e-05, 1.21625371e-03, 1.54438395e-02, 1.16474046e-01, 5.07247666e-01, 1.0)

Floats = NDArray[np.float32]
Pieces = Sequence[int]


class Hidden(NamedTuple):
    """What a layer says of each piece, and which rows belong to which text."""

    rows: Floats
    spans: list[slice]


class MiniLM:
    """The network on the arrays of its file. `after_layer` is called whenever one is done with."""

    precision = "f32"
    margin = MARGINS[precision]

    def __init__(self, tensors: Tensors, after_layer: Callable[[], None] = lambda: None) -> None:
        self._tensors = tensors
        self._places = places(tensors)
        self._after_layer = after_layer

    def __call__(self, texts: Sequence[Pieces]) -> Floats:
        """One unit vector per text."""
        return self._in_groups(texts, ROWS_AT_ONCE)

    def one_by_one(self, texts: Sequence[Pieces]) -> Floats:
        """One unit vector per text, each computed by itself: it depends on nothing but its text."""
        return self._in_groups(texts, 0)

    def hidden(self, texts: Sequence[Pieces]) -> Hidden:
        """The last layer's rows, before they are pooled."""
        [hidden] = self._through_all_layers([texts])
        return hidden

    def _in_groups(self, texts: Sequence[Pieces], rows: int) -> Floats:
        vectors = np.empty((len(texts), WIDTH), dtype=np.float32)
        groups = iter(grouped(texts, rows))
        while some := list(islice(groups, GROUPS_AT_ONCE)):
            done = self._through_all_layers([[texts[index] for index in group] for group in some])
            for group, hidden in zip(some, done, strict=True):
                vectors[group] = [hidden.rows[span].mean(axis=0) for span in hidden.spans]
        return unit(vectors)

    def _through_all_layers(self, groups: Sequence[Sequence[Pieces]]) -> list[Hidden]:
        """Groups side by side, all of them through one layer before the next one is read."""
        states = [self._embedded(texts) for texts in groups]
        for index in range(LAYERS):

            def advance(place: int, name: str = f"encoder.layer.{index}") -> None:
                rows, spans = states[place]
                states[place] = Hidden(self._layer(name, rows, spans), spans)

            if blas_stays_in_its_thread():
                on_all_cores(advance, range(len(states)))
            else:
                for place in range(len(states)):
                    advance(place)
            self._after_layer()
        return states

    def _embedded(self, texts: Sequence[Pieces]) -> Hidden:
        ends = np.cumsum([len(text) for text in texts])
        spans = [slice(end - len(text), end) for text, end in zip(texts, ends, strict=True)]
        x = self._tensors["embeddings.word_embeddings.weight"][np.concatenate(texts)]
        for span, text in zip(spans, texts, strict=True):
            x[span] += self._places[: len(text)]
        return Hidden(self._normalised("embeddings.LayerNorm", x), spans)

    def _layer(self, name: str, x: Floats, spans: Sequence[slice]) -> Floats:
        query, key, value = (
            self._linear(f"{name}.attention.self.{part}", x) for part in ("query", "key", "value")
        )
        seen = np.empty_like(x)
        for span in spans:
            seen[span] = _attention(query[span], key[span], value[span])
        x = x + self._linear(f"{name}.attention.output.dense", seen)
        x = self._normalised(f"{name}.attention.output.LayerNorm", x)
        wide = self._linear(f"{name}.intermediate.dense", x)
        for start in range(0, len(wide), ROWS_IN_CACHE):
            part = wide[start : start + ROWS_IN_CACHE]
            part[:] = gelu(part)
        x = x + self._linear(f"{name}.output.dense", wide)
        return self._normalised(f"{name}.output.LayerNorm", x)

    def _linear(self, name: str, x: Floats) -> Floats:
        y: Floats = x @ self._tensors[f"{name}.weight"].T
        y += self._tensors[f"{name}.bias"]
        return y

    def _normalised(self, name: str, x: Floats) -> Floats:
        x = x - x.mean(axis=1, keepdims=True)
        variance = np.einsum("ij,ij->i", x, x)[:, None] / np.float32(WIDTH)
        x /= np.sqrt(variance + NORM_EPSILON)
        x *= self._tensors[f"{name}.weight"]
        x += self._tensors[f"{name}.bias"]
        return x


def places(tensors: Tensors) -> Floats:
    """What a position adds to its piece. All pieces belong to the first segment, whose vector is
    therefore part of every position.
    """
    segment = tensors["embeddings.token_type_embeddings.weight"][0]
    summed: Floats = tensors["embeddings.position_embeddings.weight"] + segment
    return summed


def _attention(query: Floats, key: Floats, value: Floats) -> Floats:
    """Each row of a text becomes a mean over its rows, by how well query and key agree."""
    pieces = len(query)
    q, k, v = (x.reshape(pieces, HEADS, -1).transpose(1, 0, 2) for x in (query, key, value))
    weight: Floats = q @ k.transpose(0, 2, 1)
    weight *= np.float32((WIDTH // HEADS) ** -0.5)
    weight -= weight.max(axis=2, keepdims=True)
    np.exp(weight, out=weight)
    weight /= weight.sum(axis=2, keepdims=True)
    seen: Floats = (weight @ v).transpose(1, 0, 2).reshape(pieces, WIDTH)
    return seen


def gelu(x: Floats) -> Floats:
    """x Φ(x), the nonlinearity between the wide layers.

    >>> gelu(np.array([-9, -1, 0, 1, 9], dtype=np.float32)).round(4).tolist()
    [-0.0, -0.15870000422000885, 0.0, 0.8413000106811523, 9.0]
    """
    z: Floats = np.clip(x * np.float32(0.5**0.5), -4, 4)
    square = z * z
    z *= _polynomial(ERF_OVER, square)
    z /= _polynomial(ERF_UNDER, square)
    z += 1
    z *= x
    z *= np.float32(0.5)
    return z


def _polynomial(coefficients: Sequence[float], x: Floats) -> Floats:
    """np.polyval, which would compute in f64."""
    y = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        y *= x
        y += np.float32(coefficient)
    return y


def unit(x: Floats) -> Floats:
    """The rows at length 1.

    >>> unit(np.array([[3, 4]], dtype=np.float32)).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", x, x))
    rows: Floats = x / np.maximum(lengths, NORM_EPSILON)[:, None]
    return rows


REMEMBERED_TEXTS = 4_096


class TokenEncoder:
    """MiniLM before it pools: unit vectors of the pieces, without [CLS] and [SEP].

    Texts are computed one by one, so that a vector depends on nothing but its text.
    """

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or weights.ensure("minilm")
        self._words = WordPieces(folder / "tokenizer.json")
        self._model = MiniLM(read_tensors(folder / "model.safetensors"))
        self.encode = lru_cache(REMEMBERED_TEXTS)(self._encode)

    def _encode(self, text: str) -> Floats:
        [pieces] = self._words.split([readable(text)])
        return unit(self._model.hidden([pieces.ids]).rows[1:-1])


@cache
def default_token_encoder() -> TokenEncoder:
    """The one that a process shares, with the weights from the user's cache."""
    return TokenEncoder()
