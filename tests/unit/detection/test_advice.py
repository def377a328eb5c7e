"""What a live guard does with each class of repetition: when, and that what it says is true."""

from collections.abc import Sequence

import pytest

from chimeralab import Call, InputError, Trajectory, Turn
from chimeralab.detection.guard import Guard
from chimeralab.integrations.watch import GuardAction, Watch
from tests.unit.detection.test_classes import HEALTHY, QUERIES, VERDICTS, WAITING

Told = list[tuple[int, str, str]]


def turns_of(calls: Sequence[Call], first: int = 0) -> list[Turn]:
    return [Turn("", "assistant", "assistant", spoken=False, calls=(c,)) for c in calls[first:]]


def guard_run(calls: Sequence[Call], **settings: object) -> Told:
    """After which call a guard does what, up to its stop, and what it says."""
    watch, told = Watch(**settings), list[tuple[int, str, str]]()  # type: ignore[arg-type]
    for n in range(1, len(calls) + 1):
        found = watch.follow(Trajectory("t", tuple(turns_of(calls[:n]))))
        if found:
            told.append((n, found.action, found.message))
            if found.action == "stop":
                break
    return told


# The number of the call at the nudge and at the stop, and the beginning of what is said.
TOLD: dict[str, tuple[int, int | None, str]] = {
    "same call, same result": (3, 5, "You have called “ls {\"path\": \".\"}” 3 times"),
    "other description": (3, 5, "You have called “bash {\"command\": \"make\"}” 3 times with"),
    "duration in the result": (3, 5, "You have called “build” 3 times with the same outcome"),
    "edited and undone": (4, 6, "“a.toml” has been edited 3 times since message 2, back and"),
    "same error, another place": (5, 8, "5 calls have failed with the same error since message 1,"
        " with 5 different arguments, the last with “Error: epsilon.py line 4: cannot import"),
    "unknown tools": (5, None, "5 calls have failed with the same error since message 1, with 5"
        " different arguments, the last with “Error: there is no tool named epsilon”"),
    "no results": (6, None, "“search” has given the same answer 6 times since message 1, to 6"
        " different requests: “No results found”. Stop searching for this"),
    "the same long result": (6, None, "“search” has given the same answer 6 times since message"),
    "patterns without a match": (6, None, "“bash” has given the same answer 6 times since message"
        " 1, to 6 different requests: nothing. Stop searching"),
    "plan reworded": (6, None, "“todo_write” has given the same answer 6 times since message 1"),
    "20 files four times": (46, None, "You have called “read_file {\"path\": \"src/module_5.py\"}”"
        " 3 times with the same outcome since message 6, and there are 20 calls"),
    "45 files four times": (96, None, "You have called “read_file {\"path\":"),
    "handed over and back": (6, 8, "Work has been handed over 6 times since message 1"),
    "failing test after different edits": (12, None, "“bash {\"command\": \"pytest -q\"}” has"
        " failed in the same way 6 times since message 2, after 5 different edits"),
    "details that are not there": (3, None, "You have called “get_order_details {\"id\": \"A7\"}”"
        " 3 times with the same outcome since message 1. It began when a tool failed (message 1:"),
    "an element that is not there": (3, None, "You have called “click {\"selector\": \"#pay\"}” 3"
        " times with the same outcome since message 1. It began when a tool failed (message 1:"),
    "output that never comes": (3, None, "Tool calls with much the same results have come"),
    "code that prints nothing": (3, None, "Tool calls with much the same results have come"),
}  # fmt: skip


@pytest.mark.parametrize("shape", VERDICTS)
def test_guard_nudges_then_stops_with_the_patience_of_the_class(shape: str) -> None:
    nudge, stop, beginning = TOLD[shape]
    told = guard_run(VERDICTS[shape][1])
    expected = [(nudge, "nudge"), *([(stop, "stop")] if stop else [])]
    assert [each[:2] for each in told] == expected
    assert told[0][2].startswith(f"Loop guard: {beginning}")


def test_search_without_news_is_stopped_at_the_tenth() -> None:
    calls = [Call("search", {"query": f"{q} {n}"}, "None") for n in (1, 2) for q in QUERIES]
    assert [each[:2] for each in guard_run(calls)] == [(6, "nudge"), (10, "stop")]


@pytest.mark.parametrize("shape", WAITING)
def test_waiting_is_advised_once_and_never_stopped(shape: str) -> None:
    [(at, action, message)] = guard_run([WAITING[shape](n) for n in range(50)])
    assert (at, action) == (10, "nudge")
    assert "10 times since message 1, and nothing has changed. Wait once for longer" in message


@pytest.mark.parametrize("shape", HEALTHY)
def test_work_is_never_touched(shape: str) -> None:
    assert guard_run(HEALTHY[shape]) == []


def test_waiting_ends_after_max_wait_and_says_how_long_it_was() -> None:
    def at(minute: int) -> str:
        return f"2026-01-01T10:{minute:02}:00Z"

    watch, told = Watch(max_wait=1200), list[tuple[int, GuardAction]]()
    call = Call("get_job_status", {"id": 7}, "running")
    turns = list[Turn]()
    for minute in range(0, 60, 2):
        turns.append(Turn("", "assistant", "assistant", spoken=False, calls=(call,), at=at(minute)))
        found = watch.follow(Trajectory("t", tuple(turns)))
        if found:
            told.append((minute, found))
    [(first, nudge), (second, stop), *again] = told
    assert (first, nudge.action, second, stop.action) == (18, "nudge", 20, "stop")
    assert "10 times since message 1 for 18 minutes, and nothing has changed" in nudge.message
    assert "11 times since message 1 for 20 minutes" in stop.message
    assert all(each.again for _, each in again)
    changed = Turn("", "assistant", "assistant", calls=(Call("get_job_status", {"id": 7}, "done"),))
    assert watch.follow(Trajectory("t", (*turns, changed))) is None


def test_clock_tells_the_time_of_messages_that_do_not() -> None:
    seconds = iter(range(0, 10_000, 60))
    guard = Guard(vectors=False, max_wait=240)
    guard.time_of = lambda position: float(next(seconds))
    levels = []
    for turn in turns_of([Call("get_job_status", {}, "running")] * 8):
        warning = guard.update(turn).loop
        levels.append(warning and warning.level)
        if warning and warning.level == "nudge":
            guard.mark_nudged()
    assert levels == [None, None, None, None, "nudge", "stop", "stop", "stop"]


@pytest.mark.parametrize("seconds", [0, -1, "ten", True])
def test_wrong_max_wait_is_rejected(seconds: object) -> None:
    with pytest.raises(InputError, match="max_wait"):
        Watch(max_wait=seconds)  # type: ignore[arg-type]


def test_only_the_tool_of_a_loop_of_other_arguments_is_refused() -> None:
    watch = Watch(on_stop="refuse")
    calls = [Call("search", {"query": f"{q} {n}"}, "None") for n in (1, 2) for q in QUERIES]
    turns = turns_of(calls)
    for n in range(1, len(turns) + 1):
        watch.follow(Trajectory("t", tuple(turns[:n])))
    talk = Trajectory("t", tuple(turns))
    refused = watch.check_call(talk, "search", {"query": "once more"})
    assert refused is not None
    assert "“search” has given the same answer 16 times" in refused.message
    assert watch.check_call(talk, "read_file", {"path": "a.py"}) is None
