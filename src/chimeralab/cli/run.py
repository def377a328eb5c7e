"""`chimera run`: run the planned conversations and show the progress.

A terminal gets a live display, a log file a line now and then, other programs JSON Lines.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click
from rich.console import Group
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table

from chimeralab import pipeline
from chimeralab.cli.options import CODE_OPTION, JSON_OPTION, STUDY_ARGUMENT, ask_consent
from chimeralab.cli.terminal import err, groups_table, out, sanitize, say, summarize_flow
from chimeralab.core.errors import InputError
from chimeralab.core.numbers import format_clock, plural
from chimeralab.core.records import plain_value
from chimeralab.core.result_words import MARK
from chimeralab.core.schema import json_text
from chimeralab.runner import (
    AttemptFailed,
    Intervention,
    News,
    RevisionChanged,
    RunStarted,
    Subscriber,
    TalkEnded,
    TurnStored,
)
from chimeralab.study import RunOptions, Study
from chimeralab.study.subjects import allow_keys

if TYPE_CHECKING:
    from chimeralab.trial.metrics import Metrics, MetricWeights, RunningMetrics
    from chimeralab.trial.trials import TrialRow

SECONDS_BETWEEN_LINES = 30.0
SECONDS_BETWEEN_TABLES = 5.0
# Pause this many times as long as a table took, so that tables use less than 5 % of the time.
PAUSE_FACTOR = 20
STANDARD_OUTPUT = "-"
NAMES: dict[type, str] = {
    RunStarted: "run_started",
    TurnStored: "turn_stored",
    AttemptFailed: "attempt_failed",
    Intervention: "intervened",
    TalkEnded: "talk_ended",
    RevisionChanged: "revision_changed",
}


@click.command()
@STUDY_ARGUMENT
@click.option(
    "--concurrency", type=click.IntRange(1), help="Number of conversations to run at the same time."
)
@click.option(
    "--max-cost", type=click.FloatRange(0), help="Stop when the study has cost this much."
)
@click.option(
    "--max-hours",
    type=click.FloatRange(0, min_open=True),
    help="Stop this run after this many hours.",
)
@click.option(
    "--watch/--no-watch",
    default=True,
    help="Count collapsed conversations live (up to 64 at the same time).",
)
@click.option(
    "--events",
    metavar="FILE|-",
    help="Append events to this file as JSON Lines; - is standard output.",
)
@CODE_OPTION
@JSON_OPTION
def run(
    path: Path, allow_code: bool | None, as_json: bool, events: str | None, **options: Any
) -> None:
    """Run the planned conversations, or resume where an earlier run stopped.

    Ctrl-C stops after the requests in flight; a second Ctrl-C cancels them. The exit code is 1 if
    conversations are left to run. The options apply to this run only.
    """
    if as_json and events == STANDARD_OUTPUT:
        raise InputError(
            "--json and --events - both write to standard output; give --events a file"
        )
    study = Study(path, ask_consent(allow_code))
    allow_keys(study.plan)  # before the live display, which would hide the question
    # The table of a run that is finished is the one of `chimera measure`, order included.
    scenarios = list(dict.fromkeys(talk.prompt.id for talk in study.talks))
    monitor = TrialMonitor(getattr(study.plan.own, "weights", None), scenarios)
    progress = RunProgress(trials=monitor)
    monitor.go_on_from(study.plan.kind.load_rows(study))
    with event_lines(events) as write_event, show_progress(progress) as show:

        def publish(news: News) -> None:
            write_event(news)
            show(news)
            if isinstance(news, RevisionChanged):
                say(sanitize(news.sentence))

        done = pipeline.run(study, RunOptions(**options), publish)
    if as_json:
        click.echo(json_text({**done.as_dict(), "complete": done.complete}, indent=2))
    elif events == STANDARD_OUTPUT:
        say("stopped: " + sanitize(done.stopped) if done.stopped else "done")
    else:
        out.print(summarize_flow(done.arms, list(study.plan.conditions)))
        if not done.locked:
            click.echo("exploratory: the plan was not locked before the run")
        if done.stopped:
            click.echo(f"stopped: {sanitize(done.stopped)}")
        if not done.complete:
            left = plural(sum(arm.open for arm in done.arms), "conversation")
            click.echo(f"{left} left; run the same command again to continue")
    raise click.exceptions.Exit(0 if done.complete else 1)


class TrialMonitor:
    """The metrics of a trial by arm, with a table that is recomputed every few seconds at most.

    It holds the rows of open sessions only, and sums of those that ended.
    """

    def __init__(
        self, weights: "MetricWeights | None" = None, scenarios: Sequence[str] = ()
    ) -> None:
        self._weights, self._scenarios = weights, scenarios
        self._ended: dict[str, RunningMetrics] = {}
        self._open: defaultdict[tuple[str, str], list[TrialRow]] = defaultdict(list)
        self._table = Table()
        self._due = 0.0

    def __bool__(self) -> bool:
        """Whether there is anything to show."""
        return bool(self._ended or self._open)

    def add(self, row: "TrialRow") -> None:
        self._open[str(row.arm), row.session].append(row)

    def go_on_from(self, stored: Iterable[tuple[Sequence["TrialRow"], bool]]) -> None:
        """Add what earlier runs scored, session by session; some sessions have not ended."""
        for rows, ended in stored:
            for row in rows:
                self.add(row)
            if ended:
                self.end(rows[0].session)

    def end(self, session: str) -> None:
        """Reduce a session that has ended to its sums."""
        for arm, name in [key for key in self._open if key[1] == session]:
            self._sums_of(arm).add(self._open.pop((arm, name)))

    def _sums_of(self, arm: str) -> "RunningMetrics":
        # Imported here: most runs are self-play and don't need it.
        from chimeralab.trial.metrics import PUBLISHED, RunningMetrics  # noqa: PLC0415

        if arm not in self._ended:
            weights = self._weights or PUBLISHED
            self._ended[arm] = RunningMetrics(weights, scenarios=self._scenarios)
        return self._ended[arm]

    def table(self, width: int) -> Table:
        """Tabulate the metrics of each arm, with intervals over the scenarios so far."""
        started = time.monotonic()
        if started >= self._due:
            self._table = groups_table("arm", self.measure(), width)
            now = time.monotonic()
            self._due = now + max(SECONDS_BETWEEN_TABLES, PAUSE_FACTOR * (now - started))
        return self._table

    def invalidate(self) -> None:
        """Force the next table to be recomputed, as at the end of a run."""
        self._due = 0.0

    def measure(self) -> "dict[str, Metrics]":
        """Compute the metrics of each arm so far, as `chimera measure --by arm` does."""
        arms = {
            arm: deepcopy(self._sums_of(arm)) for arm in {*self._ended, *(a for a, _ in self._open)}
        }
        for (arm, _), rows in self._open.items():
            arms[arm].add(rows)
        return {arm: arms[arm].measure() for arm in sorted(arms)}


@dataclass
class RunProgress:
    """Counts over the events of a run."""

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

    def add(self, news: News) -> None:
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
                self.trials.end(news.talk)
            case row if hasattr(row, "asked"):  # a TrialRow, slow to import
                self.trials.add(row)
                self.calls += row.asked

    @property
    def turns_done(self) -> int:
        return self.planned.turns_stored + self.turns_stored

    @property
    def turns_left(self) -> int:
        """Turns still to come, without those of conversations that ended early."""
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
            # A trial makes several calls per turn.
            *([f"{self.calls / seconds:,.1f} calls/s"] if self.calls else []),
            f"{self.tokens / seconds:,.0f} tokens/s",
            f"cost {cost}",
            # The gate is decided after the run; until then, verdicts are marks.
            *([f"{len(self.collapsed):,} {MARK.collapsed}"] if self.watched else []),
            *([plural(self.interventions, "intervention")] if self.interventions else []),
            *([plural(self.failed_attempts, "failed attempt")] if self.failed_attempts else []),
            *([f"{self.paused:,} paused"] if self.paused else []),
        ]
        left = self.seconds_left
        return " · ".join(parts + ([f"{format_clock(left)} left"] if left is not None else []))


def show_progress(progress: RunProgress) -> AbstractContextManager[Subscriber]:
    """Show progress live in a terminal, or as lines elsewhere."""
    return show_live(progress) if err.is_terminal else show_lines(progress)


@contextmanager
def show_live(progress: RunProgress) -> Iterator[Subscriber]:
    def render() -> Group:
        bar = ProgressBar(
            max(progress.turns_done + progress.turns_left, 1), progress.turns_done, width=60
        )
        failure = [f"last failure: {progress.last_failure}"] if progress.last_failure else []
        arms = [progress.trials.table(err.width)] if progress.trials else []
        # A bar ends without a line break: what follows it would be cropped.
        return Group(Padding(bar), str(progress), *arms, *failure)

    with Live(get_renderable=render, console=err, refresh_per_second=4):
        try:
            yield progress.add
        finally:
            progress.trials.invalidate()  # the last display stays, so it must be complete


@contextmanager
def show_lines(progress: RunProgress) -> Iterator[Subscriber]:
    last = time.monotonic()

    def publish(news: News) -> None:
        nonlocal last
        progress.add(news)
        if isinstance(news, AttemptFailed):
            say(f"failed attempt: {progress.last_failure}")
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES or isinstance(news, RunStarted):
            last = time.monotonic()
            say(str(progress))

    yield publish
    if progress.planned.talks:
        say(str(progress))
    if progress.trials:
        err.print(progress.trials.table(err.width))


def line_of(news: News) -> dict[str, Any]:
    """Convert an event to the JSON object that --events writes.

    >>> line_of(TalkEnded("control/ledger-1/1", "completed", 12, None))["event"]
    'talk_ended'
    """
    if isinstance(news, Intervention):
        return {"event": NAMES[Intervention], "talk": news.talk, **news.event.as_dict()}
    own = getattr(news, "as_event", None)  # events of one kind of study only
    if own is not None:
        line: dict[str, Any] = own()
        return line
    return {"event": NAMES[type(news)], **plain_value(news._asdict())}


@contextmanager
def event_lines(target: str | None) -> Iterator[Subscriber]:
    """Yield a subscriber that writes a line per event; a write error doesn't stop the run."""
    with ExitStack() as opened:
        if target is None:
            yield lambda news: None
            return
        stream: TextIO | None = sys.stdout
        if target != STANDARD_OUTPUT:
            try:
                stream = opened.enter_context(Path(target).open("a", encoding="utf-8"))
            except OSError as error:
                raise InputError(
                    f"--events {target} can't be written ({error.strerror})"
                ) from error

        def publish(news: News) -> None:
            nonlocal stream
            if stream is None:
                return
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            try:
                stream.write(json_text({"at": now, **line_of(news)}) + "\n")
                stream.flush()
            except OSError as error:
                stream = None
                say(f"no more events are written to {target} ({error.strerror}); the run continues")

        yield publish
