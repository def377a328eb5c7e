"""An author's edits are carried over to a later text without loss."""

from hypothesis import given
from hypothesis import strategies as st

from chimeralab.bundle.build import carry_over

TEXTS = st.lists(st.sampled_from("abcdef"), max_size=8).map(
    lambda lines: "".join(f"{x}\n" for x in lines)
)


@given(TEXTS, TEXTS)
def test_edits_are_kept_if_the_generated_text_is_unchanged(base: str, edited: str) -> None:
    assert carry_over(base, edited, base) == edited


@given(TEXTS, TEXTS)
def test_unedited_text_is_replaced_by_the_new_one(base: str, new: str) -> None:
    assert carry_over(base, base, new) == new


@given(TEXTS, TEXTS, TEXTS)
def test_every_line_that_was_added_is_there_or_nothing_is_carried(
    base: str, edited: str, new: str
) -> None:
    found = carry_over(base, edited.upper() + base, new)
    assert found is None or edited.upper() in found
