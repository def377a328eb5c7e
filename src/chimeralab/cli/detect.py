"""`chimera detect`: which conversations loop or collapsed, in logs or in a study's store."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
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
from chimeralab.core.records import Detection, Loop
from chimeralab.core.result_words import FACT, ResultWords
from chimeralab.core.tables import check_table_name, open_table
from chimeralab.detection.detectors import LOOPS, Detector, Locked, Loops, in_brief
from chimeralab.detection.loops import loops_beside
from chimeralab.detection.measure import Measurer, measurer_for
from chimeralab.detection.verdict import (
    CAVEATS,
    CONVERSATION_COLUMNS,
    TURN_COLUMNS,
    as_json,
    flat_rows,
    from_json,
    verdict,
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
@click.option(
    "--detector",
    "which",
    type=click.Choice(["both", "locked", "loops"]),
    default="both",
    show_default=True,
    help="The locked collapse detector, the loop detector, or both.",
)
@click.option(
    "--no-vectors",
    is_flag=True,
    help="Judge by words and tool calls alone: quick, without the collapse verdict.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["loop", "collapse", "nothing-judged"]),
    multiple=True,
    help="Exit with 1 if any conversation loops, if any collapsed, or if none could be judged.",
)
@click.option("--fail-on-collapse", is_flag=True, hidden=True)
@with_options(*DETECTOR_OPTIONS)
def detect(**options: Any) -> None:
    """Say which conversations loop or collapsed, where, and why.

    PATH is a log, a folder of logs, a pattern, - for standard input, or a study. Formats are
    recognised by their content, packed with gzip or zstd or not; --format lists them.

    The loop detector finds what people call stuck: the same words, one template, cycles of any
    length, endless goodbyes, repeated tool calls. The locked detector answers a preregistered
    question: a turn is collapsed when it repeats the last turn (similarity at least 0.92) or the
    one before (0.90), and so did the two turns before it. Changing any of these settings leaves
    the locked operating point, and the output says so.
    """
    detector = take_detector(options)
    source = judge_study if is_study(options["paths"]) else judge_logs
    with _written(options["out"], trace=options["trace"]) as write:
        judging = source(detector, options)
        table = ResultTable(options["group_by"], judging.words)
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
    failing = {
        "loop": table.looping > 0,
        "collapse": table.collapsed > 0,
        "nothing-judged": table.judged == 0,
    }
    asked = {*options["fail_on"], *(["collapse"] if options["fail_on_collapse"] else [])}
    if any(failing[name] for name in asked):
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
    """Verdicts as they come, and a line on how they were reached, to be asked for afterwards.

    Those of a study are told in the words that its gate allows.
    """

    verdicts: Iterator[Judged]
    how: Callable[[], str]
    words: ResultWords = FACT


def judge_logs(detector: Locked, options: dict[str, Any]) -> Judging:
    """Read logs and judge every conversation."""
    logs = Logs(options["paths"], options["format"], skip_bad=options["skip_bad"])
    collapse = None if options["no_vectors"] or options["which"] == "loops" else detector
    loops = None if options["which"] == "locked" else LOOPS
    if collapse is None and (detector.changed or loops is None or options["trace"]):
        raise InputError("without vectors there is no collapse verdict; leave out its options")
    open_encoder = partial(Encoder, cache_file=options["cache"])
    measurer = measurer_for(collapse, open_encoder, speaker=options["speaker"])
    field = options["group_by"]

    def verdicts() -> Iterator[Judged]:
        for measured in with_progress(measurer.measure(logs.read()), "conversations"):
            detection = verdict(
                measured, collapse, measurer.encoder, loops=loops, trace=options["trace"]
            )
            group = group_name(measured, field) if field else None
            near = measured.similarities[:, :2]
            nearest = np.fmax(*near.T).tolist() if near.size else []
            yield Judged(detection, nearest, group)

    return Judging(verdicts(), lambda: _how(measurer, collapse, loops))


def judge_study(detector: Locked, options: dict[str, Any]) -> Judging:
    """Judge what a study has not judged yet, and take all of its verdicts."""
    # Imported here: judging a log, the common case, needs no study and should start at once.
    from chimeralab import pipeline  # noqa: PLC0415
    from chimeralab.rating.gate_record import scope_of  # noqa: PLC0415
    from chimeralab.study import Study  # noqa: PLC0415
    from chimeralab.study.auditing import reliability  # noqa: PLC0415
    from chimeralab.study.detecting import stored_detections  # noqa: PLC0415

    asked = [name for name in ("format", "speaker", "no_vectors") if options[name]]
    asked += ["detector"] if options["which"] != "both" else []
    changed = [name.replace("_", "-") for name in (*detector.changed, *asked)]
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

    settings: Detector = study.plan.detector.settings
    used = "; ".join(map(in_brief, dict.fromkeys((loops_beside(settings), settings))))
    words = scope_of(reliability(study)).words
    return Judging(verdicts(), lambda: f"{used}; {judged} newly judged, the rest stored", words)


def _how(measurer: Measurer, detector: Detector | None, loops: Loops | None) -> str:
    """How the verdicts were reached, in a line."""
    parts = [in_brief(loops)] if loops else []
    if detector is None:
        return "; ".join([*parts, "no vectors, so no collapse verdict was computed"])
    encoder, band = measurer.encoder, measurer.band
    parts += [in_brief(detector), f"vectors in {encoder.precision}" if encoder else "no vectors"]
    if band and band.recomputed:
        parts.append(
            f"{band.recomputed} similarities near a threshold recomputed exactly"
            f" (largest correction {band.largest_error:.1g})"
        )
    return "; ".join([*parts, detector.remark] if detector.remark else parts)


class ConversationRow(NamedTuple):
    """A line of the table; loops come first, then rates, and of equal ones the earlier."""

    looping: bool
    rate: float
    minus_order: int
    nearest: list[float]
    detection: Detection


class ResultTable:
    """Collects verdicts. However many come, it keeps the most collapsed ones to show."""

    def __init__(self, group_by: str | None, words: ResultWords) -> None:
        self._group_by = group_by
        self._words = words
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

    @property
    def looping(self) -> int:
        return self._all.looping

    @property
    def judged(self) -> int:
        """Conversations that some detector could say something about."""
        return max(self._all.judged, self._all.watched)

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
            bool(detection.looping),
            detection.collapse_rate or 0.0,
            -next(self._order),
            judged.nearest,
            detection,
        )
        keep = heapq.heappush if len(self._rows) < MOST_ROWS else heapq.heappushpop
        keep(self._rows, row)

    def print_conversations(self, console: Console) -> None:
        """The rows in the order in which they were read."""
        spare = max(0, console.width - MIN_WIDTH)
        collapse = self._all.conversations > self._all.unasked
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("conversation", no_wrap=True)
        table.add_column("judged", no_wrap=True)
        table.add_column("turns", justify="right", no_wrap=True)
        if collapse:
            table.add_column("share", justify="right", no_wrap=True)
            table.add_column(_heading(self._words), no_wrap=True)
        if collapse and spare:
            table.add_column("similarity", no_wrap=True)
        table.add_column("loop", no_wrap=True)
        for row in sorted(self._rows, key=lambda row: -row.minus_order):
            collapsed = set(row.detection.collapsed)
            marked = [turn in collapsed for turn in range(1, row.detection.turns + 1)]
            similarity = [sparkline(row.nearest, marked, min(40, 6 + spare // 2))]
            cells = _cells(row.detection, 20 + spare // 3)
            shown = [*cells.common, *(cells.collapse if collapse else [])]
            shown += similarity if collapse and spare else []
            table.add_row(*shown, _loop_cell(row.detection.loops))
        console.print(table)
        hidden = self.conversations - len(self._rows)
        if hidden:
            console.print(
                f"… and {hidden:,} more; these are the {MOST_ROWS} that loop or have the largest "
                f"shares of {self._words.turns}. --json and --out have all.",
                style="dim",
            )

    def print_summary(self, console: Console) -> None:
        console.print(f"\n{self._all.sentence(self._words)}", soft_wrap=True)
        for code, caveat in CAVEATS.items():
            if turns := self._caveat_turns[code]:
                talks = self._caveat_talks[code]
                note = f"Note: turns {caveat}: {turns:,} in {counted(talks, 'conversation')}."
                console.print(note, soft_wrap=True, style="dim")
        if self._group_by:
            console.print()
            console.print(_group_table(self._group_by, self._groups, self._words))
        if self._clustered:
            note = "Note: intervals take the conversations on one prompt as one cluster."
            console.print(note, soft_wrap=True, style="dim")


class VerdictCounts:
    """Running counts of one group of verdicts; conversations on one prompt are one cluster."""

    def __init__(self) -> None:
        self.conversations = 0
        self.watched = self.looping = self.unasked = 0
        self.rates: list[float] = []
        self._hits: list[bool] = []
        self._prompts: list[str] = []

    def add(self, detection: Detection, prompt: str | None) -> None:
        self.conversations += 1
        self.watched += (detection.steps or 0) > 2  # two steps can't loop, whatever they say
        self.looping += bool(detection.looping)
        self.unasked += detection.detector["name"] is None
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

    def sentence(self, words: ResultWords) -> str:
        said = [f"{self.looping:,} of {counted(self.conversations, 'conversation')} loop."]
        said = said if self.watched or self.looping else []
        unjudged = self.conversations - self.judged
        if self.judged:
            interval = self.incidence_interval()
            between = f"; 95 % interval {_between(interval)}" if interval else ""
            share = f"{percent(self.collapsed / self.judged)}{between}"
            did = words.was if self.collapsed == 1 else words.were
            said.append(f"{self.collapsed:,} of {self.judged:,} conversations {did} ({share}).")
            if unjudged:
                said.append(f"{unjudged:,} too short for a verdict on collapse.")
        elif not said:
            said.append("No conversation is long enough for a verdict.")
        return " ".join(said)

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


class RowCells(NamedTuple):
    """The cells of a row that are always there, and those of the collapse verdict."""

    common: list[str | Text]
    collapse: list[str | Text]


def _cells(detection: Detection, id_width: int) -> RowCells:
    who = detection.judged.split(" (")[0].removeprefix("turns of ").removesuffix(" turns")
    rate = Text(percent(detection.collapse_rate), style="red" if detection.collapsed else "")
    where = Text(spans(detection.episodes, most=2), style="bold red")
    return RowCells(
        [
            Text(shortened(plain(detection.id), id_width)),
            Text(shortened(plain(who), 9)),
            str(detection.turns),
        ],
        [rate, Text("too short") if detection.reason else where],
    )


def _loop_cell(loops: Sequence[Loop]) -> Text:
    """The first loop with a verdict, or else the first that is a mere notice."""
    verdicts = [loop for loop in loops if loop.level == "verdict"]
    shown = next(iter(verdicts or loops), None)
    if shown is None:
        return Text("")
    until = "" if shown.ended is None else f" to {shown.ended}"
    more = f" (+{len(verdicts) - 1})" if len(verdicts) > 1 else ""
    if verdicts:
        return Text(f"{shown.kind} from {shown.began}{until}{more}", style="bold red")
    return Text(f"{shown.kind}? from {shown.began}{until}", style="dim")


def _heading(words: ResultWords) -> str:
    """Narrow enough for a column, on two lines if need be."""
    return "\n".join(words.collapsed.rsplit(" ", 1))


def _group_table(field: str, groups: dict[str, VerdictCounts], words: ResultWords) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(plain(field), overflow="fold", min_width=len(field))
    for heading in ("n", _heading(words), "95 % interval", "share of turns", "95 % interval"):
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
