"""The output of `chimera detect`: tables, a summary, checks for CI and a JUnit file."""

import heapq
import math
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chimeralab.cli.options import check_group_field
from chimeralab.cli.terminal import (
    format_spans,
    keep_end,
    new_table,
    percent,
    sanitize,
    sparkline,
    speaker_label,
)
from chimeralab.core.errors import InputError
from chimeralab.core.files import atomic_file
from chimeralab.core.numbers import percent as percent_of
from chimeralab.core.numbers import plural
from chimeralab.core.records import Detection, Loop
from chimeralab.core.result_words import ResultWords
from chimeralab.core.text import neutralize
from chimeralab.detection.loops import DetectorPair
from chimeralab.detection.verdict import CAVEATS, findings
from chimeralab.stats.clusters import Proportion, cluster_mean, share
from chimeralab.stats.intervals import Interval
from chimeralab.stats.resample import SampleDesign

MAX_ROWS = 40
# In a terminal, rows fill a screen, but for the lines of the summary and of notes.
MIN_LINES, OTHER_LINES = 5, 19
MIN_WIDTH = 80
LOOP, COLLAPSE, NOTHING_JUDGED = "loop", "collapse", "nothing-judged"
Row = tuple[bool, float, int, list[float], Detection]
NOT_XML = {0xFFFE: "\ufffd", 0xFFFF: "\ufffd"}


class VerdictTable:
    """Collect any number of verdicts, and keep the worst for display."""

    def __init__(self, group_by: str | None, words: ResultWords) -> None:
        self.all = VerdictCounts()
        self._group_by, self._words = group_by, words
        self._fields: set[str] = set()
        self._order = count()
        self._clustered = False
        self._ids = Counter[str]()
        # A heap: loops rank first, then collapse rates, then the negative number of arrival.
        self._rows: list[Row] = []
        self._caveat_turns: Counter[str] = Counter()
        self._caveat_talks: Counter[str] = Counter()
        self._groups: defaultdict[str, VerdictCounts] = defaultdict(VerdictCounts)

    def add(
        self, detection: Detection, nearest: list[float], group: str | None, prompt: str | None
    ) -> None:
        """Add a verdict; conversations with the same `prompt` form a cluster."""
        self.all.add(detection, prompt)
        self._clustered = self._clustered or prompt is not None
        self._fields |= detection.metadata.keys()
        self._ids[detection.id] += 1
        if group is not None:
            self._groups[group].add(detection, prompt)
        for caveat in detection.warnings:
            self._caveat_turns[caveat.code] += caveat.count
            self._caveat_talks[caveat.code] += 1
        rank = bool(detection.looping), detection.collapse_rate or 0.0, -next(self._order)
        keep = heapq.heappush if len(self._rows) < MAX_ROWS else heapq.heappushpop
        keep(self._rows, (*rank, nearest, detection))

    def check_group_field(self) -> None:
        if self._group_by:
            check_group_field(self._group_by, self._groups, self._fields)

    def print_conversations(
        self, console: Console, partly: Sequence[str] = (), *, with_files: bool = False
    ) -> None:
        """Print one row per conversation, in the order of the logs; `partly` read ones are marked.

        Ids are shortened from the left, and `show --id` takes them like that.
        """
        spare = max(0, console.width - MIN_WIDTH)
        collapse, loops = self.all.asked_for_collapse, self.all.loops.total > 0
        width = 20 + spare // 3
        table = new_table("conversation", max_width=width)
        labels = self._label_rows(width, partly, with_files=with_files)
        rows = self._choose_rows(console, labels)
        table.add_column("judged", no_wrap=True)
        table.add_column("turns" if collapse else "steps", justify="right", no_wrap=True)
        if collapse:
            table.add_column("share", justify="right", no_wrap=True)
            table.add_column(_collapse_heading(self._words), no_wrap=True)
        if collapse and spare:
            table.add_column("similarity", no_wrap=True)
        if loops:
            table.add_column("loop", no_wrap=True)
        for _, _, number, nearest, detection in rows:
            cells: list[str | Text] = [labels[number]]
            if collapse:
                spans = Text(format_spans(detection.episodes, limit=2), style="bold red")
                style = "red" if detection.collapsed else ""
                cells += [
                    Text(speaker_label(detection.judged)),
                    str(detection.turns),
                    Text(percent(detection.collapse_rate), style=style),
                    Text("too short") if detection.reason else spans,
                ]
            else:
                cells += ["all", str(detection.steps)]
            if collapse and spare:
                collapsed = set(detection.collapsed)
                marked = [turn in collapsed for turn in range(1, detection.turns + 1)]
                cells.append(sparkline(nearest, marked, min(40, 6 + spare // 2)))
            table.add_row(*cells, *([_loop_cell(detection.loops)] if loops else []))
        console.print(table)
        hidden = self.all.conversations - len(rows)
        if hidden:
            console.print(
                f"… and {hidden:,} more. Shown are the {len(rows)} with loops or with the most "
                f"{self._words.turns}; use --json or --out to get all.",
                style="dim",
            )

    def _label_rows(
        self, width: int, partly: Sequence[str], *, with_files: bool
    ) -> dict[int, Text]:
        """Name conversations by id, and by file if ids repeat; keys are numbers of arrival."""
        detections = [row[-1] for row in self._rows]
        repeated = {each.id for each in detections if with_files or self._ids[each.id] > 1}
        files, labels = name_files(detections, width, repeated), dict[int, Text]()
        for _, _, number, _, detection in self._rows:
            label = labels[number] = Text(keep_end(sanitize(detection.id), width))
            if detection.source in files:
                label.append("\n" + "\n".join(files[detection.source]), style="dim")
            if (detection.source or "").startswith(tuple(f"{file}:" for file in partly)):
                label.append("\npartly read", style="bold red")
        return labels

    def _choose_rows(self, console: Console, labels: Mapping[int, Text]) -> list[Row]:
        """Choose the worst rows that fit on a screen, in the order of the logs."""
        room, chosen = max(MIN_LINES, console.height - OTHER_LINES), list[Row]()
        for row in sorted(self._rows, key=lambda row: row[:3], reverse=True):
            room -= len(labels[row[2]].plain.splitlines())
            if console.is_terminal and room < 0 and chosen:
                break
            chosen.append(row)
        return sorted(chosen, key=lambda row: -row[2])

    def print_summary(self, console: Console) -> None:
        console.print(f"\n{self.all.sentence(self._words)}", soft_wrap=True)
        for code, caveat in CAVEATS.items():
            if turns := self._caveat_turns[code]:
                talks = self._caveat_talks[code]
                where = plural(talks, "conversation")
                note = f"Note: {plural(turns, 'turn')} {caveat} ({where})."
                console.print(note, soft_wrap=True, style="dim")
        if self._group_by:
            console.print()
            console.print(self._group_table(self._group_by))
        if self._clustered:
            note = "Note: intervals treat the conversations on one prompt as a cluster."
            console.print(note, soft_wrap=True, style="dim")

    def _group_table(self, field: str) -> Table:
        """Tabulate loops and collapse by group, with 95 % intervals."""
        collapse, loops = self.all.asked_for_collapse, self.all.loops.total > 0
        shown = [
            *(["loop"] if loops else []),
            *([_collapse_heading(self._words), "share of turns"] if collapse else []),
        ]
        headings = (column for heading in shown for column in (heading, "95 %"))
        table = new_table(sanitize(field), "n", *headings, min_width=len(field))
        for name, group in sorted(self._groups.items()):
            rate = float(np.mean(group.rates)) if group.rates else None
            loop, collapsed = group.loops.share, group.collapses.share
            cells = [percent(loop.value), _format_interval(loop.interval)] if loops else []
            if collapse:
                cells += [percent(collapsed.value), _format_interval(collapsed.interval)]
                cells += [percent(rate), _format_interval(group.rate_interval)]
            table.add_row(Text(sanitize(name)), f"{group.conversations:,}", *cells)
        return table


class Tally:
    """Hits among judged conversations, clustered by prompt."""

    def __init__(self) -> None:
        self._hits = bytearray()  # 1 MB for a million conversations
        self.prompts: list[str] = []

    def add(self, hit: bool, prompt: str | None) -> None:
        self._hits.append(hit)
        if prompt is not None:
            self.prompts.append(prompt)

    @property
    def total(self) -> int:
        return len(self._hits)

    @property
    def hits(self) -> int:
        return sum(self._hits)

    @property
    def share(self) -> Proportion:
        hits = np.array(self._hits, dtype=np.float64)
        design = SampleDesign(clusters=self.prompts) if self.prompts else None
        return share(hits, np.ones_like(hits), design)


class VerdictCounts:
    """Running counts for one group of verdicts."""

    def __init__(self) -> None:
        self.conversations = 0
        self.loops, self.collapses = Tally(), Tally()
        self.rates: list[float] = []
        self.asked_for_collapse = False
        self._long_enough = 0

    def add(self, detection: Detection, prompt: str | None) -> None:
        self.conversations += 1
        self.asked_for_collapse |= detection.detector["name"] is not None
        if detection.looping is not None:
            self.loops.add(detection.looping, prompt)
            self._long_enough += (detection.steps or 0) > 2  # two steps hardly ever make a loop
        if detection.collapse_rate is not None:
            self.rates.append(detection.collapse_rate)
            self.collapses.add(bool(detection.collapsed), prompt)

    def sentence(self, words: ResultWords) -> str:
        parts, collapses = [], self.collapses
        if self._long_enough or self.loops.hits:
            total = plural(self.conversations, "conversation")
            verb = "loops" if 1 in (self.loops.hits, self.conversations) else "loop"
            parts.append(f"{self.loops.hits:,} of {total} {verb}.")
        if collapses.total:
            found = collapses.share
            bounds = f"; 95 % interval {_format_interval(found.interval)}" if found.interval else ""
            did = words.was if found.hits == 1 else words.were
            parts.append(
                f"{found.hits:,} of {found.n:,} conversations {did}"
                f" ({percent(found.value)}{bounds})."
            )
            if collapses.total < self.conversations:
                short = self.conversations - collapses.total
                parts.append(f"{short:,} too short for a collapse verdict.")
        elif not parts:
            parts.append("No conversation is long enough for a verdict.")
        return " ".join(parts)

    def failures(self, failing: Set[str], max_share: float) -> Iterator[str]:
        """Explain each failed check; every check fails if nothing could be judged."""
        if failing and not max(self.collapses.total, self._long_enough):
            yield "nothing could be judged: no conversation is long enough"
            return
        for name, tally in {LOOP: self.loops, COLLAPSE: self.collapses}.items():
            if name not in failing:
                continue
            if not tally.total:
                yield f"no conversation could be judged for {name}"
            elif tally.hits > max_share * tally.total:
                rate = percent_of(tally.hits / tally.total)
                limit = f"at most {percent_of(max_share)}" if max_share else "none"
                total = plural(tally.total, "conversation")
                yield f"{name} in {tally.hits:,} of {total} ({rate}); {limit} allowed"

    @property
    def rate_interval(self) -> Interval | None:
        # Identical rates say nothing about their spread, so the interval is undefined, not empty.
        if len(set(self.rates)) < 2:
            return None
        clusters = self.collapses.prompts or range(len(self.rates))
        return cluster_mean(self.rates, clusters).share_interval()


def name_files(
    detections: Sequence[Detection], width: int, repeated: Container[str]
) -> dict[str, list[str]]:
    """Name the sources of conversations whose ids are `repeated` or look the same, in lines.

    Names are shortened from the left to one line, to two lines, and so on, until they differ.
    """
    groups = defaultdict[str, list[Detection]](list)
    for each in detections:
        groups[keep_end(sanitize(each.id), width)].append(each)
    named: dict[str, list[str]] = {}
    for group in groups.values():
        if len(group) == 1 and group[0].id not in repeated:
            continue
        sources = {each.source or "": sanitize(each.source or "") for each in group}
        longest = max(map(len, sources.values()))
        for size in count(width, width):
            names = {source: keep_end(name, size) for source, name in sources.items()}
            if len(set(names.values())) == len(names) or size > longest:
                break
        cut = range(0, size, width)
        named |= {key: [name[n : n + width] for n in cut] for key, name in names.items()}
    return named


def nearest_similarities(detection: Detection) -> list[float]:
    """Get each turn's similarity to the closer of the two turns before it, from the trace."""
    pairs = ((turn.s1, turn.s2) for turn in detection.trace or ())
    return [max((s for s in pair if s is not None), default=math.nan) for pair in pairs]


def _loop_cell(loops: Sequence[Loop]) -> Text:
    """Describe the first loop with a verdict, or else the first notice."""
    verdicts = [loop for loop in loops if loop.level == "verdict"]
    shown = next(iter(verdicts or loops), None)
    if shown is None:
        return Text("")
    until = "" if shown.ended is None else f" to {shown.ended}"
    more = f" (+{len(verdicts) - 1})" if len(verdicts) > 1 else ""
    if verdicts:
        return Text(f"{shown.kind} from {shown.began}{until}{more}", style="bold red")
    return Text(f"{shown.kind}? from {shown.began}{until}", style="dim")


def _collapse_heading(words: ResultWords) -> str:
    """Break a long heading into two lines."""
    return "\n".join(words.collapsed.rsplit(" ", 1))


def _format_interval(interval: Interval | None) -> str:
    if interval is None:
        return "–"
    return f"{100 * interval.low:.0f}–{100 * interval.high:.0f} %"


def parse_checks(options: Mapping[str, Any], judges: DetectorPair) -> tuple[set[str], float]:
    """Parse --fail-on and --max-share; reject checks that could never fail."""
    failing = {*options["fail_on"], *([COLLAPSE] if options["fail_on_collapse"] else [])}
    max_share = options["max_share"]
    if max_share is not None and not failing & {LOOP, COLLAPSE}:
        failing.add(LOOP if judges.loops else COLLAPSE)
    if LOOP in failing and judges.loops is None:
        raise InputError("--fail-on loop needs the loop detector; leave out --detector locked")
    if COLLAPSE in failing and judges.collapse is None:
        raise InputError(
            "--fail-on collapse needs the collapse verdict; leave out --no-vectors and"
            " --detector loops"
        )
    return failing, max_share or 0.0


class JUnit:
    """Write verdicts as JUnit test cases, if there is a path.

    A loop or a collapse is a failure; if --fail-on names only one of the two, only that one is.
    """

    def __init__(self, path: Path | None, failing: Set[str]) -> None:
        if path and path.suffix.lower() != ".xml":
            raise InputError(f"--junit {path}: the file name must end in .xml")
        if path and not path.parent.is_dir():
            raise InputError(f"--junit {path}: folder {path.parent} does not exist")
        self._path = path
        self._counted = failing & {LOOP, COLLAPSE} or {LOOP, COLLAPSE}
        self._cases: list[ET.Element] = []

    def add(self, detection: Detection) -> None:
        if self._path is None:
            return
        place = (detection.source or "chimera").rpartition(":")[0] or detection.source or "chimera"
        case = ET.Element("testcase", classname=_xml(place), name=_xml(detection.id), time="0")
        found = {LOOP: bool(detection.looping), COLLAPSE: bool(detection.collapsed)}
        kinds = [name for name in found if found[name] and name in self._counted]
        if kinds:
            lines = list(findings(detection))
            attributes = {"message": _xml(lines[0]), "type": " and ".join(kinds)}
            ET.SubElement(case, "failure", attributes).text = _xml("\n".join(lines))
        elif detection.collapse_rate is None and (detection.steps or 0) <= 2:
            reason = detection.reason or f"no verdict: {plural(detection.steps or 0, 'step')}"
            ET.SubElement(case, "skipped", message=_xml(reason))
        self._cases.append(case)

    def write(self, summary: str) -> None:
        """Write the file, with the summary as its output."""
        if self._path is None:
            return
        failures, skipped = (
            str(sum(case.find(tag) is not None for case in self._cases))
            for tag in ("failure", "skipped")
        )
        root = ET.Element("testsuites")
        suite = ET.SubElement(
            root,
            "testsuite",
            id="0",
            package="chimera",
            name="detect",
            tests=str(len(self._cases)),
            failures=failures,
            errors="0",
            time="0",
            skipped=skipped,
            timestamp=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S"),
            hostname="localhost",
        )
        ET.SubElement(suite, "properties")
        suite.extend(self._cases)
        ET.SubElement(suite, "system-out").text = _xml(summary)
        ET.SubElement(suite, "system-err")
        ET.indent(root)
        with atomic_file(self._path) as part:
            ET.ElementTree(root).write(part, encoding="utf-8", xml_declaration=True)


def _xml(text: str) -> str:
    """Replace the characters that XML doesn't allow."""
    return neutralize(text).translate(NOT_XML)
