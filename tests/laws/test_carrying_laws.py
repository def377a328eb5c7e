"""Edits of an author are carried over to a later text without a loss."""

from hypothesis import given
from hypothesis import strategies as st

from chimeralab.bundle.build import carry_over

TEXTS = st.lists(st.sampled_from("abcdef"), max_size=8).map(
    lambda lines: "".join(f"{x}\n" for x in lines)
)


@given(TEXTS, TEXTS)
def test_over_the_same_text_the_edited_one_comes_out(base: str, edited: str) -> None:
    assert carry_over(base, edited, base) == edited


@given(TEXTS, TEXTS)
def test_without_edits_the_new_text_comes_out(base: str, new: str) -> None:
    assert carry_over(base, base, new) == new


@given(TEXTS, TEXTS, TEXTS)
def test_every_line_that_was_added_is_there_or_nothing_is_carried(
    base: str, edited: str, new: str
) -> None:
    found = carry_over(base, edited.upper() + base, new)
    assert found is None or edited.upper() in found
