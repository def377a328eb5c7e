"""Laws of the contradiction guard on any statement."""

from hypothesis import assume, given
from hypothesis import strategies as st

from chimeralab.trial.wording import HARMLESS, conflict, negation_differs, numbers_differ

SUBJECTS = ["the mayor", "Anna", "the old clock", "my neighbour", "a fox", "the second team"]
VERBS = {"likes": "like", "repairs": "repair", "sees": "see", "sells": "sell", "finds": "find"}
OBJECTS = ["the boat", "old maps", "every garden", "Rui", "the report on salt"]
TAILS = ["", " in the evening", " without a word", " near Lisbon", " with no coat", " twice"]
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
ONES = "zero one two three four five six seven eight nine".split()

texts = st.text(st.characters(codec="utf-8"), max_size=80)
sentences = st.tuples(*map(st.sampled_from, (SUBJECTS, sorted(VERBS), OBJECTS, TAILS)))


@given(sentences, st.sampled_from(["does not {}", "doesn’t {}", "never {}s", "will not {}"]))
def test_negation_is_always_noticed(sentence: tuple[str, ...], form: str) -> None:
    subject, verb, thing, tail = sentence
    plain = f"{subject} {verb} {thing}{tail}"
    denied = f"{subject} {form.format(VERBS[verb])} {thing}{tail}"
    assert conflict(plain, denied) == conflict(denied, plain) == "negation"


@given(sentences, st.integers(2, 99), st.integers(2, 99), st.booleans(), st.booleans())
def test_changed_number_is_always_noticed(
    sentence: tuple[str, ...], one: int, other: int, spelled: bool, spelled_too: bool
) -> None:
    assume(one != other)
    subject, verb, thing, tail = sentence
    frame = f"{subject} {verb} {{}} copies of {thing}{tail}"
    shown = [spell(n) if s else str(n) for n, s in ((one, spelled), (other, spelled_too))]
    assert numbers_differ(frame.format(shown[0]), frame.format(shown[1]))


@given(sentences, st.integers(2, 99))
def test_number_in_words_is_the_number_in_digits(sentence: tuple[str, ...], value: int) -> None:
    subject, verb, thing, tail = sentence
    frame = f"{subject} {verb} {{}} copies of {thing}{tail}"
    assert conflict(frame.format(value), frame.format(spell(value))) is None


@given(texts, texts)
def test_guard_does_not_care_who_comes_first(one: str, other: str) -> None:
    assert (conflict(one, other) is None) == (conflict(other, one) is None)


@given(texts)
def test_nothing_contradicts_itself(text: str) -> None:
    assert conflict(text, text) is None


@given(sentences, sentences)
def test_sentences_of_equal_polarity_do_not_differ_in_negation(
    one: tuple[str, ...], other: tuple[str, ...]
) -> None:
    assume(one[3] == other[3] == "")
    assert not negation_differs(" ".join(one), " ".join(other))


def spell(value: int) -> str:
    """
    >>> spell(42), spell(13)
    ('forty-two', 'thirteen')
    """
    teens = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
    if 10 <= value < 20:
        return teens.split()[value - 10]
    tens, ones = divmod(value, 10)
    return "-".join(([TENS[tens]] if tens else []) + ([ONES[ones]] if ones else []))


phrases = st.lists(st.sampled_from([*" ".join(HARMLESS).split(), "Rome"]))


@given(phrases, phrases)
def test_any_row_of_phrases_can_be_compared(one: list[str], other: list[str]) -> None:
    said, again = " ".join(one), " ".join(other)
    assert conflict(said, again) == conflict(again, said)
    assert conflict(said, said) is None
