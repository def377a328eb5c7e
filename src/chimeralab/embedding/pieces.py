"""From text to word pieces, reading no more of a text than the encoder will look at."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer

MAX_PIECES = 256
# [CLS] and [SEP] count towards the limit.
_ROOM = MAX_PIECES - 2
# A piece is about four letters; most long turns are settled by a head of this size.
_FIRST_HEAD = 2_048


class Pieces(NamedTuple):
    """The word pieces of one text, with [CLS] and [SEP], and whether its tail was cut off."""

    ids: list[int]
    truncated: bool


class WordPieces:
    """MiniLM's own tokenizer. Texts must be `readable`."""

    def __init__(self, tokenizer_json: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(tokenizer_json))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._first, self._last = self._tokenizer.encode("").ids

    def split(self, texts: Sequence[str]) -> list[Pieces]:
        heads = [_head(text, _FIRST_HEAD) for text in texts]
        encoded = self._tokenizer.encode_batch_fast(heads, add_special_tokens=False)
        return [
            self._pieces(text, head, item.ids)
            for text, head, item in zip(texts, heads, encoded, strict=True)
        ]

    def _pieces(self, text: str, head: str, ids: list[int]) -> Pieces:
        size = _FIRST_HEAD
        while len(ids) <= _ROOM and len(head) < len(text):
            size *= 4
            head = _head(text, size)
            ids = self._tokenizer.encode(head, add_special_tokens=False).ids
        return Pieces([self._first, *ids[:_ROOM], self._last], truncated=len(ids) > _ROOM)


def _head(text: str, size: int) -> str:
    """The first words of a text, about `size` characters.

    The cut is made before white space, where the tokenizer cuts too: so the pieces of the head
    are the first pieces of the text.
    """
    if len(text) <= size:
        return text
    for end in range(size, len(text)):
        if text[end] in " \t\n\r":
            return text[:end]
    return text


def grouped(texts: Sequence[Sequence[int]], most: int) -> list[list[int]]:
    """The places of the texts, those of like length together, up to `most` pieces in a group.

    >>> grouped([[1] * 5, [1] * 9, [1] * 3, [1] * 8], most=16)
    [[1], [3, 0, 2]]
    """
    groups: list[list[int]] = []
    room = 0
    for index in sorted(range(len(texts)), key=lambda index: -len(texts[index])):
        room -= len(texts[index])
        if room < 0:
            groups.append([])
            room = most - len(texts[index])
        groups[-1].append(index)
    return groups
