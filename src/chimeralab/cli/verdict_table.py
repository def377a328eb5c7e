"""What `chimera detect` says of many verdicts: tables, a summary, checks for CI, a JUnit file."""

import heapq
import math
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chimeralab.cli.options import check_group_field
from chimeralab.cli.terminal import format_spans, percent, sanitize, sparkline, speaker_label
from chimeralab.core.errors import InputError
from chimeralab.core.files import replacing
from chimeralab.core.numbers import counted
from chimeralab.core.numbers import percent as percent_of
from chimeralab.core.records import Detection, Loop
from chimeralab.core.result_words import ResultWords
from chimeralab.core.text import inert
from chimeralab.detection.loops import Judges
from chimeralab.detection.verdict import CAVEATS, findings
from chimeralab.stats.clusters import Proportion, cluster_mean, share
from chimeralab.stats.intervals import Interval
from chimeralab.stats.resample import SampleDesign

MAX_ROWS = 40
MIN_WIDTH = 80
LOOP, COLLAPSE, NOTHING_JUDGED = "loop", "collapse", "nothing-judged"
NOT_XML = {0xFFFE: "\ufffd", 0xFFFF: "\ufffd"}


def nearest_of(detection: Detection) -> list[float]:
    """Each turn's similarity to the nearer of the two before it, where there is a trace."""
    pairs = ((turn.s1, turn.s2) for turn in detection.trace or ())
    return [max((s for s in pair if s is not None), default=math.nan) for pair in pairs]


class VerdictTable:
    """Collects verdicts. However many come, it keeps the most collapsed ones to show."""

    def __init__(self, group_by: str | None, words: ResultWords) -> None:
        self.all = VerdictCounts()
        self._group_by, self._words = group_by, words
        self._fields: set[str] = set()
        self._order = count()
        self._clustered = False
        # Loops come first, then rates, and of equal ones the earlier: its number, negative.
        self._rows: list[tuple[bool, float, int, list[float], Detection]] = []
        self._caveat_turns: Counter[str] = Counter()
        self._caveat_talks: Counter[str] = Counter()
        self._groups: defaultdict[str, VerdictCounts] = defaultdict(VerdictCounts)

    @property
    def conversations(self) -> int:
        return self.all.conversations

    def add(
        self, detection: Detection, nearest: list[float], group: str | None, prompt: str | None
    ) -> None:
        """Take a verdict.

        Conversations of a study that share a `prompt` are not independent of each other.
        """
        self.all.add(detection, prompt)
        self._clustered = self._clustered or prompt is not None
        self._fields |= detection.metadata.keys()
        if group is not None:
            self._groups[group].add(detection, prompt)
        for caveat in detection.warnings:
            self._caveat_turns[caveat.code] += caveat.count
            self._caveat_talks[caveat.code] += 1
        rank = bool(detection.looping), detection.collapse_rate or 0.0, -next(self._order)
        keep = heapq.heappush if len(self._rows) < MAX_ROWS else heapq.heappushpop
        keep(self._rows, (*rank, nearest, detection))

    def check_group_field(self) -> None:
        """Raise when the conversations should be grouped by something that none of them has."""
        if self._group_by:
            check_group_field(self._group_by, self._groups, self._fields)

    def print_conversations(self, console: Console) -> None:
        """The rows in the order in which they were read."""
        spare = max(0, console.width - MIN_WIDTH)
        collapse, loops = self.all.asked_for_collapse, self.all.loops.judged > 0
        table = Table(box=None, pad_edge=False, header_style="bold")
        # An id is folded, never cut: it has to be pasted into `--id`.
        table.add_column("conversation", overflow="fold", max_width=20 + spare // 3)
        table.add_column("judged", no_wrap=True)
        table.add_column("turns" if collapse else "steps", justify="right", no_wrap=True)
        if collapse:
            table.add_column("share", justify="right", no_wrap=True)
            table.add_column(_heading(self._words), no_wrap=True)
        if collapse and spare:
            table.add_column("similarity", no_wrap=True)
        if loops:
            table.add_column("loop", no_wrap=True)
        for _, _, _, nearest, detection in sorted(self._rows, key=lambda row: -row[2]):
            cells: list[str | Text] = [
                Text(sanitize(detection.id)),
                *(_collapse_cells(detection) if collapse else ("all", str(detection.steps))),
            ]
            if collapse and spare:
                collapsed = set(detection.collapsed)
                marked = [turn in collapsed for turn in range(1, detection.turns + 1)]
                cells.append(sparkline(nearest, marked, min(40, 6 + spare // 2)))
            table.add_row(*cells, *([_loop_cell(detection.loops)] if loops else []))
        console.print(table)
        hidden = self.conversations - len(self._rows)
        if hidden:
            console.print(
                f"… and {hidden:,} more; these are the {MAX_ROWS} that loop or have the largest "
                f"shares of {self._words.turns}. --json and --out have all.",
                style="dim",
            )

    def print_summary(self, console: Console) -> None:
        console.print(f"\n{self.all.sentence(self._words)}", soft_wrap=True)
        for code, caveat in CAVEATS.items():
            if turns := self._caveat_turns[code]:
                talks = self._caveat_talks[code]
                note = f"Note: turns {caveat}: {turns:,} in {counted(talks, 'conversation')}."
                console.print(note, soft_wrap=True, style="dim")
        if self._group_by:
            console.print()
            console.print(self._group_table(self._group_by))
        if self._clustered:
            note = "Note: intervals take the conversations on one prompt as one cluster."
            console.print(note, soft_wrap=True, style="dim")

    def _group_table(self, field: str) -> Table:
        """How many of each group loop and collapsed, with 95 % intervals."""
        collapse, loops = self.all.asked_for_collapse, self.all.loops.judged > 0
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column(sanitize(field), overflow="fold", min_width=len(field))
        table.add_column("n", justify="right", no_wrap=True)
        shown = [
            *(["loop"] if loops else []),
            *([_heading(self._words), "share of turns"] if collapse else []),
        ]
        for heading in shown:
            table.add_column(heading, justify="right", no_wrap=True)
            table.add_column("95 %", justify="right", no_wrap=True)
        for name in sorted(self._groups):
            group = self._groups[name]
            rate = float(np.mean(group.rates)) if group.rates else None
            loop, collapsed = group.loops.share, group.collapses.share
            cells = [percent(loop.value), _between(loop.interval)] if loops else []
            if collapse:
                cells += [percent(collapsed.value), _between(collapsed.interval)]
                cells += [percent(rate), _between(group.rate_interval)]
            table.add_row(Text(sanitize(name)), f"{group.conversations:,}", *cells)
        return table


class Tally:
    """How many of the judged conversations are hits; those on one prompt are one cluster."""

    def __init__(self) -> None:
        self._hits = bytearray()  # of a million conversations it takes a megabyte
        self.prompts: list[str] = []

    def add(self, hit: bool, prompt: str | None) -> None:
        self._hits.append(hit)
        if prompt is not None:
            self.prompts.append(prompt)

    @property
    def judged(self) -> int:
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
    """Running counts of one group of verdicts."""

    def __init__(self) -> None:
        self.conversations = 0
        self.loops, self.collapses = Tally(), Tally()
        self.rates: list[float] = []
        self.asked_for_collapse = False
        self._watched = 0

    def add(self, detection: Detection, prompt: str | None) -> None:
        self.conversations += 1
        self.asked_for_collapse |= detection.detector["name"] is not None
        if detection.looping is not None:
            self.loops.add(detection.looping, prompt)
            self._watched += (detection.steps or 0) > 2  # two steps hardly ever make a loop
        if detection.collapse_rate is not None:
            self.rates.append(detection.collapse_rate)
            self.collapses.add(bool(detection.collapsed), prompt)

    @property
    def judged(self) -> int:
        """Conversations that some detector could say something about."""
        return max(self.collapses.judged, self._watched)

    def sentence(self, words: ResultWords) -> str:
        said, collapses = [], self.collapses
        if self._watched or self.loops.hits:
            total = counted(self.conversations, "conversation")
            verb = "loops" if 1 in (self.loops.hits, self.conversations) else "loop"
            said.append(f"{self.loops.hits:,} of {total} {verb}.")
        if collapses.judged:
            found = collapses.share
            between = f"; 95 % interval {_between(found.interval)}" if found.interval else ""
            did = words.was if found.hits == 1 else words.were
            said.append(
                f"{found.hits:,} of {found.n:,} conversations {did}"
                f" ({percent(found.value)}{between})."
            )
            if collapses.judged < self.conversations:
                unjudged = self.conversations - collapses.judged
                said.append(f"{unjudged:,} too short for a verdict on collapse.")
        elif not said:
            said.append("No conversation is long enough for a verdict.")
        return " ".join(said)

    def complaints(self, failing: Set[str], max_share: float) -> Iterator[str]:
        """Why a check failed, in sentences; none where it did not.

        Whoever checks anything wants something to be judged.
        """
        if failing and not self.judged:
            yield "nothing could be judged: no conversation is long enough"
            return
        tallies = {LOOP: self.loops, COLLAPSE: self.collapses}
        for name, tally in tallies.items():
            if name not in failing:
                continue
            if not tally.judged:
                yield f"no conversation could be judged for {name}"
            elif tally.hits > max_share * tally.judged:
                share = percent_of(tally.hits / tally.judged)
                allowed = f"at most {percent_of(max_share)} may" if max_share else "none may"
                total = counted(tally.judged, "conversation")
                yield f"{name} in {tally.hits:,} of {total} ({share}); {allowed}"

    @property
    def rate_interval(self) -> Interval | None:
        # Equal rates say nothing about how far the next one may lie: no interval, not a point.
        if len(set(self.rates)) < 2:
            return None
        clusters = self.collapses.prompts or range(len(self.rates))
        return cluster_mean(self.rates, clusters).share_interval()


def _collapse_cells(detection: Detection) -> Iterator[str | Text]:
    """Whose turns were judged for collapse, how many they are, and which of them collapsed."""
    yield Text(speaker_label(detection.judged))
    yield str(detection.turns)
    yield Text(percent(detection.collapse_rate), style="red" if detection.collapsed else "")
    where = Text(format_spans(detection.episodes, most=2), style="bold red")
    yield Text("too short") if detection.reason else where


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


def _between(interval: Interval | None) -> str:
    if interval is None:
        return "–"
    return f"{100 * interval.low:.0f}–{100 * interval.high:.0f} %"


def parse_checks(options: Mapping[str, Any], judges: Judges) -> tuple[set[str], float]:
    """What `--fail-on` and `--max-share` demand: what makes it fail, and above which share.

    A check that could never fail is refused, as nobody would look.
    """
    failing = {*options["fail_on"], *([COLLAPSE] if options["fail_on_collapse"] else [])}
    share = options["max_share"]
    if share is not None and not failing & {LOOP, COLLAPSE}:
        failing.add(LOOP if judges.loops else COLLAPSE)
    if LOOP in failing and judges.loops is None:
        raise InputError("--fail-on loop needs the loop detector; leave out --detector locked")
    if COLLAPSE in failing and judges.collapse is None:
        raise InputError(
            "--fail-on collapse needs the collapse verdict; leave out --no-vectors and"
            " --detector loops"
        )
    return failing, share or 0.0


class JUnit:
    """Verdicts as test cases, the way CI servers read them: what is found is a failure.

    What `--fail-on` names counts; where it names nothing, loops and collapse do. Without a path,
    nothing is kept or written.
    """

    def __init__(self, path: Path | None, failing: Set[str]) -> None:
        if path and path.suffix.lower() != ".xml":
            raise InputError(f"{path}: JUnit's is an .xml file; give --junit a name that ends so")
        if path and not path.parent.is_dir():
            raise InputError(f"{path}: there is no folder {path.parent}; make it first")
        self._path = path
        self._counted = failing & {LOOP, COLLAPSE} or {LOOP, COLLAPSE}
        self._cases: list[ET.Element] = []

    def add(self, detection: Detection) -> None:
        """Take a verdict."""
        if self._path is None:
            return
        place = (detection.source or "chimera").rpartition(":")[0] or detection.source or "chimera"
        case = ET.Element("testcase", classname=_xml(place), name=_xml(detection.id), time="0")
        found = {LOOP: bool(detection.looping), COLLAPSE: bool(detection.collapsed)}
        kinds = [name for name in found if found[name] and name in self._counted]
        told = list(findings(detection))
        if kinds:
            failure = ET.SubElement(
                case, "failure", message=_xml(told[0]), type=" and ".join(kinds)
            )
            failure.text = _xml("\n".join(told))
        elif detection.collapse_rate is None and (detection.steps or 0) <= 2:
            reason = detection.reason or f"no verdict: {counted(detection.steps or 0, 'step')}"
            ET.SubElement(case, "skipped", message=_xml(reason))
        self._cases.append(case)

    def write(self, summary: str) -> None:
        """Write the file, with the summary as its output."""
        if self._path is None:
            return
        counts = {
            "tests": str(len(self._cases)),
            "failures": str(sum(case.find("failure") is not None for case in self._cases)),
            "errors": "0",
            "time": "0",
        }
        root = ET.Element("testsuites")
        named = {"id": "0", "package": "chimera", "name": "detect"}
        suite = ET.SubElement(root, "testsuite", {**named, **counts})
        skipped = sum(case.find("skipped") is not None for case in self._cases)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
        suite.attrib |= {"skipped": str(skipped), "timestamp": now, "hostname": "localhost"}
        ET.SubElement(suite, "properties")
        suite.extend(self._cases)
        ET.SubElement(suite, "system-out").text = _xml(summary)
        ET.SubElement(suite, "system-err")
        ET.indent(root)
        with replacing(self._path) as part:
            ET.ElementTree(root).write(part, encoding="utf-8", xml_declaration=True)


def _xml(text: str) -> str:
    """Text of others with no character that XML can't hold."""
    return inert(text).translate(NOT_XML)
