"""The neutral text of a sham: exactly as long as what it stands for, and never cut."""

import re

from chimeralab.trial.stressors.seam import neutral

SENTENCE = re.compile(r"[A-Z][a-z]*(,? [a-z]+)*\.")
WORDS = set(re.findall(r"[a-z]+", neutral(2_000).lower()))


def test_neutral_text_has_exactly_the_length_that_is_asked_for():
    assert [len(neutral(length)) for length in range(700)] == list(range(700))


def test_neutral_text_is_made_of_whole_sentences():
    for length in range(3, 700):
        sentences = re.split(r"(?<=\.) ", neutral(length))
        assert all(map(SENTENCE.fullmatch, sentences)), neutral(length)


def test_no_word_of_neutral_text_is_cut():
    known = WORDS | {w for n in range(3, 31) for w in re.findall(r"[a-z]+", neutral(n).lower())}
    assert {"pape", "da", "quie"}.isdisjoint(known)
    for length in range(31, 700):
        assert set(re.findall(r"[a-z]+", neutral(length).lower())) <= known
