"""A run as it goes: a live display in a terminal, a line now and then elsewhere."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar

from chimeralab.cli.terminal import err, plain, say
from chimeralab.cli.trial_monitor import TrialMonitor
from chimeralab.runner import (
    AttemptFailed,
    Intervened,
    News,
    RunStarted,
    Subscriber,
    TalkEnded,
    TrialScored,
    TurnStored,
)
from chimeralab.sandbox.metrics import MetricWeights

SECONDS_BETWEEN_LINES = 30.0


@dataclass
class Tally:
    """What a run has done so far, counted from its news."""

    planned: RunStarted = field(default_factory=lambda: RunStarted(0, 0, 0, 0, 0, 0.0))
    talks_ended: int = 0
    turns_stored: int = 0
    turns_given_up: int = 0
    tokens: int = 0
    spent: float = 0.0
    unknown_costs: int = 0
    failed_attempts: int = 0
    interventions: int = 0
    paused: int = 0
    watched: bool = False
    collapsed: set[str] = field(default_factory=set)
    last_failure: str = ""
    started: float = field(default_factory=time.monotonic)
    trials: TrialMonitor = field(default_factory=TrialMonitor)

    def take(self, news: News) -> None:
        match news:
            case RunStarted():
                self.planned = news
            case TurnStored():
                self._take_turn(news)
            case AttemptFailed():
                self.failed_attempts += 1
                self.last_failure = plain(f"{news.talk}: {news.outcome}: {news.reason}")
            case Intervened():
                self.interventions += 1
            case TalkEnded():
                self._take_end(news)
            case TrialScored():
                self.trials.take(news)

    def _take_turn(self, news: TurnStored) -> None:
        self.turns_stored += 1
        self.tokens += news.tokens or 0
        self.spent += news.cost or 0.0
        self.unknown_costs += news.cost is None
        self.watched |= news.collapsed is not None
        if news.collapsed:
            self.collapsed.add(news.talk)

    def _take_end(self, news: TalkEnded) -> None:
        self.turns_given_up += self.planned.turns_each - news.turns
        self.paused += news.outcome == "paused"
        self.talks_ended += news.outcome != "paused"

    @property
    def turns_done(self) -> int:
        return self.planned.turns_stored + self.turns_stored

    @property
    def turns_left(self) -> int:
        """Turns that may still come: not those of conversations that ended before their time."""
        return self.planned.turns_missing - self.turns_given_up - self.turns_stored

    @property
    def seconds_left(self) -> float | None:
        seconds = time.monotonic() - self.started
        return seconds / self.turns_stored * self.turns_left if self.turns_stored else None

    def __str__(self) -> str:
        seconds = max(time.monotonic() - self.started, 1e-9)
        cost = "unknown" if self.unknown_costs else f"{self.planned.spent + self.spent:.4g}"
        parts = [
            f"{self.planned.talks_ended + self.talks_ended:,}/{self.planned.talks:,} conversations",
            f"{self.turns_done:,}/{self.turns_done + self.turns_left:,} turns",
            f"{self.tokens / seconds:,.0f} tokens/s",
            f"cost {cost}",
            *([f"{len(self.collapsed):,} collapsed"] if self.watched else []),
            *_counted(self.interventions, "intervention"),
            *_counted(self.failed_attempts, "failed attempt"),
            *([f"{self.paused:,} paused"] if self.paused else []),
        ]
        left = self.seconds_left
        return " · ".join(parts + ([f"{_clock(left)} left"] if left is not None else []))


@contextmanager
def showing_progress(weights: MetricWeights | None = None) -> Iterator[Subscriber]:
    """A subscriber that shows a run on stderr; `weights` are those of a trial's metrics."""
    with showing(Tally(trials=TrialMonitor(weights))) as publish:
        yield publish


def showing(tally: Tally) -> AbstractContextManager[Subscriber]:
    """Take in news as they come, and show what they add up to."""
    return _live(tally) if err.is_terminal else _lines(tally)


@contextmanager
def _live(tally: Tally) -> Iterator[Subscriber]:
    def picture() -> Group:
        bar = ProgressBar(max(tally.turns_done + tally.turns_left, 1), tally.turns_done, width=60)
        failure = [f"last failure: {tally.last_failure}"] if tally.last_failure else []
        arms = [tally.trials.table(err.width)] if tally.trials.arms else []
        return Group(bar, str(tally), *arms, *failure)

    with Live(get_renderable=picture, console=err, refresh_per_second=4):
        try:
            yield tally.take
        finally:
            tally.trials.outdate()  # the last picture stays, and must show all that was done


@contextmanager
def _lines(tally: Tally) -> Iterator[Subscriber]:
    last = time.monotonic()

    def publish(news: News) -> None:
        nonlocal last
        tally.take(news)
        if isinstance(news, AttemptFailed):
            say(f"failed attempt at {tally.last_failure}")
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES or isinstance(news, RunStarted):
            last = time.monotonic()
            say(str(tally))

    yield publish
    if tally.planned.talks:
        say(str(tally))


def _counted(number: int, noun: str) -> list[str]:
    return [f"{number:,} {noun}{'' if number == 1 else 's'}"] if number else []


def _clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> _clock(3_725.0)
    '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
