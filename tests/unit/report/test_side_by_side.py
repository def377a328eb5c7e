"""Repetitions are compared with their originals, and only the differences are marked."""

import re

from chimeralab import Call, Trajectory, Turn, detect
from chimeralab.report.messages import Side, loop_marks, stretches


def repeated(*turns: Turn, vectors: bool = False) -> list[tuple[str, list[tuple[Side, Side]]]]:
    talk = Trajectory("talk", turns)
    found = detect(talk) if vectors else detect(talk, detector=None)
    return stretches(talk, found, loop_marks(talk.turns, found.loops))


def test_copies_are_called_identical() -> None:
    found = repeated(Turn("What now?"), *[Turn("Let me check that once more for you.")] * 7)
    assert found
    _, pairs = found[0]
    assert all("<mark>" not in words for pair in pairs for _, _, words in pair)
    assert pairs[0][0][0] < pairs[0][1][0]


def test_differences_are_marked_and_nothing_else() -> None:
    words = ("path", "track", "road", "way", "line", "course", "trail")
    said = [Turn(f"I think that you are on the right {word}, so let us go on.") for word in words]
    _, [first, *_] = repeated(Turn("Hello there."), *said)[0]
    for position, _, shown in first:
        different = re.findall("<mark>(.*?)</mark>", shown)
        assert len(different) == 1
        assert different[0] in words
        assert shown.striptags() == said[position - 2].text


def test_tool_calls_are_compared_with_their_results() -> None:
    call = Call("bash", {"command": "make"}, "make: error 2", error=True)
    silent = Turn("", "assistant", "assistant", spoken=False, calls=(call,))
    found = repeated(Turn("Build it.", "user", "user"), *[silent] * 6)
    _, [(_, (_, _, words)), *_] = found[0]
    assert "command: make" in words
    assert "error 2" in words


def test_collapse_already_shown_as_a_loop_is_not_repeated() -> None:
    found = repeated(*[Turn("Once more, with feeling, as ever.")] * 8, vectors=True)
    pairs = [(earlier[0], later[0]) for _, each in found for earlier, later in each]
    assert len(pairs) == len(set(pairs))


def test_conversation_without_loops_has_no_comparison() -> None:
    assert repeated(Turn("Hello."), Turn("The train leaves at nine."), Turn("Then hurry.")) == []


def test_very_long_message_is_truncated() -> None:
    long = " ".join(f"word{n}" for n in range(5_000))
    found = repeated(*[Turn(long)] * 6)
    assert all(words.endswith("…") for pair in found[0][1] for _, _, words in pair)
