"""The output of `chimera detect`: the verdict, a line per conversation, groups."""

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from itertools import count

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from chimeralab.cli.checks import COLLAPSE, LOOP
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
from chimeralab.core.numbers import percent as percent_of
from chimeralab.core.numbers import plural, short_count, short_time
from chimeralab.core.records import Cost, Detection, Loop, list_verdicts, name_kind
from chimeralab.core.result_words import ResultWords
from chimeralab.detection.cost import BY_MESSAGE, LoopTotals
from chimeralab.detection.verdict import CAVEATS
from chimeralab.stats.clusters import Proportion, cluster_mean, share
from chimeralab.stats.intervals import Interval
from chimeralab.stats.resample import SampleDesign

MAX_ROWS = 40
# In a terminal, rows fill a screen, but for the lines of the headline and of notes: the least lines
# and the others, of the locked table and of loops.
SCREEN = {True: (5, 19), False: (2, 22)}
MIN_WIDTH = 80
LABEL_WIDTH = 20
LOOP_COLUMNS = ("messages", "loop", "since–to", "cost")
Row = tuple[tuple[float, ...], int, list[float], Detection]
SORTS: dict[str, Callable[[Detection], tuple[float, ...]]] = {
    "cost": lambda found: (found.loop_cost.tokens if found.loop_cost else 0,),
    "share": lambda found: ((found.looping_messages or 0) / (found.messages or 1),),
    "messages": lambda found: (found.messages or 0,),
    "onset": lambda found: (-min((each.began for each in found.loops), default=0),),
    "log": lambda found: (),
}
"""What --sort can put first; conversations that loop come first in all but the last."""


class VerdictTable:
    """Collect any number of verdicts, and keep the worst for display.

    `locked` shows the turns of the locked rule; else there is a line for each loop.
    """

    def __init__(
        self,
        group_by: str | None,
        words: ResultWords,
        *,
        locked: bool = True,
        every: bool = False,
        sort: str | None = None,
    ) -> None:
        self.all = VerdictCounts()
        self._group_by, self._words = group_by, words
        self._locked, self._every = locked, every
        self._sort = sort or ("log" if locked else "cost")
        self._limit: float = math.inf if every else MAX_ROWS
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
            self.add_to_group(group, detection, prompt)
        for caveat in detection.warnings:
            self._caveat_turns[caveat.code] += caveat.count
            self._caveat_talks[caveat.code] += 1
        number = -next(self._order)
        if not (self._locked or self._every or detection.looping):
            return
        rate = detection.collapse_rate or 0.0
        rank: tuple[float, ...] = bool(detection.looping), rate
        if not self._locked:
            rank = bool(detection.looping), *SORTS[self._sort](detection), rate
        keep = heapq.heappush if len(self._rows) < self._limit else heapq.heappushpop
        keep(self._rows, (rank, number, nearest, detection))

    def add_to_group(self, group: str, detection: Detection, prompt: str | None = None) -> None:
        """Count a verdict, or a part of one, in a group."""
        self._groups[group].add(detection, prompt)

    def check_group_field(self) -> None:
        if self._group_by:
            check_group_field(self._group_by, self._groups, self._fields)

    def print_headline(self, console: Console) -> None:
        """Print the verdict: what loops, since when, and what that cost."""
        if sentence := self.all.sentence(self._words, locked=self._locked):
            console.print(sentence, soft_wrap=True, style="bold")
        if not self._locked and (costs := self.all.costs.costs()):
            console.print(costs, soft_wrap=True)
        console.print()

    def print_conversations(
        self, console: Console, partly: Sequence[str] = (), *, with_files: bool = False
    ) -> None:
        """Print one row per conversation, `partly` read ones with a mark.

        Ids are shortened from the left, and `show --id` takes them like that.
        """
        spare = max(0, console.width - MIN_WIDTH)
        cells = {} if self._locked else {row[1]: _loop_cells(row[-1], spare) for row in self._rows}
        columns = zip(map(Text, LOOP_COLUMNS), *cells.values(), strict=True)
        taken = sum(2 + max(len(cell.plain) for cell in column) for column in columns)
        width = LABEL_WIDTH + spare // 3 if self._locked else max(LABEL_WIDTH, spare + 78 - taken)
        labels = self._label_rows(width, partly, with_files=with_files)
        rows = self._choose_rows(console, labels)
        if rows and self._locked:
            console.print(self._draw_locked(rows, labels, width, spare))
        elif rows:
            table = new_table("conversation", *LOOP_COLUMNS, max_width=width)
            table.columns[2].justify = table.columns[3].justify = "left"
            for row in rows:
                table.add_row(labels[row[1]], *cells[row[1]])
            console.print(table)
        listed = self.all.conversations if self._locked or self._every else self.all.loops.hits
        if listed > len(rows):
            console.print(
                f"… and {listed - len(rows):,} more. Shown are the {len(rows)} with "
                + (f"loops or with the most {self._words.turns}" if self._locked else "the worst")
                + "; use --json or --out to get all.",
                style="dim",
            )
        if note := self.describe_rest(partly):
            console.print(note, style="dim", soft_wrap=True)

    def describe_rest(self, partly: Sequence[str] = ()) -> str:
        """Count what a list of loops leaves out: also what could not be judged, or only in part."""
        rest = self.all.conversations - self.all.loops.hits
        if self._locked or self._every or not (rest and self.all.loops.total):
            return ""
        note = f"{plural(rest, 'conversation')} without a loop"
        if self.all.too_short:
            note += f", {self.all.too_short:,} too short"
        if partly:
            note += f"; {plural(len(partly), 'log')} partly read"
        return f"{note}: see --all."

    def _draw_locked(
        self, rows: Sequence[Row], labels: Mapping[int, Text], width: int, spare: int
    ) -> Table:
        """The turns that the locked rule judged, and the first loop."""
        collapse, loops = self.all.asked_for_collapse, self.all.loops.total > 0
        table = new_table("conversation", max_width=width)
        table.add_column("judged", no_wrap=True)
        table.add_column("turns" if collapse else "steps", justify="right", no_wrap=True)
        if collapse:
            table.add_column("share", justify="right", no_wrap=True)
            table.add_column(_collapse_heading(self._words), no_wrap=True)
        if collapse and spare:
            table.add_column("similarity", no_wrap=True)
        if loops:
            table.add_column("loop", no_wrap=True)
        for _, number, nearest, detection in rows:
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
            if loops:
                style = "bold red" if detection.looping else "dim"
                cells.append(Text(" ".join(describe_first(detection.loops)).strip(), style=style))
            table.add_row(*cells)
        return table

    def _label_rows(
        self, width: int, partly: Sequence[str], *, with_files: bool
    ) -> dict[int, Text]:
        """Name conversations by id, and by file if ids repeat; keys are numbers of arrival."""
        detections = [row[-1] for row in self._rows]
        repeated = {each.id for each in detections if with_files or self._ids[each.id] > 1}
        files, labels = name_files(detections, width, repeated), dict[int, Text]()
        for _, number, _, detection in self._rows:
            lines = files.get(detection.source or "", [])
            label = labels[number] = Text(keep_end(sanitize(detection.id), width))
            if lines and not self._locked:  # a line for each conversation: its file or its id
                label = labels[number] = Text("\n".join(lines))
            elif lines:
                label.append("\n" + "\n".join(lines), style="dim")
            if (detection.source or "").startswith(tuple(f"{file}:" for file in partly)):
                label.append("\npartly read", style="bold red")
        return labels

    def _choose_rows(self, console: Console, labels: Mapping[int, Text]) -> list[Row]:
        """Choose the worst rows that fit on a screen, in the order asked for."""
        least, others = SCREEN[self._locked]
        room, chosen = max(least, console.height - others), list[Row]()
        for row in sorted(self._rows, key=lambda row: row[:2], reverse=True):
            room -= len(labels[row[1]].plain.splitlines())
            if console.is_terminal and room < 0 and chosen and not self._every:
                break
            chosen.append(row)
        return sorted(chosen, key=lambda row: -row[1]) if self._sort == "log" else chosen

    def print_summary(self, console: Console) -> None:
        """Print what there is besides the verdict: the locked rule, caveats, groups."""
        if not self._locked and (line := self.all.describe_locked(self._words)):
            console.print(f"Locked rule: {line} --full shows its turns.", soft_wrap=True)
        for code, caveat in CAVEATS.items() if self._locked else ():
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
        """Tabulate loops and their cost, or collapse, by group, with 95 % intervals."""
        locked = self._locked and self.all.asked_for_collapse and field not in BY_MESSAGE
        collapse, loops = locked, self.all.loops.total > 0
        shown = [
            *(["loop"] if loops else []),
            *([_collapse_heading(self._words), "share of turns"] if collapse else []),
        ]
        headings = [column for heading in shown for column in (heading, "95 %")]
        headings += ["in loops", "of tokens"] if loops and not collapse else []
        table = new_table(sanitize(field), "n", *headings, min_width=len(field))
        for name, group in sorted(self._groups.items()):
            rate = float(np.mean(group.rates)) if group.rates else None
            loop, collapsed = group.loops.share, group.collapses.share
            cells = [percent(loop.value), _format_interval(loop.interval)] if loops else []
            if collapse:
                cells += [percent(collapsed.value), _format_interval(collapsed.interval)]
                cells += [percent(rate), _format_interval(group.rate_interval)]
            elif loops:
                cells += group.costs.cells()
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
        self.costs = LoopTotals()
        self.asked_for_collapse = False
        self._long_enough = 0

    def add(self, detection: Detection, prompt: str | None) -> None:
        self.conversations += 1
        self.asked_for_collapse |= detection.detector["name"] is not None
        if detection.looping is not None:
            self.costs.add(detection)
            self.loops.add(detection.looping, prompt)
            self._long_enough += (detection.steps or 0) > 2  # two steps hardly ever make a loop
        if detection.collapse_rate is not None:
            self.rates.append(detection.collapse_rate)
            self.collapses.add(bool(detection.collapsed), prompt)

    @property
    def too_short(self) -> int:
        """Conversations with too few steps for a verdict on loops."""
        return self.loops.total - self._long_enough

    def sentence(self, words: ResultWords, *, locked: bool = True) -> str:
        """The verdict in a sentence; with `locked`, also that of the locked rule."""
        parts = []
        if self._long_enough or self.loops.hits:
            parts.append(self.costs.headline())
        if locked and (collapse := self.describe_locked(words)):
            parts.append(collapse)
        return " ".join(parts) or "No conversation is long enough for a verdict."

    def describe_locked(self, words: ResultWords) -> str:
        """What the locked rule found, if it judged any conversation."""
        collapses = self.collapses
        if not collapses.total:
            return ""
        found = collapses.share
        bounds = f"; 95 % interval {_format_interval(found.interval)}" if found.interval else ""
        did = words.was if found.hits == 1 else words.were
        parts = [
            f"{found.hits:,} of {found.n:,} conversations {did} ({percent(found.value)}{bounds})."
        ]
        if collapses.total < self.conversations:
            short = self.conversations - collapses.total
            parts.append(f"{short:,} too short for a collapse verdict.")
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


def format_cost(cost: Cost | None, *, whole: bool = True) -> str:
    """Tokens, then money or else time; in a wide table, both.

    >>> format_cost(Cost(12_345, True, 750.0)), format_cost(Cost(80, False, 9, 0.5), whole=False)
    ('~12k 12 min', '80 0.50')
    """
    if cost is None:
        return ""
    parts = ["~" * cost.estimated + short_count(cost.tokens)]
    parts += [f"{cost.money:,.2f}"] if cost.money else []
    if cost.seconds is not None and (whole or not cost.money):
        parts.append(short_time(cost.seconds))
    return " ".join(parts)


def _loop_cells(detection: Detection, spare: int) -> tuple[Text, ...]:
    """A conversation's messages, its first loop, and what all of its loops cost."""
    kind, span = describe_first(detection.loops)
    cost = format_cost(detection.loop_cost if detection.looping else None, whole=bool(spare))
    style = "bold red" if detection.looping else "dim"
    messages = f"{detection.messages or detection.turns:,}".rjust(len(LOOP_COLUMNS[0]))
    return Text(messages), Text(kind, style=style), Text(span), Text(cost)


def describe_first(loops: Sequence[Loop]) -> tuple[str, str]:
    """The kind and span of the first loop with a verdict, or else of the first notice.

    >>> from chimeralab import detect
    >>> describe_first(detect(["Once more."] * 6, detector=None).loops)
    ('same text again', '1–end')
    """
    verdicts = list_verdicts(loops)
    loop = next(iter(verdicts or loops), None)
    if loop is None:
        return "", ""
    unsure = "?" if loop.level == "notice" else ""
    more = f" +{len(verdicts) - 1}" if len(verdicts) > 1 else ""
    end = "end" if loop.ended is None else str(loop.ended)
    kind = name_kind(loop.kind, loop.period, loop.stream)
    return f"{kind}{unsure}", f"{loop.began}–{end}{more}"


def _collapse_heading(words: ResultWords) -> str:
    """Break a long heading into two lines."""
    return "\n".join(words.collapsed.rsplit(" ", 1))


def _format_interval(interval: Interval | None) -> str:
    if interval is None:
        return "–"
    return f"{100 * interval.low:.0f}–{100 * interval.high:.0f} %"
