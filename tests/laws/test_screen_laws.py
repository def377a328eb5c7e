"""Laws of the screen: batches give the same verdicts as single messages."""

import re
from collections.abc import Iterator
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from chimeralab.core.records import Turn
from chimeralab.detection import screen
from chimeralab.detection.evidence import NO_EVIDENCE, TextMemory
from chimeralab.detection.loops import Loops, LoopStream, has_text
from chimeralab.detection.words import SpokenMessage, tokenize

WORDS = """
    the of and is to a in not no on left right up down 1 2 17 thanks bye thank you so much see
    later good night take care lamp parser token server grüße 谢 再 见 👍 don't error again please
""".split()
WORDS += [f"{a}{b}" for a in "bdfgkl" for b in ("ala", "orito", "uger", "eskim")]
TEXTS = st.one_of(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=60).map(" ".join),
    st.lists(st.sampled_from(WORDS), min_size=3, max_size=9).map(lambda some: " ".join(some * 4)),
    st.sampled_from(["", " ", "...", "™", "👍👍", "ok", 'He said "no" to ```x```', "> so\nit is"]),
)
SETTINGS = st.builds(
    Loops,
    window=st.sampled_from([1, 3, 32]),
    twin_low=st.sampled_from([0.0, 0.15, 1.0]),
    order_low=st.sampled_from([0.3, 0.6]),
    words_low=st.sampled_from([0.1, 0.38]),
    fresh_high=st.sampled_from([0.6, 0.95]),
    frame_low=st.sampled_from([0.05, 0.22]),
    short=st.sampled_from([1, 4]),
)


@st.composite
def talks(draw: st.DrawFn) -> list[Turn]:
    """Conversations with messages that come back whole, or with a few words replaced."""
    said: list[str] = []
    turns = []
    for _ in range(draw(st.integers(1, 14))):
        text = draw(TEXTS)
        again = draw(st.booleans()) if said else False
        if again:
            words = draw(st.sampled_from(said)).split(" ")
            for _ in range(draw(st.integers(0, 3))):
                words[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from(WORDS))
            text = " ".join(words)
        said.append(text)
        turns.append(Turn(text, draw(st.sampled_from(["ada", "bo", None]))))
    return turns


def one_by_one(turns: list[Turn], rules: Loops) -> list[tuple[Any, ...]]:
    stream = LoopStream(rules)
    return [(stream.update(turn), stream.going_on, stream.score) for turn in turns]


def at_once(many: list[list[Turn]], rules: Loops) -> Iterator[list[tuple[Any, ...]]]:
    words = screen.Screen(rules).screen([t.text for t in turns if has_text(t)] for turns in many)
    for turns in many:
        stream, signals = LoopStream(rules), []
        for turn in turns:
            repeats = stream.update_words(turn, next(words) if has_text(turn) else None)
            signals.append((sorted(repeats), stream.going_on, stream.score))
        yield signals


@settings(max_examples=80)
@given(st.lists(talks(), min_size=1, max_size=4), SETTINGS, st.sampled_from([40, 200, 50_000]))
def test_batch_gives_the_same_verdicts_as_message_by_message(
    many: list[list[Turn]], rules: Loops, words_at_once: int
) -> None:
    with mock.patch.object(screen, "BATCH_WORDS", words_at_once):
        assert list(at_once(many, rules)) == [one_by_one(turns, rules) for turns in many]


@given(talks(), SETTINGS)
def test_quiet_message_is_evidence_of_nothing(turns: list[Turn], rules: Loops) -> None:
    texts = [turn.text for turn in turns if has_text(turn)]
    memory = TextMemory(rules)
    for message in screen.Screen(rules).screen([texts]):
        seen = memory.weigh(SpokenMessage(message.text), "ada")
        assert not message.quiet or seen == NO_EVIDENCE


@given(talks(), SETTINGS)
def test_copy_is_weighed_as_any_other_message(turns: list[Turn], rules: Loops) -> None:
    with mock.patch.object(TextMemory, "_share_words", lambda _, said, copies: said):
        without_shortcut = one_by_one(turns, rules)
    assert one_by_one(turns, rules) == without_shortcut


def test_conversation_without_repetition_is_quiet() -> None:
    texts = [" ".join(f"{n}{a}word" for a in "bcdfghjklm") for n in range(50)]
    assert all(message.quiet for message in screen.Screen(Loops()).screen([texts]))


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_ascii_tokenising_agrees_with_the_general_one(text: str) -> None:
    found = re.findall(r"[a-z0-9]+(?:'[a-z0-9]+)*", text.lower())
    assert found == [word for word in tokenize(text) if word[0].isalnum()]
