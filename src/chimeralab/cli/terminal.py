"""What people see in a terminal: safe text, sparklines, spans, and a bar when it takes long."""

import sys
import time
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from chimeralab.core.records import Episode

BARS = "▁▂▃▄▅▆▇█"
QUIET_SECONDS = 2.0

out = Console(highlight=False, soft_wrap=False)
err = Console(stderr=True, highlight=False)


def say(message: str) -> None:
    """A line for the person at the terminal, away from the results on stdout."""
    print(plain(message), file=sys.stderr)


def plain(text: str) -> str:
    """Text of a log without control characters: it must not steer the terminal.

    >>> plain("red \\x1b[31m alert")
    'red \\ufffd[31m alert'
    >>> plain("5\\xa0%")
    '5 %'
    """
    return "".join(char if char.isprintable() else _stand_in(char) for char in text)


def _stand_in(char: str) -> str:
    return " " if unicodedata.category(char) == "Zs" else "\ufffd"


def shortened(text: str, width: int) -> str:
    """A long name without its middle.

    >>> shortened("logs/2026/run-17.jsonl", 12)
    'logs/202…onl'
    """
    tail = width // 3
    return text if len(text) <= width else text[: width - tail] + "…" + text[len(text) - tail + 1 :]


def sparkline(values: Sequence[float], marked: Sequence[bool], width: int = 40) -> Text:
    """Similarities from 0 to 1 as bars; marked ones in red. Long series are squeezed.

    >>> sparkline([0.0, 0.5, 1.0], [False, False, True]).plain
    '▁▅█'
    """
    text = Text()
    if not len(values):
        return text
    for part in np.array_split(np.arange(len(values)), min(width, len(values))):
        height = max(0.0, float(np.nanmax(np.append(np.asarray(values)[part], 0.0))))
        bar = BARS[min(int(height * len(BARS)), len(BARS) - 1)]
        text.append(bar, style="bold red" if any(marked[i] for i in part) else "cyan")
    return text


def spans(episodes: Sequence[Episode], most: int = 4) -> str:
    """Collapsed spans in words.

    >>> spans([Episode(5, 9), Episode(12, 12)])
    '5–9, 12'
    """
    shown = [str(e.start) if e.start == e.end else f"{e.start}–{e.end}" for e in episodes[:most]]
    more = len(episodes) - most
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def with_progress(items: Iterable[Any], noun: str) -> Iterator[Any]:
    """Pass items on; when it takes over two seconds, show on stderr how far it got."""
    started = time.monotonic()
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.completed:,.0f} " + noun),
        BarColumn(pulse_style="cyan"),
        TimeElapsedColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    ) as progress:
        task = progress.add_task(noun, total=None, visible=False)
        for item in items:
            yield item
            late = time.monotonic() - started > QUIET_SECONDS
            progress.update(task, advance=1, visible=late)
