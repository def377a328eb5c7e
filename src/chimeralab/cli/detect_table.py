"""The table that `chimera detect` prints: the conversations, a count, and a summary by group."""

import heapq
from collections import Counter, defaultdict
from itertools import count
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chimeralab.cli.terminal import percent, plain, shortened, spans, sparkline
from chimeralab.core.records import Detection
from chimeralab.detection import Measured
from chimeralab.detection.verdict import CAVEATS
from chimeralab.stats.intervals import Interval, t_interval, wilson

MOST_ROWS = 40
MIN_WIDTH = 80


class Row(NamedTuple):
    """A line of the table; rows compare by rate, and of equal ones the later is the lesser."""

    rate: float
    minus_order: int
    nearest: list[float]
    detection: Detection


class ResultTable:
    """Collects verdicts. However many come, it keeps the most collapsed ones to show."""

    def __init__(self, group_by: str | None) -> None:
        self._group_by = group_by
        self._order = count()
        self._rows: list[Row] = []
        self._all = Tally()
        self._caveat_turns: Counter[str] = Counter()
        self._caveat_talks: Counter[str] = Counter()
        self._groups: defaultdict[str, Tally] = defaultdict(Tally)

    @property
    def conversations(self) -> int:
        return self._all.conversations

    @property
    def collapsed(self) -> int:
        return self._all.collapsed

    def add(self, detection: Detection, nearest: list[float], group: str | None) -> None:
        """Take a verdict, with each turn's similarity to the nearer of the two before it."""
        self._all.add(detection)
        if group is not None:
            self._groups[group].add(detection)
        for caveat in detection.warnings:
            self._caveat_turns[caveat.code] += caveat.count
            self._caveat_talks[caveat.code] += 1
        row = Row(detection.collapse_rate or 0.0, -next(self._order), nearest, detection)
        keep = heapq.heappush if len(self._rows) < MOST_ROWS else heapq.heappushpop
        keep(self._rows, row)

    def print_conversations(self, console: Console) -> None:
        """The rows in the order in which they were read."""
        spare = console.width - MIN_WIDTH
        id_width, spark_width = 22 + max(0, spare) // 2, min(40, 16 + max(0, spare) // 3)
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("conversation", no_wrap=True)
        for heading in ("turns", "share", "first"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("similarity", no_wrap=True)
        table.add_column("where", no_wrap=True)
        for row in sorted(self._rows, key=lambda row: -row.minus_order):
            table.add_row(*_cells(row, id_width, spark_width))
        console.print(table)
        hidden = self.conversations - len(self._rows)
        if hidden:
            console.print(
                f"… and {hidden:,} more; these are the {MOST_ROWS} most collapsed."
                " --json and --out have all.",
                style="dim",
            )

    def print_summary(self, console: Console) -> None:
        console.print(f"\n{self._all.sentence()}", soft_wrap=True)
        for code, caveat in CAVEATS.items():
            if turns := self._caveat_turns[code]:
                talks = self._caveat_talks[code]
                note = f"Note: turns {caveat}: {turns:,} in {_counted(talks)}."
                console.print(note, soft_wrap=True, style="dim")
        if self._group_by:
            console.print()
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
        interval = _between(self.incidence_interval())
        share = f"{percent(self.collapsed / self.judged)}; 95 % interval {interval}"
        return f"{self.collapsed:,} of {self.judged:,} conversations collapsed ({share}).{short}"

    def incidence_interval(self) -> Interval:
        return wilson(self.collapsed, self.judged)

    def rate_interval(self) -> Interval | None:
        # Equal rates say nothing about how far the next one may lie: no interval, not a point.
        if len(set(self.rates)) < 2:
            return None
        error = float(np.std(self.rates, ddof=1)) / self.judged**0.5
        return t_interval(float(np.mean(self.rates)), error, self.judged - 1)


def nearest(measured: Measured) -> list[float]:
    """How close each turn is to the nearer of the two before it."""
    if not measured.similarities.shape[1]:
        return []
    values: list[float] = np.fmax(*measured.similarities[:, :2].T).tolist()
    return values


def group_name(measured: Measured, field: str) -> str:
    """The value of a metadata field; models are found at the turns too."""
    value = measured.trajectory.metadata.get(field)
    if value is None and field == "model":
        value = "+".join(sorted({turn.model for turn in measured.series.turns if turn.model}))
    return str(value) if value not in (None, "") else f"(no {field})"


def _cells(row: "Row", id_width: int, spark_width: int) -> list[str | Text]:
    detection = row.detection
    collapsed = set(detection.collapsed)
    marked = [turn in collapsed for turn in range(1, detection.turns + 1)]
    return [
        Text(shortened(plain(detection.id), id_width)),
        str(detection.turns),
        Text(percent(detection.collapse_rate), style="red" if collapsed else ""),
        str(detection.first_collapse_turn or "–"),
        sparkline(row.nearest, marked, spark_width),
        Text("too short for a verdict") if detection.reason else _spans(detection),
    ]


def _spans(detection: Detection) -> Text:
    return Text(spans(detection.episodes), style="bold red")


def _group_table(field: str, groups: dict[str, Tally]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(plain(field), overflow="fold", min_width=len(field))
    for heading in ("n", "collapsed", "95 % interval", "share of turns", "95 % interval"):
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


def _counted(conversations: int) -> str:
    return f"{conversations:,} conversation{'' if conversations == 1 else 's'}"


def _between(interval: Interval | None) -> str:
    if interval is None:
        return "–"
    return f"{100 * max(0.0, interval.low):.0f}–{100 * min(1.0, interval.high):.0f} %"
