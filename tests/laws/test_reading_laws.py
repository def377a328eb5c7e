"""Laws of reading a reply, whatever the options."""

from hypothesis import given, settings
from hypothesis import strategies as st

from chimeralab.trial.replies import read_choice, read_share
from chimeralab.trial.scenarios import GENERATORS, Question

WRAPPERS = (
    "{}", "{}.", "“{}”", '"{}".', "Answer: {}", "The answer is {}.", "My answer is: {}", "**{}**",
    "**Answer:** {}", "{}\n", "{}\n\nQuestion: What else?\nAnswer: {other}",
    "{}\nI did not choose {other}.",
)  # fmt: skip
texts = st.text(st.characters(codec="utf-8"), max_size=60)
listed = st.lists(texts.map(str.strip).filter(bool), min_size=1, max_size=5, unique=True)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    kind = draw(st.sampled_from(sorted(GENERATORS)))
    return draw(st.sampled_from(GENERATORS[kind]().make(draw(st.integers(0, 10**6))).questions))


@settings(max_examples=150)
@given(questions(), st.sampled_from(WRAPPERS))
def test_reply_that_is_one_option_is_read_as_it(question: Question, wrapper: str) -> None:
    options = question.options
    for option, other in zip(options, (*options[1:], options[0]), strict=True):
        assert read_choice(wrapper.format(option, other=other), options) == option


@given(listed, texts)
def test_what_is_read_is_one_of_the_options(options: list[str], reply: str) -> None:
    assert read_choice(reply, tuple(options)) in (*options, None)


@given(listed, st.data())
def test_option_to_the_letter_is_never_another(options: list[str], data: st.DataObject) -> None:
    option = data.draw(st.sampled_from(options))
    assert read_choice(option, tuple(options)) in (option, None)


@given(texts)
def test_share_lies_between_0_and_1(reply: str) -> None:
    share = read_share(reply)
    assert share is None or 0 <= share <= 1


@given(st.integers(0, 1000), st.sampled_from(["{}", "{}.", "I say {}", "On a scale of 0 to 1: {}"]))
def test_stated_share_is_read_as_it_is(thousandths: int, wrapper: str) -> None:
    assert read_share(wrapper.format(thousandths / 1000)) == thousandths / 1000
