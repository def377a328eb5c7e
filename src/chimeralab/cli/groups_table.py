"""One row a group of trials, with its three metrics: names fold and numbers are never cut."""

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from chimeralab.cli.terminal import plain
from chimeralab.sandbox.metrics import PARTS, Dfs, Gfq, Mci, Metrics

# Everything but the names, with each interval beside its value, and what a name needs at least.
WIDTH_OF_NUMBERS = 72
WIDTH_OF_NAMES = 24


def groups_table(by: str, groups: Mapping[str, Metrics], width: int) -> Table:
    """The table for a terminal of some width; a narrow one has intervals under their values."""
    gap = " " if width >= WIDTH_OF_NUMBERS + WIDTH_OF_NAMES else "\n"
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(by, overflow="fold")
    for heading in ("sessions", "trials", *(name.upper() for name in PARTS)):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, metrics in groups.items():
        counts = (f"{metrics.sessions:,}", f"{metrics.trials:,}")
        cells = (_cell(getattr(metrics, metric), gap) for metric in PARTS)
        table.add_row(_foldable(name), *counts, *cells)
    return table


def _foldable(name: str) -> Text:
    """Blanks around a plus let the name of an arm wrap between its stressors."""
    return Text(plain(name).replace("+", " + "))


def _cell(metric: Mci | Gfq | Dfs, gap: str) -> str:
    if metric.value is None:
        return "–"
    between = metric.interval
    more = "" if between is None else f"{gap}({between.low:.2f}–{between.high:.2f})"
    return f"{metric.value:.2f}{more}"
