"""`chimera run`: the planned conversations, shown as they go.

A run is shown live in a terminal, and as a line now and then elsewhere. Other programs get what
happens as lines of JSON.
"""

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from chimeralab import pipeline
from chimeralab.cli.options import CODE_OPTION, JSON_OPTION, STUDY_ARGUMENT, ask_consent
from chimeralab.cli.terminal import err, out, sanitize, say, summarize_flow
from chimeralab.core.errors import InputError
from chimeralab.core.numbers import plural
from chimeralab.core.records import plain_value
from chimeralab.core.result_words import MARK
from chimeralab.runner import (
    AttemptFailed,
    Intervention,
    News,
    RunStarted,
    Subscriber,
    TalkEnded,
    TurnStored,
)
from chimeralab.study import RunOptions, Study
from chimeralab.study.subjects import allow_keys

if TYPE_CHECKING:
    from chimeralab.trial.metrics import Metrics, MetricWeights
    from chimeralab.trial.trials import TrialRow

SECONDS_BETWEEN_LINES = 30.0
SECONDS_BETWEEN_TABLES = 5.0
# Of the time that a long trial runs, at most one part in so many goes into its tables.
SHARE_OF_TIME = 20
RESAMPLES = 500
STANDARD_OUTPUT = "-"
NAMES: dict[type, str] = {
    RunStarted: "run_started",
    TurnStored: "turn_stored",
    AttemptFailed: "attempt_failed",
    Intervention: "intervened",
    TalkEnded: "talk_ended",
}


@click.command()
@STUDY_ARGUMENT
@click.option(
    "--concurrency", type=click.IntRange(1), help="How many conversations to run at the same time."
)
@click.option("--max-cost", type=click.FloatRange(0), help="Stop the study at this cost.")
@click.option(
    "--max-hours", type=click.FloatRange(0, min_open=True), help="Stop this run after this time."
)
@click.option(
    "--watch/--no-watch",
    default=True,
    help="Count collapsed conversations live, with up to 64 at once.",
)
@click.option(
    "--events",
    metavar="FILE|-",
    help="Append events to this file, one JSON object per line; - is standard output.",
)
@CODE_OPTION
@JSON_OPTION
def run(
    path: Path, allow_code: bool | None, as_json: bool, events: str | None, **options: Any
) -> None:
    """Run the planned conversations, or resume where an earlier run stopped.

    Ctrl-C stops once the requests in flight are answered; a second one cancels them. The exit code
    is 1 if conversations are left to run. The options apply to this run only.
    """
    if as_json and events == STANDARD_OUTPUT:
        raise InputError("--json and --events - both write to standard output; name a file")
    study = Study(path, ask_consent(allow_code))
    allow_keys(study.plan)  # here, as it can't ask while the run is shown
    progress = RunProgress(trials=TrialMonitor(getattr(study.plan.own, "weights", None)))
    with event_lines(events) as tell, showing(progress) as show:

        def publish(news: News) -> None:
            tell(news)
            show(news)

        done = pipeline.run(study, RunOptions(**options), publish)
    if as_json:
        click.echo(json.dumps({**done.as_dict(), "complete": done.complete}, indent=2))
    elif events == STANDARD_OUTPUT:
        say("stopped: " + sanitize(done.stopped) if done.stopped else "done")
    else:
        out.print(summarize_flow(done.arms, list(study.plan.conditions)))
        if not done.locked:
            click.echo("exploratory: this study was not locked before it was run")
        if done.stopped:
            click.echo(f"stopped: {sanitize(done.stopped)}")
        if not done.complete:
            left = plural(sum(arm.open for arm in done.arms), "conversation")
            verb = "is" if left.startswith("1 ") else "are"
            click.echo(f"{left} {verb} left; the same command goes on with them")
    raise click.exceptions.Exit(0 if done.complete else 1)


class TrialMonitor:
    """Keeps scored trials by arm. The table is computed again every few seconds at most."""

    def __init__(self, weights: "MetricWeights | None" = None) -> None:
        self._weights = weights
        self.arms: defaultdict[str, list[TrialRow]] = defaultdict(list)
        self._table = Table()
        self._due = 0.0

    def take(self, row: "TrialRow") -> None:
        """Take in the next trial of any session."""
        self.arms[str(row.arm)].append(row)

    def table(self, width: int) -> Table:
        """The three metrics of each arm, with intervals over the scenarios so far."""
        from chimeralab.cli.measure import groups_table  # noqa: PLC0415 - as below

        started = time.monotonic()
        if started >= self._due:
            self._table = groups_table("arm", self.measured(), width)
            now = time.monotonic()
            self._due = now + max(SECONDS_BETWEEN_TABLES, SHARE_OF_TIME * (now - started))
        return self._table

    def outdate(self) -> None:
        """Have the next table computed again, as at the end of a run."""
        self._due = 0.0

    def measured(self) -> "dict[str, Metrics]":
        """Everything that the trials of each arm say so far."""
        # Imported here: most runs are of self-play, which needs none of it.
        import numpy as np  # noqa: PLC0415

        from chimeralab.trial.columns import columns_of  # noqa: PLC0415
        from chimeralab.trial.metrics import MetricWeights, measure  # noqa: PLC0415

        rng, weights = np.random.default_rng(0), self._weights or MetricWeights()
        return {
            name: measure(columns_of(trials), weights, rng=rng, resamples=RESAMPLES)
            for name, trials in sorted(self.arms.items())
        }


@dataclass
class RunProgress:
    """What a run has done so far, counted from its news."""

    planned: RunStarted = field(default_factory=lambda: RunStarted(0, 0, 0, 0, 0, 0.0))
    talks_ended: int = 0
    turns_stored: int = 0
    turns_given_up: int = 0
    calls: int = 0
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
                self.turns_stored += 1
                self.tokens += news.tokens or 0
                self.spent += news.cost or 0.0
                self.unknown_costs += news.cost is None
                self.watched |= news.collapsed is not None
                self.collapsed |= {news.talk} if news.collapsed else set()
            case AttemptFailed():
                self.failed_attempts += 1
                self.last_failure = sanitize(f"{news.talk}: {news.outcome}: {news.reason}")
            case Intervention():
                self.interventions += 1
            case TalkEnded():
                self.turns_given_up += self.planned.turns_each - news.turns
                self.paused += news.outcome == "paused"
                self.talks_ended += news.outcome != "paused"
            case row if hasattr(row, "asked"):  # a TrialRow, slow to import
                self.trials.take(row)
                self.calls += row.asked

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
            # A trial asks several questions per turn, most of them in forks.
            *([f"{self.calls / seconds:,.1f} calls/s"] if self.calls else []),
            f"{self.tokens / seconds:,.0f} tokens/s",
            f"cost {cost}",
            # The gate is decided after the run: until then, every verdict is a mark.
            *([f"{len(self.collapsed):,} {MARK.collapsed}"] if self.watched else []),
            *([plural(self.interventions, "intervention")] if self.interventions else []),
            *([plural(self.failed_attempts, "failed attempt")] if self.failed_attempts else []),
            *([f"{self.paused:,} paused"] if self.paused else []),
        ]
        left = self.seconds_left
        return " · ".join(parts + ([f"{_clock(left)} left"] if left is not None else []))


def showing(progress: RunProgress) -> AbstractContextManager[Subscriber]:
    """Take in news as they come, and show what they add up to."""
    return _live(progress) if err.is_terminal else _lines(progress)


@contextmanager
def _live(progress: RunProgress) -> Iterator[Subscriber]:
    def picture() -> Group:
        bar = ProgressBar(
            max(progress.turns_done + progress.turns_left, 1), progress.turns_done, width=60
        )
        failure = [f"last failure: {progress.last_failure}"] if progress.last_failure else []
        arms = [progress.trials.table(err.width)] if progress.trials.arms else []
        return Group(bar, str(progress), *arms, *failure)

    with Live(get_renderable=picture, console=err, refresh_per_second=4):
        try:
            yield progress.take
        finally:
            progress.trials.outdate()  # the last picture stays, and must show all that was done


@contextmanager
def _lines(progress: RunProgress) -> Iterator[Subscriber]:
    last = time.monotonic()

    def publish(news: News) -> None:
        nonlocal last
        progress.take(news)
        if isinstance(news, AttemptFailed):
            say(f"failed attempt at {progress.last_failure}")
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES or isinstance(news, RunStarted):
            last = time.monotonic()
            say(str(progress))

    yield publish
    if progress.planned.talks:
        say(str(progress))


def _clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> _clock(3_725.0)
    '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def line_of(news: News) -> dict[str, Any]:
    """One piece of news as an object: a hook goes by the name of its point.

    >>> line_of(TalkEnded("control/ledger-1/1", "completed", 12, None))["event"]
    'talk_ended'
    """
    if isinstance(news, Intervention):
        return {"event": NAMES[Intervention], "talk": news.talk, **news.event.as_dict()}
    own = getattr(news, "as_event", None)  # of news that only one kind of study has
    if own is not None:
        line: dict[str, Any] = own()
        return line
    return {"event": NAMES[type(news)], **plain_value(news._asdict())}


@contextmanager
def event_lines(target: str | None) -> Iterator[Subscriber]:
    """A subscriber that appends a line for each piece of news; whoever stops reading stops nobody.

    Every line is written out before the run goes on.
    """
    with ExitStack() as opened:
        if target is None:
            yield lambda news: None
            return
        stream: TextIO | None = sys.stdout
        if target != STANDARD_OUTPUT:
            try:
                stream = opened.enter_context(Path(target).open("a", encoding="utf-8"))
            except OSError as error:
                raise InputError(f"{target} can't be written ({error.strerror})") from error

        def publish(news: News) -> None:
            nonlocal stream
            if stream is None:
                return
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            try:
                stream.write(json.dumps({"at": now, **line_of(news)}, ensure_ascii=False) + "\n")
                stream.flush()
            except OSError as error:
                stream = None
                say(f"{target} takes no more events ({error.strerror}); the run goes on")

        yield publish
