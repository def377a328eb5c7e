"""The neutral text of a sham: exactly as long as what it replaces, and never cut."""

import re

from chimeralab.core.text import neutral_text

SENTENCE = re.compile(r"[A-Z][a-z]*(,? [a-z]+)*\.")
WORDS = set(re.findall(r"[a-z]+", neutral_text(2_000).lower()))


def test_neutral_text_has_exactly_the_length_that_is_asked_for():
    assert [len(neutral_text(length)) for length in range(700)] == list(range(700))


def test_neutral_text_is_made_of_whole_sentences():
    for length in range(3, 700):
        sentences = re.split(r"(?<=\.) ", neutral_text(length))
        assert all(map(SENTENCE.fullmatch, sentences)), neutral_text(length)


def test_no_word_of_neutral_text_is_cut():
    texts = " ".join(neutral_text(n).lower() for n in range(3, 31))
    known = WORDS | {*re.findall(r"[a-z]+", texts)}
    assert {"pape", "da", "quie"}.isdisjoint(known)
    for length in range(31, 700):
        assert set(re.findall(r"[a-z]+", neutral_text(length).lower())) <= known
