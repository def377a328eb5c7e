"""Words as the loop detector compares them."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from chimeralab.detection.words import (
    MessageWords,
    align,
    fill_frame,
    find_frame,
    list_substitutions,
    mask_blocks,
    repetition_within,
    tokenize,
)

FEW = st.lists(st.sampled_from("abcd"), max_size=14)


@given(FEW, FEW)
def test_alignment_is_a_longest_common_subsequence(one: list[str], other: list[str]) -> None:
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, x in enumerate(one, start=1):
        for j, y in enumerate(other, start=1):
            best = max(table[i - 1][j], table[i][j - 1])
            table[i][j] = table[i - 1][j - 1] + 1 if x == y else best
    pairs = align(one, other)
    assert len(pairs) == table[-1][-1]
    assert all(one[i] == other[j] for i, j in pairs)
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(pairs))


@given(FEW, FEW)
def test_substitutions_do_not_overlap_with_the_alignment(one: list[str], other: list[str]) -> None:
    pairs = align(one, other)
    swaps = list(list_substitutions(one, other, pairs))
    assert all(here and there for here, there in swaps)
    assert len(pairs) + sum(len(here) for here, _ in swaps) <= len(one)
    assert len(pairs) + sum(len(there) for _, there in swaps) <= len(other)


def test_function_words_alone_are_not_a_gram() -> None:
    assert MessageWords("it is of the".split()).grams == {("it", "is", "of", "the")}
    assert MessageWords("it is the parser".split()).grams == {("is", "the", "parser")}


@given(st.lists(st.sampled_from("abcd"), min_size=25, max_size=60))
def test_bound_never_misses_a_message_that_repeats_itself(words: list[str]) -> None:
    said = MessageWords(words)
    few = 3 * len(said.trigrams) <= 2 * len(words) - 2
    assert said.may_repeat_within == few
    assert few or repetition_within(words) < 0.5


@given(FEW)
def test_same_words_overlap_in_all_grams(words: list[str]) -> None:
    assert MessageWords(words).overlap(MessageWords(words)) == 1


def test_fence_and_a_quotation_are_one_word_each() -> None:
    text = 'See\n```\na = 1\nb = 2\n```\nand "what you said about the weather yesterday" again.'
    words = tokenize(mask_blocks(text))
    assert len(words) == 5
    assert words[0] == "see"
    assert words[2] == "and"


@given(st.text(max_size=200))
def test_any_text_can_be_tokenised(text: str) -> None:
    words = tokenize(text)
    assert words == tokenize(text)
    assert all(word == word.casefold() for word in words)


TALK = st.lists(
    st.sampled_from(["Ann", "Bo,", "went", "the", "shop", "red!", "去", "—"]), max_size=12
)


@given(st.lists(TALK.map(" ".join), min_size=2, max_size=4))
def test_messages_with_a_frame_fill_all_of_its_slots(texts: list[str]) -> None:
    frame = find_frame(texts)
    if frame is None:
        return
    assert None in frame
    assert all((one is None) != (other is None) for one, other in pairwise(frame))
    for text in texts:
        slots = fill_frame(frame, text)
        assert slots is not None
        assert len(slots) == frame.count(None)
        rest = iter(slots)
        whole = "".join(next(rest) if part is None else part for part in frame)
        assert "".join(whole.split()).casefold() == "".join(text.split()).casefold()


def test_equal_messages_have_no_frame() -> None:
    assert find_frame(["We went to the shop."] * 3) is None
