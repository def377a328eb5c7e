"""What people see in a terminal: safe text, sparklines, spans, a bar when it takes long,
and where a study stands."""

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

BARS = "▁▂▃▄▅▆▇█"
QUIET_SECONDS = 2.0
COUNTS = ("planned", "begun", "completed", "open", "turns")
# So many conditions that are all done are a line.
MANY = 10


class PipedConsole(Console):
    """A console that leaves it to the command to end when the reader of its output has gone."""

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - rich calls this while it handles the error


out = PipedConsole(highlight=False, soft_wrap=False)
err = PipedConsole(stderr=True, highlight=False)


def say(message: str) -> None:
    """A line for the person at the terminal, away from the results on stdout."""
    print(sanitize(message), file=sys.stderr)


def warn_unverified(study: "Study") -> None:
    """Say that verdicts are believed here; `verify` and `report` compute them again."""
    if study.plan.kind.judged:
        say(f"verdicts as they are stored, unchecked; `chimera verify {study.path}` checks them")


def sanitize(text: str) -> str:
    """Text of a log without control characters: it must not steer the terminal.

    >>> sanitize("red \\x1b[31m alert")
    'red \\ufffd[31m alert'
    >>> sanitize("5\\xa0%")
    '5 %'
    """
    odd = {char for char in set(text) if not char.isprintable()}
    for char in odd:
        text = text.replace(char, " " if unicodedata.category(char) == "Zs" else "\ufffd")
    return text


def shorten(text: str, width: int) -> str:
    """A long name without its middle.

    >>> shorten("logs/2026/run-17.jsonl", 12)
    'logs/202…onl'
    """
    tail = width // 3
    return text if len(text) <= width else text[: width - tail] + "…" + text[len(text) - tail + 1 :]


def speaker_label(judged: str) -> str:
    """Whose turns were judged, for a narrow column.

    >>> speaker_label("assistant turns (chat)"), speaker_label("turns of Ann (asked for)")
    ('assistant', 'Ann')
    """
    name = judged.split(" (", maxsplit=1)[0].removeprefix("turns of ").removesuffix(" turns")
    return shorten(sanitize(name), 9)


def sparkline(values: Sequence[float], marked: Sequence[bool], width: int = 40) -> Text:
    """Similarities from 0 to 1 as bars; marked ones in red. Long series are squeezed.

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


def format_spans(episodes: Sequence[Episode], most: int = 4) -> str:
    """Collapsed spans in words.

    >>> format_spans([Episode(5, 9), Episode(12, 12)])
    '5–9, 12'
    """
    shown = [str(e.start) if e.start == e.end else f"{e.start}–{e.end}" for e in episodes[:most]]
    more = len(episodes) - most
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def percent(share: float | None) -> str:
    return sanitize(numbers.percent(share))


def with_progress(items: Iterable[Any], noun: str) -> Iterator[Any]:
    """Pass items on; when it takes over two seconds, show on stderr how far it got."""
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
    """What was planned, what became of it, and which questions had to be asked again."""
    if len(arms) > MANY and all(arm.completed == arm.planned for arm in arms):
        talks, turns = sum(arm.planned for arm in arms), sum(arm.turns for arm in arms)
        return (
            f"all {talks:,} conversations of {len(arms)} conditions are complete: {turns:,} turns"
        )
    places = {name: place for place, name in enumerate(order)}
    arms = sorted(arms, key=lambda arm: places.get(arm.condition, len(places)))
    ends = [_listed(arm.outcomes, "completed") for arm in arms]
    failed = [_listed(arm.attempts, "answered") for arm in arms]
    # A column that has nothing to say would only squeeze the names.
    told = {"other ends": ends, "failed attempts": failed}
    told = {heading: column for heading, column in told.items() if set(column) != {"–"}}
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("condition", overflow="fold")
    for heading in COUNTS:
        table.add_column(heading, justify="right")
    for heading in told:
        table.add_column(heading)
    for place, arm in enumerate(arms):
        counts = (arm.planned, arm.attempted, arm.completed, arm.open, arm.turns)
        cells = (f"{count:,}" for count in counts)
        table.add_row(sanitize(arm.condition), *cells, *(column[place] for column in told.values()))
    return table


def _listed(counts: Mapping[str, int], but: str) -> str:
    return ", ".join(f"{n:,} {name}" for name, n in counts.items() if name != but) or "–"
