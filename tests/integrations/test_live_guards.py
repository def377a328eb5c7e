"""Every live guard inside its real host: nudged at the third call, stopped at the fifth.

One matrix for all hosts; those of Claude are in `test_claude`.
"""

import logging
from types import SimpleNamespace

import pytest

from chimeralab import Guard, InputError
from chimeralab.integrations.watch import MARK
from tests.integrations.hosts import DONE, HOSTS, REFUSING, ran, talk
from tests.integrations.scripted import STEPS, Script

pytestmark = pytest.mark.integrations
REASON = "5 times with the same outcome since message"


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(HOSTS[request.param][0], reason="`make test-integrations` brings it")
    return request.param


def test_an_agent_that_repeats_a_call_is_nudged_then_stopped(host: str) -> None:
    script = Script("repeats")
    reason = ran(host, script)
    assert (script.nudged_after, len(script.calls), script.ended) == (3, 5, False)
    assert f"{MARK}stopped. You have called “look" in reason
    assert REASON in reason


@pytest.mark.parametrize("kind", ["polls", "pages", "turns pages", "pages of forged nudges"])
def test_polling_and_paging_for_fifty_steps_is_never_touched(host: str, kind: str) -> None:
    script = Script(kind, steps=50)
    assert ran(host, script) == DONE
    assert (script.nudged_after, len(script.calls), script.ended) == (None, 50, True)


def test_unchanged_polling_for_fifty_steps_is_advised_once_and_never_stopped(host: str) -> None:
    script = Script("waits", steps=50)
    assert ran(host, script) == DONE
    assert (script.nudged_after, len(script.calls), script.ended) == (10, 50, True)
    assert len(script.nudges) == 1


@pytest.mark.parametrize(
    ("kind", "nudge", "stop", "reason"),
    [
        ("searches", 6, 10, "“search” has given the same answer 10 times"),
        ("explains", 3, 5, 'You have called “bash {"command": "make"}” 5 times'),
        ("undoes", 4, 6, "“a.toml” has been edited 5 times"),
    ],
)
def test_classes_have_their_own_patience(
    host: str, kind: str, nudge: int, stop: int, reason: str
) -> None:
    script = Script(kind, steps=50)
    assert f"{MARK}stopped. {reason}" in ran(host, script)
    assert (script.nudged_after, len(script.calls), script.ended) == (nudge, stop, False)


def test_tool_declares_which_arguments_count(host: str) -> None:
    script = Script("searches", steps=50)
    ran(host, script, tools={"search": {"identity": ["site"]}})
    assert (script.nudged_after, len(script.calls)) == (3, 5)


def test_user_lets_a_loop_go_on_in_words(host: str) -> None:
    script = Script("repeats", steps=40)
    heard = talk(host, script, "Find the row.", "Carry on, it takes a while.")
    assert all("stopped. You have called" in each for each in heard)
    assert script.asked > 20


def test_tool_that_writes_a_nudge_does_not_disarm_the_guard(host: str) -> None:
    script = Script("repeats a forged nudge")
    assert REASON in ran(host, script)
    assert (script.nudged_after, len(script.calls), script.ended) == (3, 5, False)


def test_identical_calls_in_one_message_count_once(host: str) -> None:
    script = Script("repeats", twins=2)
    assert "10 times with the same outcome since message" in ran(host, script)
    assert (script.nudged_after, len(script.calls), script.ended) == (3, 10, False)


def test_user_who_says_continue_is_followed_by_a_nudge_first(host: str) -> None:
    script = Script("repeats", steps=40)
    heard = talk(host, script, "Find the row.", "continue", "continue")
    assert all(f"{MARK}stopped. You have called “look" in each for each in heard)
    steps = list(script.nudges.values())
    assert len(steps) == 3
    assert steps[0] == 3
    assert script.asked - steps[-1] == 2, "two more calls after the last nudge"


def test_only_the_repeated_call_is_refused(host: str) -> None:
    script = Script("repeats", steps=12)
    if host not in REFUSING:
        with pytest.raises(InputError, match="not possible in this host"):
            ran(host, script, on_stop="refuse")
        return
    assert ran(host, script, on_stop="refuse") == DONE
    assert (script.nudged_after, len(script.calls), script.asked) == (3, 5, 12)


def test_agent_that_recovers_after_the_nudge_is_not_stopped(host: str) -> None:
    script = Script("recovers")
    assert ran(host, script) == DONE
    assert (script.nudged_after, len(script.calls), script.ended) == (3, STEPS, True)


def test_an_error_inside_the_guard_never_breaks_the_host(
    host: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Guard, "update", lambda *_: 1 / 0)
    script = Script("repeats")
    with caplog.at_level(logging.WARNING, "chimeralab"):
        assert ran(host, script) == DONE
    assert len(script.calls) == STEPS
    assert len([each for each in caplog.records if "the loop guard failed" in each.message]) == 1


def test_steps_of_smolagents_that_only_say_something_are_not_silent() -> None:
    pytest.importorskip("smolagents", reason="`make test-integrations` brings it")
    from smolagents import ActionStep
    from smolagents.monitoring import Timing

    from chimeralab.integrations.smolagents import LoopGuard

    guard, agent = LoopGuard(), SimpleNamespace(memory=SimpleNamespace(steps=[]))
    for n in range(10):
        said = f"The {n}th row is {'abcdefghij'[n] * n}."
        step = ActionStep(n, Timing(0.0, 0.0), model_output=said)
        guard(step, agent)
        assert step.observations is None
        agent.memory.steps.append(step)


def test_settings_per_tool_and_the_switch(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(host, Script("repeats"), tools={"look": "ignore"}) == DONE
    assert ran(host, Script("repeats"), enabled=False) == DONE
    monkeypatch.setenv("CHIMERA_GUARD", "off")
    assert ran(host, Script("repeats")) == DONE
