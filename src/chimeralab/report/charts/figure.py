"""A figure of a report: drawn for a wide screen, for a phone, and for print and slides."""

from collections.abc import Callable
from typing import NamedTuple

import altair as alt
import vl_convert
from altair.utils.schemapi import debug_mode
from markupsafe import Markup

from chimeralab.report.charts.timeline import Chart, coarse
from chimeralab.report.theme import NARROW, WIDE

PNG_SCALE = 2
# The version of the chart language that Altair writes, without its last digit.
VEGA_LITE = alt.SCHEMA_VERSION.removeprefix("v").rpartition(".")[0]


class Figure(NamedTuple):
    """A drawn figure under the name of its files, and the same in words."""

    name: str
    label: str
    wide: Markup
    narrow: Markup | None
    png: bytes


def draw(name: str, label: str, chart: Callable[[int], Chart]) -> Figure:
    """Draw a chart that comes in any width."""
    # Altair checks every number of a chart against its schema, which takes as long as drawing it.
    with debug_mode(False):
        return _figure(name, label, svg(chart(WIDE)), svg(chart(NARROW)))


def draw_square(name: str, label: str, chart: Chart) -> Figure:
    """Draw a chart that looks the same everywhere."""
    return _figure(name, label, svg(chart), None)


def _figure(name: str, label: str, wide: str, narrow: str | None) -> Figure:
    picture: bytes = vl_convert.svg_to_png(wide, scale=PNG_SCALE)
    # Drawings of our own: the few names in them are escaped by the renderer, as a test holds.
    phone = Markup(narrow) if narrow is not None else None  # noqa: S704
    return Figure(name, label, Markup(wide), phone, picture)  # noqa: S704


def svg(chart: Chart) -> str:
    """The chart as SVG text, its coordinates without decimals far below a pixel."""
    spec = chart.to_dict(validate=False)
    text: str = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
    return coarse(text)
