"""Laws of the loop detector on random conversations."""

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from chimeralab.core.records import Call, Loop, Turn
from chimeralab.detection.loops import LoopStream
from chimeralab.detection.words import FUNCTION_WORDS

WORDS = [f"{a}{b}{c}" for a in "bdfgk" for b in ("ala", "ori", "uge") for c in ("ton", "mer", "sk")]
TEXTS = st.lists(st.sampled_from([*WORDS, "the", "of", "and", "is"]), min_size=1, max_size=9)
SPEAKERS = st.sampled_from(["ada", "bo", None])
CALLS = st.builds(
    Call,
    st.sampled_from(["read", "run"]),
    st.sampled_from(["{}", '{"a": 1}', "broken {"]),
    st.sampled_from([None, "", "done", "Error: no such file"]),
)
POOL = st.lists(TEXTS.map(" ".join), min_size=1, max_size=4)


@st.composite
def talks(draw: st.DrawFn) -> list[Turn]:
    """Conversations that repeat often, since their texts come from a small pool."""
    pool = draw(POOL)
    turn = st.builds(
        Turn,
        st.one_of(st.sampled_from(pool), TEXTS.map(" ".join)),
        SPEAKERS,
        calls=st.lists(CALLS, max_size=2).map(tuple),
    )
    return draw(st.lists(turn, min_size=1, max_size=24))


def loops_of(turns: list[Turn]) -> list[Loop]:
    stream = LoopStream()
    for turn in turns:
        stream.update(turn)
    return stream.loops


@given(talks(), st.integers(min_value=1, max_value=24))
def test_later_messages_do_not_change_when_a_loop_was_noticed(
    turns: list[Turn], length: int
) -> None:
    early, late = loops_of(turns[:length]), loops_of(turns)
    for loop, same in zip(early, late, strict=False):
        assert (same.stream, same.began) == (loop.stream, loop.began)
        if loop.level == "verdict":  # a notice may turn into one
            assert (same.level, same.noticed, same.repeats) == (
                "verdict",
                loop.noticed,
                loop.repeats,
            )


@given(talks())
def test_positions_are_ordered_and_within_the_conversation(turns: list[Turn]) -> None:
    for loop in loops_of(turns):
        assert 1 <= loop.began <= loop.noticed <= len(turns)
        assert all(place <= loop.noticed for place in loop.repeats)
        assert loop.ended is None or loop.noticed <= loop.ended <= len(turns)
        assert 0 <= loop.score < 1


@given(talks())
def test_names_of_speakers_change_nothing(turns: list[Turn]) -> None:
    names = {"ada": "zoe", "bo": "kim", None: None}
    renamed = [replace(turn, speaker=names[turn.speaker]) for turn in turns]
    stripped = [replace(loop, stream=loop.stream[:7]) for loop in loops_of(turns)]
    assert [replace(loop, stream=loop.stream[:7]) for loop in loops_of(renamed)] == stripped


@given(talks())
def test_case_and_white_space_change_nothing(turns: list[Turn]) -> None:
    shouted = [replace(t, text="\n" + t.text.upper().replace(" ", "  \n\t")) for t in turns]
    plain = [replace(loop, excerpt="") for loop in loops_of(turns)]
    assert [replace(loop, excerpt="") for loop in loops_of(shouted)] == plain


@given(talks())
@example([Turn("balaton balaton balaton"), *[Turn("the balaton balaton balaton")] * 3])
def test_made_up_function_words_keep_verbatim_and_tool_verdicts(turns: list[Turn]) -> None:
    """A made-up word that nobody has said is news, so it is said first."""

    def made_up(text: str) -> str:
        return " ".join("zzq" if word in FUNCTION_WORDS else word for word in text.split())

    def verdicts(loops: list[Loop]) -> set[tuple[str, int]]:
        kinds = ("verbatim", "tool")
        return {(x.stream, x.noticed) for x in loops if x.level == "verdict" and x.kind in kinds}

    changed = [replace(turn, text=made_up(turn.text)) for turn in turns]
    late = {stream for stream, _ in verdicts(loops_of([Turn("zzq"), *changed]))}
    assert {stream for stream, _ in verdicts(loops_of(turns))} <= late


def test_new_word_in_a_repeat_delays_the_verdict_by_one_message() -> None:
    for word, noticed in (("the", 4), ("zzq", 5)):
        texts = ["balaton balaton balaton", *[f"{word} balaton balaton balaton"] * 4]
        [loop] = loops_of([Turn(text) for text in texts])
        assert (loop.level, loop.kind, loop.noticed) == ("verdict", "verbatim", noticed)


@given(talks())
def test_what_a_verdict_repeats_shares_its_words(turns: list[Turn]) -> None:
    for loop in loops_of(turns):
        if loop.level == "verdict" and loop.kind in (
            "verbatim",
            "alternating",
            "cycle",
            "template",
        ):
            words = set(turns[loop.noticed - 1].text.split())
            assert loop.repeats
            assert all(words & set(turns[place - 1].text.split()) for place in loop.repeats)


@given(st.lists(st.sampled_from(WORDS), unique=True, min_size=12, max_size=45))
def test_sentences_that_share_no_content_never_loop(words: list[str]) -> None:
    frame = "it is the {} of this and that {} for you and me {}"
    texts = [frame.format(*words[n : n + 3]) for n in range(0, len(words) - 2, 3)]
    assert loops_of([Turn(text) for text in texts]) == []
