"""How far the raters of a study agree, as its gate record has it."""

from collections.abc import Mapping
from typing import Any

from chimeralab.core.numbers import between, number
from chimeralab.report.claims import Reliability
from chimeralab.report.table import Dash, Shown, Table, known, table
from chimeralab.stats.intervals import Interval

FIGURES = ("n_valid", "n_total", "agreement", "kappa", "pabak", "ac1")


def reliability_table(reliability: Reliability) -> Table:
    """Agreement of the raters over all items and in each stratum."""
    panels = {"all items": reliability.figures, **reliability.by_stratum}
    rows = [[name, *_row(figures)] for name, figures in panels.items()]
    raw = [
        {"items": name, **{key: figures.get(key) for key in FIGURES}}
        for name, figures in panels.items()
    ]
    headings = ("items", "rated", "agreement", "kappa (95 % interval)", "PABAK", "AC1")
    return table("reliability", headings, rows, raw)


def _row(figures: Mapping[str, Any]) -> list[Shown]:
    agreement, pabak, ac1 = (_figure(figures, name) for name in ("agreement", "pabak", "ac1"))
    rated = f"{figures['n_valid']:,} of {figures['n_total']:,}"
    return [rated, agreement, _kappa(figures), pabak, ac1]


def _figure(figures: Mapping[str, Any], name: str) -> Shown:
    return known(number(figures[name], 2), figures[name], figures["reasons"].get(name))


def _kappa(figures: Mapping[str, Any]) -> Shown:
    value, bounds = figures["kappa"], figures["kappa_ci_score"]
    if value is None:
        return Dash(figures["reasons"].get("kappa", "unknown"))
    return f"{number(value, 2)} ({between(Interval(*bounds) if bounds else None, 2)})"
