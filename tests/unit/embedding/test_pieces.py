"""Word pieces: the head of a long text gives the same pieces as the whole of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimeralab import weights
from chimeralab.core.text import replace_surrogates
from chimeralab.embedding.minilm import MAX_PIECES, WordPieces

words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def split() -> WordPieces:
    return WordPieces(weights.ensure("minilm") / "tokenizer.json")


def whole(split: WordPieces, text: str) -> list[int]:
    """Pieces of the complete text, cut at the limit afterwards."""
    ids = split._tokenizer.encode(text, add_special_tokens=False).ids
    return [101, *ids[: MAX_PIECES - 2], 102]


@settings(max_examples=150)
@given(st.lists(words, min_size=1, max_size=20), st.integers(1, 400), st.sampled_from(" \n\t"))
def test_tokenising_only_the_head_gives_the_same_pieces(
    split: WordPieces, parts: list[str], times: int, space: str
) -> None:
    text = replace_surrogates(space.join(parts * times))
    assert split.split([text])[0][0] == whole(split, text)


def test_text_without_spaces_is_tokenised_as_far_as_needed(split: WordPieces) -> None:
    text = "雨" * 50_000
    assert split.split([text])[0][0] == whole(split, text)


def test_long_words_of_one_piece_do_not_shorten_the_head(split: WordPieces) -> None:
    text = ("x" * 500 + " ") * 300 + "end"
    [(pieces, truncated)] = split.split([text])
    assert pieces == whole(split, text)
    assert truncated


def test_trailing_space_is_not_truncation(split: WordPieces) -> None:
    text = "word " * 254 + " " * 10_000
    assert not split.split([text])[0][1]


def test_readable_keeps_pairs_and_replaces_halves() -> None:
    assert replace_surrogates("ok \N{ROCKET}") == "ok \N{ROCKET}"
    assert replace_surrogates("\ud83d\ude80") == "\N{ROCKET}"
    assert replace_surrogates("a\udc00b") == "a\ufffdb"
