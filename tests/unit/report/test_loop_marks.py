"""A page names loops at its top, marks the messages that lie in them, and shows tool calls."""

import re
from dataclasses import replace

import pytest

from chimeralab import Call, Detection, Trajectory, Turn, detect
from chimeralab.core.records import Episode, Loop
from chimeralab.detection.loops import LOOPS, DetectorPair
from chimeralab.report.conversation import draw_conversation, list_loops, loop_spans
from chimeralab.report.messages import MAX_CALLS, ShownMessage, fold, list_messages, loop_marks
from chimeralab.report.page import render_macro

NEWS = (
    "The harbour froze over in the second week of January.",
    "Our baker sells rye bread on Tuesdays only.",
    "Seven violins were stolen from the concert hall.",
)
LATER = (
    "A comet will cross the northern sky tonight.",
    "My uncle repairs watches in a cellar near the station.",
    "Nobody expected the glacier to retreat so quickly.",
    "Potatoes keep best in dry sand.",
    "The museum opens its doors at nine.",
)
AGAIN = "Let me check the schedule once more and come back."
USER = Turn("Go.", "user", "user")
HOSTILE = "<script>document.title = 'owned'</script>"


def words(page: str) -> str:
    body = page.split("</style>")[1]
    return " ".join(re.sub(r"<[^>]+>", "", body).split())


def words_in(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", "", html).split())


def call(name: str = "bash", result: str | None = "a.txt", error: bool | None = None) -> Turn:
    made = Call(name, {"command": "ls"}, result, error)
    return Turn("", "assistant", "assistant", spoken=False, calls=(made,))


def back(text: str = "a.txt") -> Turn:
    return Turn(text, "tool", "tool", spoken=False)


def drawn(*turns: Turn) -> str:
    return draw_conversation(Trajectory("talk", tuple(turns)), DetectorPair(None))


def said(*texts: str) -> tuple[Turn, ...]:
    return tuple(Turn(text, "A") for text in texts)


def test_a_loop_is_named_at_the_top_with_what_repeats() -> None:
    shown = words(drawn(*said(*NEWS, *[AGAIN] * 5)))
    assert "Since message 4, A says the same text again: 5 times, to the end." in shown
    assert f"{AGAIN} ×5" in shown


def test_ended_loop_names_its_last_message() -> None:
    shown = words(drawn(*said(*NEWS, *[AGAIN] * 5, *LATER)))
    assert "Since message 4, A says the same text again: 5 times, until message 8 of 13." in shown
    assert len(re.findall(r"repeats \d", shown)) == 4


def test_only_the_calls_that_repeat_are_counted() -> None:
    turns = (USER, *[call()] * 3, call("pwd"), call("date"))
    verdict = Loop(
        "verdict", "tool", "calls", 2, 4, None, 1, (2, 3), "ls", 0.6, ((3, 2), (4, 2, 3))
    )
    [found] = list_loops(
        Trajectory("talk", tuple(turns)), _with(detect(turns, detector=None), verdict), LOOPS
    )
    shown = words_in(render_macro("blocks.html", "loop_sentence", found, len(turns)))
    assert "Since message 2, assistant makes the same call: 3 times, to the end." in shown


def test_calls_that_take_turns_are_quoted_each_and_counted_by_messages() -> None:
    turns = (USER, *[call("ls"), call("pwd")] * 3)
    verdict = Loop(
        "verdict", "tool", "calls", 2, 6, None, 2, (2, 4), "ls", 0.6, ((4, 2), (6, 2, 4))
    )
    [found] = list_loops(
        Trajectory("talk", tuple(turns)), _with(detect(turns, detector=None), verdict), LOOPS
    )
    shown = words_in(render_macro("blocks.html", "loop_sentence", found, len(turns)))
    assert "makes the same few calls in turn: 6 messages, to the end." in shown
    assert [times for _, times in found["repeated"]] == [3, 3]


def test_page_says_that_there_is_no_loop() -> None:
    assert "No loop in 3 messages and tool calls." in words(drawn(*said(*NEWS)))


def test_a_talk_too_short_for_the_locked_rule_still_loops() -> None:
    turns = (USER, *[call(), back()] * 4)
    shown = words(draw_conversation(Trajectory("talk", tuple(turns))))
    assert "Since message 2, assistant makes the same call: 4 times, to the end." in shown
    assert "No verdict on collapse: 0 judged turns, and the rule needs 5." in shown


def test_looping_messages_are_marked_and_link_to_what_they_repeat() -> None:
    page = drawn(*said(*NEWS, *[AGAIN] * 5))
    assert "a loop begins here: same text again" in words(page)
    assert len(re.findall(r'repeats <a href="#message-[456]">[456]</a></span>', page)) == 4
    assert len(re.findall(r'<li id="message-\d+" class="said looping( begins)?">', page)) == 5


def test_only_messages_of_its_stream_belong_to_a_loop() -> None:
    turns = [Turn(NEWS[0], "A"), Turn(AGAIN, "B"), Turn(NEWS[1], "A"), call(), back()]
    loops = [Loop("verdict", "template", "speaker:B", 1, 4, None, 1, (), "", 0.6)]
    assert list(loop_marks(turns, loops)) == [2]
    calls = [Loop("verdict", "tool", "calls", 1, 4, None, 1, (), "", 0.6)]
    assert list(loop_marks(turns, calls)) == [4]


def test_notice_is_distinguished_from_a_verdict() -> None:
    notice = Loop("notice", "paraphrase", "all", 1, 3, None, 1, (1,), "x", 0.4)
    marks = loop_marks(said(*NEWS), [notice])
    assert all(loop.level == "notice" for loops, _ in marks.values() for loop in loops)
    detection = _with(detect(list(NEWS), detector=None), notice)
    [found] = list_loops(Trajectory("talk", said(*NEWS)), detection, LOOPS)
    shown = render_macro("blocks.html", "loop_sentence", found, 3)
    assert "Perhaps since message 1, A says the same in other words" in words_in(shown)


def test_a_notice_that_became_a_verdict_is_named_once() -> None:
    notice = Loop("notice", "tool", "calls", 1, 2, None, 1, (1,), "x", 0.4)
    verdict = Loop("verdict", "tool", "calls", 1, 3, None, 1, (1, 2), "x", 0.5)
    detection = _with(detect(list(NEWS), detector=None), notice, verdict)
    assert len(list_loops(Trajectory("talk", said(*NEWS)), detection, LOOPS)) == 1


def test_one_failure_seen_in_two_streams_is_one_loop() -> None:
    made = Call("bash", {"command": "make"}, "make: error 2", error=True)
    turn = Turn("The build has failed again, so I run it again.", "assistant", "assistant",
                calls=(made,))  # fmt: skip
    page = drawn(USER, *[turn] * 6)
    assert page.count("Since message") == 1
    assert page.count('class="template"') == 1


def test_marks_are_read_from_the_verdict_and_equal_those_that_are_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = (*said(*NEWS, *[AGAIN] * 5), *[call(), back()] * 4, *said(*LATER, *[AGAIN] * 4))
    loops = detect(Trajectory("talk", tuple(turns)), detector=None).loops
    assert {loop.stream for loop in loops} >= {"all", "calls"}
    computed = loop_marks(turns, [replace(loop, echoes=None) for loop in loops])
    monkeypatch.delattr("chimeralab.detection.loops.LoopStream")
    assert loop_marks(turns, loops) == computed
    assert computed[7][1] == [5, 6]


def _with(detection: Detection, *loops: Loop) -> Detection:
    return replace(detection, loops=loops, looping=any(x.level == "verdict" for x in loops))


def test_a_call_without_a_result_says_so() -> None:
    shown = words(drawn(USER, call("wait", None)))
    assert "calls wait command: ls the log has no result" in shown


def test_hostile_calls_stay_text() -> None:
    made = Call(HOSTILE, HOSTILE, HOSTILE, error=True)
    turn = Turn("", HOSTILE, "assistant", spoken=False, calls=(made,))
    page = drawn(USER, *[turn] * 4)
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 12


def test_long_results_are_folded_and_many_calls_are_counted() -> None:
    assert fold("x\n" * 50, 20_000, of_call=True)[0].count("\n") == 5
    many = Turn("", "bot", "assistant", spoken=False, calls=(Call("a", None, "b" * 10_000),) * 500)
    [_, shown] = list_messages(Trajectory("t", (USER, many)), detect(["Go."], detector=None))
    assert isinstance(shown, ShownMessage)
    assert len(shown.calls) == MAX_CALLS
    assert shown.calls_left_out == 500 - MAX_CALLS
    _, _, result, _ = shown.calls[0]
    assert result is not None
    assert len(result[0]) <= 400


def test_a_huge_result_leaves_the_page_small() -> None:
    page = drawn(USER, call(result="y" * 10_000_000))
    assert len(page) < 200_000
    assert "further characters are in the log only" in page


def test_without_vectors_the_page_says_what_is_missing() -> None:
    page = drawn(*said(*NEWS, *[AGAIN] * 5))
    assert "No collapse verdict: it needs vectors, and none were wanted." in words(page)
    assert "Without vectors there is no timeline and no heat map either." in words(page)
    assert "<svg" not in page


def test_edges_of_a_loop_are_shown_in_a_very_long_conversation() -> None:
    turns = [Turn(f"Point {n}: item {n * 31} of list {n * 17}.") for n in range(3_000)]
    turns[1500:1510] = [Turn(AGAIN)] * 10
    page = drawn(*turns)
    assert "those where loops and collapsed turns begin and end" in words(page)
    links = set(re.findall(r'href="#([^"]+)"', page))
    assert links <= set(re.findall(r'id="([^"]+)"', page))
    assert 'id="message-1504"' in page


def test_timeline_shades_loops_and_collapse() -> None:
    page = draw_conversation(Trajectory("talk", said(*NEWS, *[AGAIN] * 6, *LATER)))
    assert "Shaded: Turns 7–9. In a loop: Turns 4–9." in words_of_labels(page)
    assert page.count(">loop</text>") == page.count(">collapsed</text>") == 2
    healthy = draw_conversation(Trajectory("talk", said(*NEWS, *LATER)))
    assert ">loop</text>" not in healthy


def test_shaded_turns_are_the_judged_ones_inside_a_loop() -> None:
    detection = detect([*NEWS, *LATER], detector=None)
    found = replace(detection, positions=(2, 4, 6, 8, 10, 12, 14, 16))
    loops = [
        Loop("verdict", "tool", "calls", 3, 5, 7, 1, (), "", 0.6),
        Loop("verdict", "verbatim", "all", 6, 8, 9, 1, (), "", 0.6),
        Loop("verdict", "verbatim", "all", 14, 15, None, 1, (), "", 0.6),
        Loop("notice", "paraphrase", "all", 1, 2, None, 1, (), "", 0.6),
        Loop("verdict", "tool", "calls", 11, 11, 11, 1, (), "", 0.6),
    ]
    assert loop_spans(_with(found, *loops)) == [Episode(2, 4), Episode(7, 8)]
    assert loop_spans(_with(found)) == []


def test_page_mentions_only_the_detector_that_was_used() -> None:
    talk = Trajectory("talk", said(*NEWS, *[AGAIN] * 6))
    locked = words(draw_conversation(talk, DetectorPair(loops=None)))
    assert "loop detector" not in locked
    assert "Since message" not in locked
    assert "Turns 7–9 collapsed" in locked
    loops = words(draw_conversation(talk, DetectorPair(None)))
    assert "Judged for collapse" not in loops
    assert "Judged for loops 9 spoken messages and tool calls" in loops


def words_of_labels(page: str) -> str:
    return " ".join(re.findall(r'aria-label="([^"]*)"', page))
