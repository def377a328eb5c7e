"""Laws of streams: what is said of a chant is true, and it is found in time, in constant memory."""

import random
import re
import sys
from string import ascii_lowercase

from hypothesis import given
from hypothesis import strategies as st

from chimeralab.detection.streams import MAX_PERIOD, Chant, TextStream

SPANS = st.text(alphabet=ascii_lowercase + " .,\n", min_size=1, max_size=MAX_PERIOD)
PIECES = st.lists(st.integers(1, 300), min_size=1, max_size=20)
DIGITS = re.compile("[0-9]+")


def prose(seed: int, length: int) -> str:
    rng = random.Random(seed)
    text = ""
    while len(text) < length:
        word = "".join(rng.choices(ascii_lowercase, k=rng.randint(2, 9)))
        text += word + rng.choice([" ", " ", ", ", ".\n"])
    return text


def listen(text: str, sizes: list[int]) -> tuple[Chant | None, int]:
    stream, at, turn = TextStream(), 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        if found := stream.feed(text[at : at + size]):
            return found, at + size
        at, turn = at + size, turn + 1
    return stream.close(), len(text)


@given(SPANS, st.integers(0, 900), st.integers(), PIECES)
def test_span_is_found_in_time_and_what_is_said_is_true(
    span: str, lead: int, seed: int, sizes: list[int]
) -> None:
    before = prose(seed, lead)
    drawn = len(set(span) - set(" .,\n")) < 2
    text = before + span * (9000 // len(span) + 1)
    found, heard = listen(text, sizes)
    assert found
    limit = 2400 if drawn else max(600, 4 * len(span))
    assert heard <= len(before) + limit + max(sizes) + len(span)
    assert text[found.start :].startswith(found.text * found.times)
    assert not text[found.start : heard].startswith(found.text * (found.times + max(sizes)))
    assert found.cut_at == found.start + len(found.text)


@given(SPANS, st.integers(1, 2000), PIECES)
def test_index_is_found_in_time_and_what_is_said_is_true(
    span: str, index: int, sizes: list[int]
) -> None:
    frame = 'number {"nth": %d} ' + span + "\n"
    text = "".join(frame % n for n in range(index, index + 400))
    found, heard = listen(text, sizes)
    assert found
    assert heard <= max(600, 4 * (len(span) + 25)) + max(sizes) + len(span) + 25
    masked = DIGITS.sub("0", text[found.start : heard])
    assert masked.startswith(DIGITS.sub("0", found.text) * found.times)
    assert found.text in text


@given(st.integers(), PIECES)
def test_random_words_are_never_a_chant(seed: int, sizes: list[int]) -> None:
    assert listen(prose(seed, 6000), sizes) == (None, len(prose(seed, 6000)))


@given(st.integers(), PIECES)
def test_pieces_do_not_matter_for_whether_a_chant_is_found(seed: int, sizes: list[int]) -> None:
    text = prose(seed, 700) + prose(seed + 1, 90) * 40 + prose(seed + 2, 700)
    whole, _ = listen(text, [len(text)])
    found, _ = listen(text, sizes)
    assert whole
    assert found
    assert (found.kind, found.start, found.cut_at) == (whole.kind, whole.start, whole.cut_at)


def weigh(value: object) -> int:
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + sum(weigh(k) + weigh(v) for k, v in value.items())
    if isinstance(value, list | tuple):
        return size + sum(map(weigh, value))
    if hasattr(value, "__dict__"):
        return size + weigh(vars(value))
    return size


def test_memory_is_constant() -> None:
    stream, sizes = TextStream(), []
    for seed in range(40):
        for _ in range(2):
            stream.feed(prose(seed, 20_000) + "x" * 9000)
        sizes.append(weigh(stream))
    assert max(sizes[20:]) <= 1.1 * max(sizes[:20])
    assert max(sizes) < 200_000
