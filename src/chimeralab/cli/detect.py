"""`chimera detect`: which conversations collapsed, from logs judged now or from a study's store."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chimeralab.cli.options import (
    DETECTOR_OPTIONS,
    LOG_OPTIONS,
    Logs,
    group_name,
    is_study,
    take_detector,
    with_options,
)
from chimeralab.cli.terminal import (
    err,
    out,
    percent,
    plain,
    say,
    shortened,
    spans,
    sparkline,
    with_progress,
)
from chimeralab.core.errors import InputError
from chimeralab.core.files import json_text
from chimeralab.core.numbers import counted
from chimeralab.core.records import Detection
from chimeralab.core.tables import check_table_name, open_table
from chimeralab.detection import Measurer, measurer_for, verdict
from chimeralab.detection.detectors import Detector, Locked, in_brief
from chimeralab.detection.verdict import (
    CAVEATS,
    CONVERSATION_COLUMNS,
    TURN_COLUMNS,
    as_json,
    flat_rows,
    from_json,
)
from chimeralab.embedding.encoder import Encoder
from chimeralab.stats.clusters import cluster_mean, share
from chimeralab.stats.design import SampleDesign
from chimeralab.stats.intervals import Interval

MOST_ROWS = 40
MIN_WIDTH = 80


@click.command()
@with_options(*LOG_OPTIONS)
@click.option("--json", "json", is_flag=True, help="One JSON object per conversation and line.")
@click.option("--trace", is_flag=True, help="Add what the detector saw at every turn.")
@click.option("--group-by", metavar="FIELD", help="Summarise by a field such as model, condition.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the results to a .jsonl, .csv or .parquet file.",
)
@click.option("--fail-on-collapse", is_flag=True, help="Exit with 1 if any conversation collapsed.")
@with_options(*DETECTOR_OPTIONS)
def detect(**options: Any) -> None:
    """Say which conversations collapsed, where, and why.

    PATH is a log, a folder of logs, a pattern, - for standard input, or a study. Formats are told
    by their content, packed with gzip or zstd or not; --format lists them.

    A turn is collapsed when it repeats the last turn (similarity at least 0.92) or the one before
    (0.90), and so did the two turns before it. Changing any of these settings leaves the locked
    operating point, and the output says so.
    """
    detector = take_detector(options)
    source = judge_study if is_study(options["paths"]) else judge_logs
    with _written(options["out"], trace=options["trace"]) as write:
        judging = source(detector, options)
        table = ResultTable(options["group_by"])
        for judged in judging.verdicts:
            table.add(judged)
            write(judged.detection)
            if options["json"]:
                click.echo(json_text(as_json(judged.detection)))
    if not table.conversations:
        raise InputError(f"no conversation could be read from {', '.join(options['paths'])}")
    if not options["json"]:
        table.print_conversations(out)
        table.print_summary(out)
    elif options["group_by"]:
        # Standard output holds the JSON lines alone.
        table.print_summary(err)
    say(judging.how())
    if table.collapsed and options["fail_on_collapse"]:
        raise click.exceptions.Exit(1)


@contextmanager
def _written(path: Path | None, *, trace: bool) -> Iterator[Callable[[Detection], None]]:
    """A function that writes a verdict to the file the user asked for, if any."""
    if path is None:
        yield lambda detection: None
        return
    check_table_name(path)
    nested = path.suffix == ".jsonl"
    with open_table(path, TURN_COLUMNS if trace else CONVERSATION_COLUMNS) as write:

        def write_detection(detection: Detection) -> None:
            for row in [as_json(detection)] if nested else flat_rows(detection):
                write(row)

        yield write_detection


class Judged(NamedTuple):
    """A verdict, and what the table shows beside it.

    ``nearest`` has each turn's similarity to the nearer of the two before it; ``prompt`` is what
    conversations of a study share that are not independent of each other.
    """

    detection: Detection
    nearest: list[float]
    group: str | None
    prompt: str | None = None


class Judging(NamedTuple):
    """Verdicts as they come, and a line on how they were reached, to be asked for afterwards."""

    verdicts: Iterator[Judged]
    how: Callable[[], str]


def judge_logs(detector: Locked, options: dict[str, Any]) -> Judging:
    """Read logs and judge every conversation."""
    logs = Logs(options["paths"], options["format"], skip_bad=options["skip_bad"])
    open_encoder = partial(Encoder, cache_file=options["cache"])
    measurer = measurer_for(detector, open_encoder, speaker=options["speaker"])
    field = options["group_by"]

    def verdicts() -> Iterator[Judged]:
        for measured in with_progress(measurer.measure(logs.read()), "conversations"):
            detection = verdict(measured, detector, measurer.encoder, trace=options["trace"])
            group = group_name(measured, field) if field else None
            near = measured.similarities[:, :2]
            nearest = np.fmax(*near.T).tolist() if near.size else []
            yield Judged(detection, nearest, group)

    return Judging(verdicts(), lambda: _how(measurer, detector))


def judge_study(detector: Locked, options: dict[str, Any]) -> Judging:
    """Judge what a study has not judged yet, and take all of its verdicts."""
    # Imported here: judging a log, the common case, needs no study and should start at once.
    from chimeralab import pipeline  # noqa: PLC0415
    from chimeralab.study import Study  # noqa: PLC0415
    from chimeralab.study.detecting import stored_detections  # noqa: PLC0415

    changed = [*detector.changed, *(name for name in ("format", "speaker") if options[name])]
    if changed:
        raise InputError(
            f"a study is judged as its plan says: leave out --{changed[0]}, or try other settings"
            " with `chimera sweep` on what `chimera export` writes"
        )
    study = Study(options["paths"][0])
    judged = pipeline.detect(study)

    def verdicts() -> Iterator[Judged]:
        field = options["group_by"]
        for row in stored_detections(study):
            detection = from_json(row)
            pairs = ((turn.s1, turn.s2) for turn in detection.trace or ())
            near = [max((s for s in pair if s is not None), default=np.nan) for pair in pairs]
            group = str(detection.metadata.get(field, f"(no {field})")) if field else None
            shown = detection if options["trace"] else replace(detection, trace=None)
            yield Judged(shown, near, group, str(detection.metadata["prompt"]))

    settings = study.plan.detector.settings
    return Judging(
        verdicts(), lambda: f"{in_brief(settings)}; {judged} newly judged, the rest stored"
    )


def _how(measurer: Measurer, detector: Detector) -> str:
    """How the verdicts were reached, in a line."""
    encoder, band = measurer.encoder, measurer.band
    vectors = f"vectors in {encoder.precision}" if encoder else "no vectors"
    checked = (
        f"; {band.recomputed} similarities near a threshold recomputed exactly"
        f" (largest correction {band.largest_error:.1g})"
        if band and band.recomputed
        else ""
    )
    remark = f"; {detector.remark}" if detector.remark else ""
    return f"{in_brief(detector)}; {vectors}{checked}{remark}"


class ConversationRow(NamedTuple):
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
        self._clustered = False
        self._rows: list[ConversationRow] = []
        self._all = VerdictCounts()
        self._caveat_turns: Counter[str] = Counter()
        self._caveat_talks: Counter[str] = Counter()
        self._groups: defaultdict[str, VerdictCounts] = defaultdict(VerdictCounts)

    @property
    def conversations(self) -> int:
        return self._all.conversations

    @property
    def collapsed(self) -> int:
        return self._all.collapsed

    def add(self, judged: Judged) -> None:
        """Take a verdict."""
        detection = judged.detection
        self._all.add(detection, judged.prompt)
        self._clustered = self._clustered or judged.prompt is not None
        if judged.group is not None:
            self._groups[judged.group].add(detection, judged.prompt)
        for caveat in detection.warnings:
            self._caveat_turns[caveat.code] += caveat.count
            self._caveat_talks[caveat.code] += 1
        row = ConversationRow(
            detection.collapse_rate or 0.0, -next(self._order), judged.nearest, detection
        )
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
                note = f"Note: turns {caveat}: {turns:,} in {counted(talks, 'conversation')}."
                console.print(note, soft_wrap=True, style="dim")
        if self._group_by:
            console.print()
            console.print(_group_table(self._group_by, self._groups))
        if self._clustered:
            note = "Note: intervals take the conversations on one prompt as one cluster."
            console.print(note, soft_wrap=True, style="dim")


class VerdictCounts:
    """Running counts of one group of verdicts; conversations on one prompt are one cluster."""

    def __init__(self) -> None:
        self.conversations = 0
        self.rates: list[float] = []
        self._hits: list[bool] = []
        self._prompts: list[str] = []

    def add(self, detection: Detection, prompt: str | None) -> None:
        self.conversations += 1
        if detection.collapse_rate is not None:
            self.rates.append(detection.collapse_rate)
            self._hits.append(bool(detection.collapsed))
            if prompt is not None:
                self._prompts.append(prompt)

    @property
    def collapsed(self) -> int:
        return sum(self._hits)

    @property
    def judged(self) -> int:
        return len(self.rates)

    def sentence(self) -> str:
        unjudged = self.conversations - self.judged
        short = f" {unjudged:,} too short for a verdict." if unjudged else ""
        if not self.judged:
            return f"No conversation is long enough for a verdict.{short}"
        interval = self.incidence_interval()
        between = f"; 95 % interval {_between(interval)}" if interval else ""
        share = f"{percent(self.collapsed / self.judged)}{between}"
        return f"{self.collapsed:,} of {self.judged:,} conversations collapsed ({share}).{short}"

    def incidence_interval(self) -> Interval | None:
        if not self.judged:
            return None
        hits = np.array(self._hits, dtype=np.float64)
        design = SampleDesign(clusters=self._prompts) if self._prompts else None
        return share(hits, np.ones_like(hits), design).interval

    def rate_interval(self) -> Interval | None:
        # Equal rates say nothing about how far the next one may lie: no interval, not a point.
        if len(set(self.rates)) < 2:
            return None
        return cluster_mean(self.rates, self._prompts or range(self.judged)).interval


def _cells(row: ConversationRow, id_width: int, spark_width: int) -> list[str | Text]:
    detection = row.detection
    collapsed = set(detection.collapsed)
    marked = [turn in collapsed for turn in range(1, detection.turns + 1)]
    return [
        Text(shortened(plain(detection.id), id_width)),
        str(detection.turns),
        Text(percent(detection.collapse_rate), style="red" if collapsed else ""),
        str(detection.first_collapse_turn or "–"),
        sparkline(row.nearest, marked, spark_width),
        Text("too short for a verdict")
        if detection.reason
        else Text(spans(detection.episodes), style="bold red"),
    ]


def _group_table(field: str, groups: dict[str, VerdictCounts]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(plain(field), overflow="fold", min_width=len(field))
    for heading in ("n", "collapsed", "95 % interval", "share of turns", "95 % interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name in sorted(groups):
        counts = groups[name]
        mean = float(np.mean(counts.rates)) if counts.rates else None
        incidence = counts.collapsed / counts.judged if counts.judged else None
        table.add_row(
            Text(plain(name)),
            f"{counts.conversations:,}",
            percent(incidence),
            _between(counts.incidence_interval()),
            percent(mean),
            _between(counts.rate_interval()),
        )
    return table


def _between(interval: Interval | None) -> str:
    if interval is None:
        return "–"
    return f"{100 * max(0.0, interval.low):.0f}–{100 * min(1.0, interval.high):.0f} %"
