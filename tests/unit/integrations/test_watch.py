"""The rules of all live guards: when they nudge, when they stop, and what they ignore."""

import logging
from typing import Any

import pytest

from chimeralab import Guard, InputError, LoopDetected
from chimeralab.integrations.watch import MARK, MAX_CONVERSATIONS, Watch


def step(arguments: str = "pytest", result: str = "1 failed", name: str = "bash") -> list[dict]:
    call = {"id": "c", "function": {"name": name, "arguments": arguments}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": result},
    ]


def actions(watch: Watch, steps: list[list[dict]], key: str = "") -> list[str | None]:
    """Follow a growing conversation, and list the actions."""
    told: list[str | None] = []
    for n in range(1, len(steps) + 1):
        found = watch.follow([message for each in steps[:n] for message in each], key)
        told.append(found and found.action)
    return told


def test_a_repeated_call_is_nudged_at_the_third_and_stopped_at_the_fifth() -> None:
    expected = [None, None, "nudge", None, "stop", "stop"]
    assert actions(Watch(), [step()] * 6) == expected
    watch = Watch()
    told = [[watch.update(message) for message in step()][-1] for _ in range(6)]
    assert [each and each.action for each in told] == expected
    nudge, stop = told[2], told[4]
    assert "“bash pytest” 3 times" in nudge.message
    assert nudge.message.endswith("since message 1. Change something or ask.")
    assert "5 times" in stop.message
    assert (stop.loop.kind, stop.loop.began) == ("tool", 1)
    with pytest.raises(LoopDetected, match="5 times") as raised:
        stop.raise_stop()
    assert raised.value.loop == stop.loop
    nudge.raise_stop()


def test_polling_and_paging_are_ignored() -> None:
    assert set(actions(Watch(), [step(result=f"{n} % done") for n in range(12)])) == {None}
    paging = [step(f"page {n}", f"rows {n}0 to {n}9") for n in range(12)]
    assert set(actions(Watch(), paging)) == {None}


def test_agent_that_recovers_after_the_nudge_continues() -> None:
    work = [step(f"edit file{n}.py", f"wrote {n} lines") for n in range(8)]
    assert actions(Watch(), [step()] * 3 + work) == [None, None, "nudge", *[None] * 8]


def test_no_stop_without_a_nudge() -> None:
    seen_late = [message for _ in range(12) for message in step()]
    watch = Watch()
    assert watch.follow(seen_late).action == "nudge"
    assert watch.follow(seen_late + step()) is None
    assert watch.follow(seen_late + step() * 2).action == "stop"


def test_nudge_in_the_history_counts_in_another_process() -> None:
    nudge = {"role": "user", "content": f"{MARK}You have called …"}
    told = [*step() * 3, nudge, *step() * 2]
    assert Watch().follow(told).action == "stop"


def test_new_user_message_resets_the_guard() -> None:
    says = {"role": "user", "content": "Install it first, then try."}
    watch, steps = Watch(), [step()] * 5 + [[says]] + [step()] * 3
    assert actions(watch, steps) == [
        None,
        None,
        "nudge",
        None,
        "stop",
        "nudge",
        None,
        "stop",
        "stop",
    ]
    same = [[says]] + [step()] * 5 + [[says]]
    assert actions(Watch(), same)[-2:] == ["stop", "stop"]


def test_settings_are_per_tool() -> None:
    watch = Watch(tools={"wait": "ignore", "search": {"repeats": 5}})
    assert set(actions(watch, [step(name="wait")] * 9, "a")) == {None}
    searching = actions(watch, [step(name="search", result="3 hits")] * 7, "b")
    assert searching == [None] * 4 + ["nudge", None, "stop"]
    with pytest.raises(InputError, match="tools"):
        Watch(tools={"wait": "never"})  # type: ignore[dict-item]


@pytest.mark.parametrize("word", ["off", "0", " OFF ", "false"])
def test_environment_variable_turns_every_guard_off(
    monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    assert set(actions(Watch(enabled=False), [step()] * 6)) == {None}
    watch = Watch()
    monkeypatch.setenv("CHIMERA_GUARD", word)
    assert set(actions(watch, [step()] * 6)) == {None}
    monkeypatch.delenv("CHIMERA_GUARD")
    assert "nudge" in actions(watch, [step()] * 6)


def test_internal_error_is_logged_once_and_disables_the_guard(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    watch = Watch()
    broken = [[{"role": "assistant", "content": 3}]]
    with caplog.at_level(logging.WARNING):
        assert set(actions(watch, broken + [step()] * 6, "a")) == {None}
        assert set(actions(watch, broken + [step()] * 6, "b")) == {None}
        assert watch.follow((1 / 0 for _ in range(1)), "c") is None  # type: ignore[misc]
    [record] = caplog.records
    assert "the loop guard failed" in record.message
    assert "nudge" in actions(watch, [step()] * 6, "another conversation")
    monkeypatch.setattr(Guard, "update", lambda *_: 1 / 0)
    assert watch.update({"role": "user", "content": "Hello"}, "d") is None


@pytest.mark.parametrize("message", [None, 3, "text", ["text"]])
def test_what_is_not_a_message_is_named_without_a_traceback(
    caplog: pytest.LogCaptureFixture, message: Any
) -> None:
    assert Watch().follow([message]) is None
    [record] = caplog.records
    assert f"a message is a {type(message).__name__}" in record.message
    assert record.exc_info is None


def test_conversations_are_separated_by_content_and_evicted() -> None:
    watch = Watch()
    for n in range(3):
        for key in ("a", "b"):
            found = [watch.update(message, key) for message in step()][-1]
            assert (found and found.action) == ("nudge" if n == 2 else None)
    talks = [step(result=f"{n} failed") for n in range(3)]
    for n, expected in enumerate([None, None, "nudge", None, "stop"], 1):
        told = [watch.follow(talk * n) for talk in talks]
        assert [each and each.action for each in told] == [expected] * 3
    assert watch.follow(talks[0] * 5).action == "stop", "asked again, it is still stopped"
    for n in range(MAX_CONVERSATIONS + 5):
        watch.update({"role": "user", "content": "Hello"}, str(n))
    assert len(watch._conversations) == MAX_CONVERSATIONS


def test_new_long_conversation_is_judged_by_its_tail() -> None:
    work = [message for n in range(300) for message in step(f"edit {n}", f"wrote file {n}")]
    found = Watch().follow(work + step() * 3)
    assert found.action == "nudge"
    assert "since message 601" in found.message


def test_rewritten_history_is_a_new_conversation() -> None:
    watch = Watch()
    assert actions(watch, [step()] * 4)[-2:] == ["nudge", None]
    summary = {"role": "user", "content": "So far: tests fail."}
    assert watch.follow([summary, *step()]) is None
    assert watch.follow([summary, *step() * 3]).action == "nudge"
