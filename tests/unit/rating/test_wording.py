"""Normalised texts: what counts as punctuation, content, a number, a farewell."""

import pytest

from chimeralab.rating.loops import (
    AlignmentGap,
    adds_content,
    count_aligned,
    drops_content,
    gaps,
    nearly_identical,
    share_template,
)
from chimeralab.rating.wording import (
    FILLERS,
    NEGATIONS,
    NUMBER_WORDS,
    SYNONYMS,
    is_farewell,
    normalize,
    sense,
    stem,
    verbatim_key,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Don't stop.", "Don’t  stop"),
        ("**Bold** text", "bold text"),
        ("a\u200bb", "ab"),
        ("fine\n\nday", "Fine, day!"),
        ("ﬁne", "fine"),
        ("नमस्ते!", "नमस्ते"),
    ],
)
def test_case_and_punctuation_are_ignored(one: str, other: str) -> None:
    assert verbatim_key(one) == verbatim_key(other)


@pytest.mark.parametrize(
    ("one", "other"), [("2-1", "21"), ("fine", "fines"), ("ok 😀", "ok"), ("नम", "नमः")]
)
def test_differences_beyond_case_and_punctuation_count(one: str, other: str) -> None:
    assert verbatim_key(one) != verbatim_key(other)


def test_synonyms_are_in_one_group_only() -> None:
    words = [stem(word) for group in SYNONYMS for word in set(group)]
    groups = [{stem(word) for word in group} for group in SYNONYMS]
    assert sum(map(len, groups)) == len(set(words))


def test_negations_and_numbers_are_neither_fillers_nor_synonyms() -> None:
    grouped = {word for group in SYNONYMS for word in group}
    assert not NEGATIONS & (FILLERS | grouped)
    assert not (NUMBER_WORDS - {"one"}) & (FILLERS | grouped)


def test_content_words_are_extracted() -> None:
    text = normalize("Really, the 3 old bridges were quickly repaired in June, not May.")
    assert text.content == {"old", sense("bridge"), sense("repair"), sense("june"), "not"}
    assert text.numbers == {"3"}
    assert text.names == {"may", sense("june")}


@pytest.mark.parametrize(
    "text",
    ["Goodbye!", "Have a really great day.", "See you around", "It was nice chatting with you.",
     "Thanks so much for the lovely conversation", "(The conversation has ended)", "Tschüss!"],
)  # fmt: skip
def test_farewells_are_recognised(text: str) -> None:
    assert normalize(text).farewell


@pytest.mark.parametrize(
    "text",
    ["The bystander saw it all.", "We have a great plan.", "I see you are quite tall.", "",
     "I wish you would listen.", "I have a good life.", "So long as it works, keep it."],
)  # fmt: skip
def test_other_turns_are_not_farewells(text: str) -> None:
    assert not normalize(text).farewell


def test_a_long_turn_with_good_wishes_is_not_a_farewell() -> None:
    assert not is_farewell("word " * 60 + "take care", 62)


def test_alignment_preserves_word_order() -> None:
    assert count_aligned("a b c".split(), "c b a".split()) == 1
    assert count_aligned([], ["a"]) == count_aligned(["a"], []) == 0
    assert count_aligned("a b a b".split(), "b a b a".split()) == 3


def test_function_words_alone_are_not_a_template() -> None:
    assert not share_template(
        normalize("What do you do with it?"), normalize("What do you do to me?")
    )


def test_one_new_word_is_a_swap_in_a_long_text_and_content_in_a_short_one() -> None:
    long = " ".join(f"word{chr(97 + n)}" for n in range(25))
    assert not adds_content(normalize(long + " strange"), [normalize(long)])
    assert adds_content(normalize("worda wordb strange"), [normalize(long)])


def test_a_new_name_is_content_however_long_the_text() -> None:
    long = " ".join(f"word{chr(97 + n)}" for n in range(25))
    assert adds_content(normalize(long + " and Paris"), [normalize(long)])


def test_many_new_numbers_are_content() -> None:
    before = normalize("the sums are 1 2 3 4 today")
    assert adds_content(normalize("the sums are 5 6 7 8 today"), [before])
    assert not adds_content(normalize("the sums are 1 2 3 9 today"), [before])


def test_a_turn_that_drops_much_content_is_not_a_repeat() -> None:
    before = normalize("the red barn near the mill burned down")
    assert drops_content(normalize("the barn burned"), before)
    assert not drops_content(normalize("the red barn by the mill burned down"), before)


@pytest.mark.parametrize(
    ("one", "other"),
    [("plan", "рlаn"), ("a cow", "а cow"), ("Okay", "Оkау"), ("so", "sο"), ("𝐏lease", "Please")],
)
def test_look_alike_letters_are_folded(one: str, other: str) -> None:
    assert verbatim_key(one) == verbatim_key(other)


@pytest.mark.parametrize("text", ["НЕТ", "Река замёрзла", "Ο ΤΟΙΧΟΣ"])
def test_case_is_ignored_in_other_alphabets(text: str) -> None:
    assert verbatim_key(text) == verbatim_key(text.lower())


def test_no_as_an_answer_is_not_a_negation() -> None:
    assert "no" not in normalize("No, I drink water.").content
    assert "no" in normalize("No water is left.").content
    assert "not" in normalize("No, I do not drink.").content


def test_gaps_pair_removed_and_added_words() -> None:
    found = gaps("we like old tea".split(), "we adore old green tea".split())
    assert [(gap.removed, gap.added) for gap in found] == [([], ["green"]), (["like"], ["adore"])]
    assert gaps([], ["a"]) == [AlignmentGap([], ["a"], "", "", last=True)]
    assert gaps(["a"], ["a"]) == []


@pytest.mark.parametrize(
    ("before", "turn"),
    [
        (
            "We approve the budget for the school roof.",
            "We endorse the budget for the school roof.",
        ),
        ("Wir loben den Plan für die alte Brücke.", "Wir preisen den Plan für die alte Brücke."),
        ("我们同意这个修路的新计划。", "我们赞成这个修路的新计划。"),
    ],
)
def test_replacing_one_word_is_a_swap_in_any_language(before: str, turn: str) -> None:
    assert not adds_content(normalize(turn), [normalize(before)])


@pytest.mark.parametrize(
    ("before", "turn"),
    [
        ("Prices for copper wire rise this month.", "Prices for copper wire fall this month."),
        ("We visit the tower and eat old bread.", "We visit the castle and eat old bread."),
        ("The best tool for wet clay is string.", "The best tool for wet clay is wire."),
        ("We mend the old roof tiles.", "We mend the old roof tiles and paint a gate."),
    ],
)
def test_opposites_nouns_and_the_point_of_a_sentence_are_content(before: str, turn: str) -> None:
    assert adds_content(normalize(turn), [normalize(before)])


def test_nearly_identical_texts_may_differ_in_a_noun_but_not_in_a_negation() -> None:
    lake = normalize("I run by the lake and hum a song.")
    assert nearly_identical(lake, normalize("I run by the road and hum a song."))
    assert not nearly_identical(lake, normalize("I do not run by the lake and hum a song."))
    assert not nearly_identical(lake, normalize("I run by the lake to be alone."))
