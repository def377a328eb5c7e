"""Names and English follow the house style, which `tests/style.py` checks."""

import ast

import pytest

from tests.style import ENGLISH, PATTERNS, PLACES, ROOT, bad_names, files, findings

BAD_NAMES = {
    "class Posed: ...": "a record is a noun",
    "class RatingDesk: ...": "no furniture",
    "def judged(talk): ...": "a function is a verb",
    "def stored_trials(study): ...": "a function is a verb",
    "def as_told(arguments): ...": "a function is a verb",
    "def open_door(): ...": "no furniture",
    "class Row:\n    @property\n    def told(self): ...": "a property is a noun",
    "MOST_WORDS = 4": "MAX_ or MIN_",
}
GOOD_NAMES = """
MAX_WORDS = 4

class JudgedConversation:
    @property
    def is_locked(self) -> bool: ...
    def speed(self): ...

def judge(talk): ...
def is_said(turn) -> bool: ...
def restricted_mean(runs): ...
"""
BAD_ENGLISH = (
    "One turn is no verdict.",
    "def test_prose_is_no_code():",
    "Kill a run after so many answers.",
    "The page tells of each question.",
    "Replies that hold to the options.",
    "A file beside the plan.",
    "It is computed anew.",
    "A sentence for what was asked in vain.",
    "No file is in sight.",
    "It can't be had again.",
    "What there is to see.",
    "This is what you have put down.",
    "--sample and --invite are two things.",
    "The key is blotted out.",
    "What is asked aside.",
    "A study greets its model.",
    "One arm a value.",
    "A right answer that was turned down.",
    "A phrase known by heart.",
    "Not at all events.",
)


@pytest.mark.parametrize("place", PLACES)
def test_names_and_english_follow_the_house_style(place: str) -> None:
    paths = files([ROOT / place])
    assert [str(found) for path in paths for found in findings(path)] == []


@pytest.mark.parametrize(("source", "better"), BAD_NAMES.items())
def test_bad_name_is_found(source: str, better: str) -> None:
    assert [found for _, _, found in bad_names(ast.parse(source))] == [better]


def test_good_names_pass() -> None:
    assert list(bad_names(ast.parse(GOOD_NAMES))) == []


@pytest.mark.parametrize("sentence", BAD_ENGLISH)
def test_odd_phrase_is_found(sentence: str) -> None:
    assert any(pattern.search(sentence) for pattern, _ in PATTERNS)


def test_every_pattern_finds_one_of_the_odd_phrases() -> None:
    unused = [
        text
        for text, (pattern, _) in zip(ENGLISH, PATTERNS, strict=True)
        if not any(map(pattern.search, BAD_ENGLISH))
    ]
    assert unused == []


def test_plain_sentence_passes() -> None:
    plain = "There is no server, so the run is no longer active and nothing is sent."
    assert not any(pattern.search(plain) for pattern, _ in PATTERNS)
