"""Terminal output: safe text, tables, sparklines and progress."""

import sys
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from chimeralab.core import numbers
from chimeralab.core.records import Episode

if TYPE_CHECKING:
    from chimeralab.study import ConditionFlow, Study
    from chimeralab.trial.metrics import Dfs, Gfq, Mci, Metrics

BARS = "▁▂▃▄▅▆▇█"
QUIET_SECONDS = 2.0
# A finished study with more conditions than this is summarised in one line.
MAX_CONDITIONS = 10


class PipedConsole(Console):
    """A console that leaves a broken pipe to the command."""

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - rich calls this while it handles the error


out = PipedConsole(highlight=False, soft_wrap=False)
err = PipedConsole(stderr=True, highlight=False)


def say(message: str) -> None:
    """Print a message for people to stderr, apart from the results on stdout."""
    print(sanitize(message), file=sys.stderr)


def warn_unverified(study: "Study") -> None:
    """Warn that stored verdicts are used as they are; `verify` and `report` recompute them."""
    if study.plan.kind.judged:
        say(f"using stored verdicts; `chimera verify {study.path}` recomputes and checks them")


def sanitize(text: str) -> str:
    """Replace control characters, so that text from a log can't steer the terminal.

    >>> sanitize("red \\x1b[31m alert")
    'red \\ufffd[31m alert'
    >>> sanitize("5\\xa0%")
    '5 %'
    """
    for char in {char for char in set(text) if not char.isprintable()}:
        text = text.replace(char, " " if unicodedata.category(char) == "Zs" else "\ufffd")
    return text


def shorten(text: str, width: int) -> str:
    """Cut the middle out of a long name.

    >>> shorten("logs/2026/run-17.jsonl", 12)
    'logs/202…onl'
    """
    tail = width // 3
    return text if len(text) <= width else text[: width - tail] + "…" + text[len(text) - tail + 1 :]


def keep_end(text: str, width: int) -> str:
    """Shorten a long name from the left, since its end tells it from others.

    >>> keep_end("logs/2026/run-17.jsonl", 12)
    '…un-17.jsonl'
    """
    return text if len(text) <= width else "…" + text[len(text) - width + 1 :]


def keep_ends(text: str, width: int) -> str:
    """Shorten a path in its middle, where files that share a name rarely differ.

    >>> keep_ends("logs/2026/a/run-17.jsonl", 13)
    'logs/2….jsonl'
    """
    head = (width - 1) // 2
    return text if len(text) <= width else f"{text[:head]}…{text[head + 1 - width :]}"


def speaker_label(judged: str) -> str:
    """Name the speaker of the judged turns, for a narrow column.

    >>> speaker_label("assistant turns (chat)"), speaker_label("turns of Ann (asked for)")
    ('assistant', 'Ann')
    """
    name = judged.split(" (", maxsplit=1)[0].removeprefix("turns of ").removesuffix(" turns")
    return shorten(sanitize(name), 9)


def sparkline(values: Sequence[float], marked: Sequence[bool], width: int = 40) -> Text:
    """Draw values from 0 to 1 as bars, marked ones in red; long series are squeezed.

    >>> sparkline([0.0, 0.5, 1.0], [False, False, True]).plain
    '▁▅█'
    """
    text = Text()
    bars = min(width, len(values))
    for n in range(bars):
        part = slice(n * len(values) // bars, (n + 1) * len(values) // bars)
        height = max(0.0, *(value for value in values[part] if not isnan(value)), 0.0)
        bar = BARS[min(int(height * len(BARS)), len(BARS) - 1)]
        text.append(bar, style="bold red" if any(marked[part]) else "cyan")
    return text


def format_spans(episodes: Sequence[Episode], limit: int = 4) -> str:
    """List the first spans of turns.

    >>> format_spans([Episode(5, 9), Episode(12, 12)])
    '5–9, 12'
    """
    shown = [str(e.start) if e.start == e.end else f"{e.start}–{e.end}" for e in episodes[:limit]]
    more = len(episodes) - limit
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def percent(share: float | None) -> str:
    return sanitize(numbers.percent(share))


def new_table(name: str, *headings: str, **first: Any) -> Table:
    """Make a table without borders: a first column that folds, then right-aligned ones."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(name, overflow="fold", **first)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def with_progress(items: Iterable[Any], noun: str) -> Iterator[Any]:
    """Pass items on, and show a counter on stderr if it takes more than two seconds."""
    if not err.is_terminal:
        yield from items
        return
    started = time.monotonic()
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} " + noun),
        BarColumn(pulse_style="cyan"),
        TimeElapsedColumn(),
        console=err,
        transient=True,
    ) as progress:
        task = progress.add_task(noun, total=None, visible=False)
        for item in items:
            yield item
            late = time.monotonic() - started > QUIET_SECONDS
            progress.update(task, advance=1, visible=late)


def summarize_flow(arms: "Sequence[ConditionFlow]", order: Sequence[str]) -> Table | str:
    """Count planned, started and completed conversations by condition, with failures."""
    if len(arms) > MAX_CONDITIONS and all(arm.completed == arm.planned for arm in arms):
        talks, turns = sum(arm.planned for arm in arms), sum(arm.turns for arm in arms)
        return (
            f"all {talks:,} conversations in {len(arms)} conditions are complete ({turns:,} turns)"
        )
    places = {name: place for place, name in enumerate(order)}
    arms = sorted(arms, key=lambda arm: places.get(arm.condition, len(places)))
    # The default outcome has a column of its own; an empty column would only squeeze the names.
    columns = {
        "other outcomes": [(arm.outcomes, "completed") for arm in arms],
        "failed attempts": [(arm.attempts, "answered") for arm in arms],
    }
    texts = {
        heading: [
            ", ".join(f"{n:,} {name}" for name, n in counts.items() if name != usual) or "–"
            for counts, usual in column
        ]
        for heading, column in columns.items()
    }
    texts = {heading: column for heading, column in texts.items() if set(column) != {"–"}}
    table = new_table("condition", "planned", "started", "completed", "open", "turns")
    for heading in texts:
        table.add_column(heading)
    for place, arm in enumerate(arms):
        counts = (arm.planned, arm.attempted, arm.completed, arm.open, arm.turns)
        cells = (f"{count:,}" for count in counts)
        others = (column[place] for column in texts.values())
        table.add_row(sanitize(arm.condition), *cells, *others)
    return table


# With values and intervals on one line, and the least that names need.
NUMBERS_WIDTH = 72
MIN_NAME_WIDTH = 24


def groups_table(by: str, groups: Mapping[str, "Metrics"], width: int) -> Table:
    """Tabulate the metrics by group; in a narrow terminal, intervals go below their values."""
    from chimeralab.trial.measures import PARTS  # noqa: PLC0415 - only for trials

    gap = " " if width >= NUMBERS_WIDTH + MIN_NAME_WIDTH else "\n"
    table = new_table(by, "sessions", "trials", *(name.upper() for name in PARTS))
    for name, metrics in groups.items():
        counts = (f"{metrics.sessions:,}", f"{metrics.trials:,}")
        cells = (_cell(getattr(metrics, metric), gap) for metric in PARTS)
        # With spaces around a plus, the name of an arm can wrap.
        table.add_row(Text(sanitize(name).replace("+", " + ")), *counts, *cells)
    return table


def _cell(metric: "Mci | Gfq | Dfs", gap: str) -> str:
    shown = numbers.number(metric.value, 2)
    if metric.value is None or metric.interval is None:
        return shown
    low, high = (numbers.number(bound, 2) for bound in metric.interval)
    return f"{shown}{gap}({low}–{high})"
