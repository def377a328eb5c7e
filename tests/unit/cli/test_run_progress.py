"""Progress of a run: counted from its events, and correct after a restart."""

from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from chimeralab.cli.run import RunProgress, show_live
from chimeralab.runner import (
    AttemptFailed,
    Event,
    Intervention,
    RunStarted,
    TalkEnded,
    TurnStored,
)


def tally(*news):
    counted = RunProgress()
    for item in news:
        counted.add(item)
    return counted


STARTED = RunStarted(4, 1, turns_each=10, turns_stored=12, turns_missing=28, spent=0.5)


def turn(talk="t", collapsed=None, cost=0.25):
    return TurnStored(talk, 1, "m", 30, cost, 0.1, collapsed)


def test_progress_includes_earlier_runs():
    shown = str(tally(STARTED, turn(), turn()))
    assert shown.startswith("1/4 conversations · 14/40 turns · ")
    assert "cost 1 ·" in shown


def test_a_conversation_counts_as_collapsed_once():
    shown = str(tally(STARTED, turn(collapsed=True), turn(collapsed=True), turn(collapsed=False)))
    assert "1 marked as collapsed" in shown


def test_collapse_is_not_shown_without_a_watcher():
    assert "collapsed" not in str(tally(STARTED, turn()))


def test_unknown_cost_is_not_shown_as_a_number():
    assert "cost unknown" in str(tally(STARTED, turn(cost=None)))


def test_turns_of_ended_conversations_are_not_expected():
    assert tally(STARTED, turn()).turns_left == 27
    assert tally(STARTED, turn(), TalkEnded("t", "overflow", 4, "too long")).turns_left == 21
    assert tally(STARTED, turn(), TalkEnded("t", "completed", 10, None)).turns_left == 27


def test_time_left_needs_a_first_turn():
    assert tally(STARTED).seconds_left is None


def test_failures_and_interventions_are_counted():
    failed = AttemptFailed("t", 1, "m", "server", "out of \x1b[31morder")
    shown = tally(STARTED, failed, failed, Intervention("t", Event(3, "intervention")))
    assert "2 failed attempts" in str(shown)
    assert "1 intervention" in str(shown)
    assert "\x1b" not in shown.last_failure


def test_a_paused_conversation_is_not_ended():
    shown = str(tally(STARTED, TalkEnded("t", "paused", 3, "server: down")))
    assert "1/4 conversations" in shown
    assert "1 paused" in shown


def test_calls_in_forks_are_counted():
    row: Any = SimpleNamespace(arm="sham", asked=3)
    trials: Any = SimpleNamespace(add=lambda _: None, arms={})
    shown = RunProgress(trials=trials)
    assert "calls/s" not in str(shown)
    shown.add(row)
    assert shown.calls == 3
    assert "calls/s" in str(shown)


@pytest.mark.parametrize("width", [80, 50])
def test_bar_and_time_left_are_whole_in_a_terminal(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    file = StringIO()
    console = Console(file=file, force_terminal=True, width=width, height=24)
    monkeypatch.setattr("chimeralab.cli.run.err", console)
    progress = RunProgress()
    with show_live(progress) as publish:
        for news in (STARTED, turn(), turn(collapsed=True)):
            publish(news)
    shown = Text.from_ansi(file.getvalue()).plain.splitlines()
    bars = [line for line in shown if "━" in line]
    assert bars
    assert all(set(line.strip()) <= set("━╸╺") for line in bars)
    words = " ".join(" ".join(line for line in shown if "━" not in line).split())
    assert words.endswith(" left")
    assert "14/40 turns" in words
