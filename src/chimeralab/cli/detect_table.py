"""The table that `chimera detect` prints: the conversations, a count, and a summary by group."""

import heapq
from collections import defaultdict
from itertools import count
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chimeralab.cli.terminal import percent, plain, spans, sparkline
from chimeralab.detection import Measured
from chimeralab.records import Detection
from chimeralab.stats.intervals import Interval, t_interval, wilson

MOST_ROWS = 40


class ResultTable:
    """Collects verdicts. However many come, it keeps the most collapsed ones to show."""

    def __init__(self, group_by: str | None) -> None:
        self._group_by = group_by
        self._order = count()
        self._rows: list[tuple[float, int, list[Any]]] = []
        self._all = Tally()
        self._groups: defaultdict[str, Tally] = defaultdict(Tally)

    @property
    def conversations(self) -> int:
        return self._all.conversations

    @property
    def collapsed(self) -> int:
        return self._all.collapsed

    def add(self, measured: Measured, detection: Detection) -> None:
        self._all.add(detection)
        if self._group_by:
            self._groups[group_name(measured, self._group_by)].add(detection)
        entry = (detection.collapse_rate or 0.0, -next(self._order), _cells(measured, detection))
        keep = heapq.heappush if len(self._rows) < MOST_ROWS else heapq.heappushpop
        keep(self._rows, entry)

    def print_conversations(self, console: Console) -> None:
        """The rows in the order in which they were read."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("conversation", overflow="fold", ratio=3)
        for heading in ("turns", "collapsed", "first"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("similarity to the last two turns", no_wrap=True)
        table.add_column("collapsed turns, notes", overflow="fold", ratio=2)
        for _, _, cells in sorted(self._rows, key=lambda row: -row[1]):
            table.add_row(*cells)
        console.print(table)
        hidden = self.conversations - len(self._rows)
        if hidden:
            console.print(
                f"… and {hidden:,} more; these are the {MOST_ROWS} most collapsed."
                " --json and --out have all.",
                style="dim",
            )

    def print_summary(self, console: Console) -> None:
        console.print(f"\n{self._all.sentence()}")
        if self._group_by:
            console.print(_group_table(self._group_by, self._groups))


class Tally:
    """Running counts of one group of verdicts."""

    def __init__(self) -> None:
        self.conversations = 0
        self.collapsed = 0
        self.rates: list[float] = []

    def add(self, detection: Detection) -> None:
        self.conversations += 1
        self.collapsed += bool(detection.collapsed)
        if detection.collapse_rate is not None:
            self.rates.append(detection.collapse_rate)

    @property
    def judged(self) -> int:
        return len(self.rates)

    def sentence(self) -> str:
        unjudged = self.conversations - self.judged
        short = f" {unjudged:,} too short for a verdict." if unjudged else ""
        if not self.judged:
            return f"No conversation is long enough for a verdict.{short}"
        share = f"{percent(self.collapsed / self.judged)}, {_between(self.incidence_interval())}"
        return f"{self.collapsed:,} of {self.judged:,} conversations collapsed ({share}).{short}"

    def incidence_interval(self) -> Interval:
        return wilson(self.collapsed, self.judged)

    def rate_interval(self) -> Interval | None:
        if self.judged < 2:
            return None
        error = float(np.std(self.rates, ddof=1)) / self.judged**0.5
        return t_interval(float(np.mean(self.rates)), error, self.judged - 1)


def group_name(measured: Measured, field: str) -> str:
    """The value of a metadata field; models are found at the turns too."""
    value = measured.trajectory.metadata.get(field)
    if value is None and field == "model":
        value = "+".join(sorted({turn.model for turn in measured.series.turns if turn.model}))
    return str(value) if value not in (None, "") else f"(no {field})"


def _cells(measured: Measured, detection: Detection) -> list[Any]:
    nearest = np.fmax(measured.similarities[:, 0], measured.similarities[:, 1])
    collapsed = set(detection.collapsed)
    marked = [turn in collapsed for turn in range(1, detection.turns + 1)]
    return [
        Text(plain(detection.id)),
        str(detection.turns),
        Text(percent(detection.collapse_rate), style="red" if collapsed else ""),
        str(detection.first_collapse_turn or "–"),
        sparkline(nearest.tolist(), marked),
        _notes(detection),
    ]


def _notes(detection: Detection) -> Text:
    notes = [f"{warning.count} {_SHORT[warning.code]}" for warning in detection.warnings]
    if detection.reason:
        notes.insert(0, "too short for a verdict")
    text = Text(spans(detection.episodes), style="bold red")
    separator = "; " if detection.episodes and notes else ""
    return text.append(separator + "; ".join(notes), style="not bold default")


_SHORT = {
    "blank_turns": "blank",
    "truncated_turns": "cut at 256 pieces",
    "repaired_turns": "with broken characters",
    "longer_cycle": "in a longer cycle, not counted",
}


def _group_table(field: str, groups: dict[str, Tally]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(plain(field), overflow="fold")
    for heading in (
        "conversations",
        "collapsed",
        "95 % interval",
        "share of turns",
        "95 % interval",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for name in sorted(groups):
        tally = groups[name]
        mean = float(np.mean(tally.rates)) if tally.rates else None
        incidence = tally.collapsed / tally.judged if tally.judged else None
        table.add_row(
            Text(plain(name)),
            f"{tally.conversations:,}",
            percent(incidence),
            _between(tally.incidence_interval()) if tally.judged else "–",
            percent(mean),
            _between(tally.rate_interval()),
        )
    return table


def _between(interval: Interval | None) -> str:
    if interval is None:
        return "–"
    return f"{100 * max(0.0, interval.low):.0f}–{100 * min(1.0, interval.high):.0f} %"
