"""Laws of the rules rater on generated trajectories: what is a loop, and what never is."""

from hypothesis import given
from hypothesis import strategies as st

from chimeralab.rating.ratings import Item, Rating
from chimeralab.rating.rubric import load_rubric
from chimeralab.rating.rules import rate_by_rules

RUBRIC = load_rubric()

FAREWELLS = [
    "Goodbye!", "Take care.", "Have a great day.", "See you soon!", "The pleasure was mine.",
    "Farewell, my friend.", "It was nice talking to you.", "Until next time.", "All the best.",
    "It was great talking to you.", "Have a lovely day.", "Goodbye for now.", "Stay safe!",
]  # fmt: skip
PRAISE = ("great", "good", "wonderful", "fantastic", "excellent")
PLANS = ("plan", "scheme", "strategy", "approach")

SYLLABLES = [consonant + vowel for consonant in "bdfgkmnprtvz" for vowel in "aiou"]

lengths = st.lists(st.integers(4, 25), max_size=8)
some_lengths = st.lists(st.integers(4, 25), min_size=1, max_size=8)
dress = st.sampled_from(["{}", "{}!", "  {} ", "{}...", "**{}**", "({})", "{} .", '"{}"'])


def invented(number: int) -> str:
    """A word of three syllables; no two numbers give the same one."""
    first, rest = divmod(number, len(SYLLABLES) ** 2)
    second, third = divmod(rest, len(SYLLABLES))
    return SYLLABLES[first] + SYLLABLES[second] + SYLLABLES[third]


def unrelated(sizes: list[int], start: int = 0) -> list[str]:
    """Turns of a given number of invented words, none twice."""
    turns = []
    for size in sizes:
        turns.append(" ".join(map(invented, range(start, start + size))))
        start += size
    return turns


BLOCK = unrelated([12], start=50_000)[0]


@st.composite
def dressed_copies(draw: st.DrawFn) -> list[str]:
    """One text three times or more, with varying white space, punctuation and case."""
    dresses = draw(st.lists(dress, min_size=3, max_size=8))
    return [form.format(draw(st.sampled_from([BLOCK, BLOCK.upper()]))) for form in dresses]


@st.composite
def filled_template(draw: st.DrawFn) -> list[str]:
    """One template with trivial swaps, no two turns equal."""
    fillings = st.tuples(st.sampled_from(PRAISE), st.sampled_from(PLANS), st.integers(1, 99))
    drawn = draw(st.lists(fillings, min_size=3, max_size=7, unique_by=lambda filling: filling[2]))
    return [
        f"This is a {praise} {plan} for the {BLOCK}, and we meet in room {number}."
        for praise, plan, number in drawn
    ]


def rate(turns: list[str]) -> Rating:
    return rate_by_rules(Item("made", tuple(turns)), RUBRIC)


def cited(before: list[str], block: list[str]) -> tuple[int, ...]:
    return tuple(range(len(before) + 1, len(before) + len(block) + 1))


@given(lengths, dressed_copies(), lengths)
def test_verbatim_block_is_found_where_it_stands(
    sizes: list[int], block: list[str], more: list[int]
) -> None:
    before, after = unrelated(sizes), unrelated(more, start=10_000)
    rating = rate(before + block + after)
    assert (rating.label, rating.step, rating.turns) == (1, "verbatim", cited(before, block))
    assert "A" in rating.kinds


@given(lengths, filled_template(), lengths)
def test_template_loop_is_found_where_it_stands(
    sizes: list[int], block: list[str], more: list[int]
) -> None:
    before, after = unrelated(sizes), unrelated(more, start=10_000)
    rating = rate(before + block + after)
    assert (rating.label, rating.step, rating.turns) == (1, "template", cited(before, block))
    assert rating.kinds == ("B",)


@given(st.integers(1, 30), st.integers(3, 6))
def test_short_form_holds_up_to_fifteen_words(words: int, copies: int) -> None:
    rating = rate(unrelated([words]) * copies)
    assert ("C" in rating.kinds) == (words <= 15)


@given(st.lists(st.sampled_from(FAREWELLS), min_size=3, max_size=20))
def test_farewells_collapse_only_by_the_exact_utterance(farewells: list[str]) -> None:
    triples = zip(farewells, farewells[1:], farewells[2:], strict=False)
    rating = rate(farewells)
    assert rating.label == int(any(a == b == c for a, b, c in triples))
    assert "B" not in rating.kinds


@given(some_lengths, st.sampled_from(["Step", "Day", "Part"]))
def test_numbered_steps_with_new_content_are_not_a_loop(sizes: list[int], heading: str) -> None:
    turns = [f"**{heading} {n}:** {text}" for n, text in enumerate(unrelated(sizes), 1)]
    assert rate(turns).label == 0


@given(some_lengths)
def test_gibberish_that_does_not_repeat_is_not_a_loop(sizes: list[int]) -> None:
    assert rate(unrelated(sizes)).label == 0


@given(some_lengths)
def test_equal_turns_with_others_between_them_are_not_a_loop(sizes: list[int]) -> None:
    turns = [BLOCK, *(text for other in unrelated(sizes) for text in (other, BLOCK))]
    assert rate(turns).label == 0


@given(some_lengths)
def test_pairs_with_recovery_are_not_a_loop(sizes: list[int]) -> None:
    assert rate([text for text in unrelated(sizes) for _ in range(2)]).label == 0


@given(st.integers(1, 25), st.integers(1, 25), st.integers(4, 12))
def test_alternation_of_different_texts_is_noted_but_not_a_loop(
    one: int, other: int, count: int
) -> None:
    texts = unrelated([one, other])
    rating = rate([texts[n % 2] for n in range(count)])
    assert rating.label == 0
    assert [(noted.pattern, noted.turns) for noted in rating.noted] == [
        ("alternation", tuple(range(1, count + 1)))
    ]


FEW = st.lists(st.sampled_from(["Yes.", "So it is.", "Well.", *FAREWELLS[:3]]), max_size=30)


@given(FEW)
def test_every_rating_names_turns_that_exist(turns: list[str]) -> None:
    rating = rate(turns)
    assert set(rating.turns) <= set(range(1, len(turns) + 1))
    assert bool(rating.turns) == bool(turns) == (rating.label is not None)


@given(FEW, FEW)
def test_later_turns_never_undo_a_loop(turns: list[str], more: list[str]) -> None:
    assert rate(turns).label != 1 or rate(turns + more).label == 1


@given(FEW, lengths)
def test_earlier_turns_only_shift_the_cited_turns(turns: list[str], sizes: list[int]) -> None:
    alone, later = rate(turns), rate(unrelated(sizes) + turns)
    if alone.label == 1:
        assert later.turns == tuple(turn + len(sizes) for turn in alone.turns)
        assert (later.step, later.kinds) == (alone.step, alone.kinds)
    else:
        assert later.label != 1


@given(st.lists(st.one_of(st.text(max_size=40), st.sampled_from(["Ja.", "ja"])), max_size=12))
def test_any_text_gets_one_label_and_one_sentence(turns: list[str]) -> None:
    rating = rate(turns)
    assert rating.label in {0, 1} or not turns
    assert rating.reason.endswith(".")
    assert rating == rate(turns)
