"""Every live guard inside its real host: nudged at the third call, stopped at the fifth."""

import logging

import pytest

from chimeralab import Guard
from chimeralab.integrations.watch import MARK
from tests.integrations.hosts import DONE, HOSTS, ran
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


@pytest.mark.parametrize("kind", ["polls", "pages"])
def test_polling_and_paging_agents_are_ignored(host: str, kind: str) -> None:
    script = Script(kind)
    assert ran(host, script) == DONE
    assert (script.nudged_after, len(script.calls), script.ended) == (None, STEPS, True)


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


def test_settings_per_tool_and_the_switch(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(host, Script("repeats"), tools={"look": "ignore"}) == DONE
    assert ran(host, Script("repeats"), enabled=False) == DONE
    monkeypatch.setenv("CHIMERA_GUARD", "off")
    assert ran(host, Script("repeats")) == DONE
