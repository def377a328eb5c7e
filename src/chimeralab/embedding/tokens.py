"""A vector for every word piece of a text, for comparing statements piece by piece."""

from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chimeralab import weights
from chimeralab.embedding.minilm import compile_minilm
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
