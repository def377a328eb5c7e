"""Colours, fonts, labels and rendering shared by all charts.

Channels are given as classes, `x2=alt.X2("to:Q")` rather than `x2="to:Q"`, because Altair hashes
its whole schema to find the class of a bare value.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import altair as alt
import vl_convert
from altair.utils.schemapi import debug_mode
from markupsafe import Markup

from chimeralab.core.text import neutralize

Chart = alt.LayerChart
Row = dict[str, Any]
# Two lines above a row: its name and its numbers.
Label = tuple[str, str]
# Positions in pixels; Altair leaves these classes untyped.
XValue: Any = alt.XValue
X2Value: Any = alt.X2Value
YValue: Any = alt.YValue
Y2Value: Any = alt.Y2Value

# Okabe and Ito's palette, distinguishable with all common kinds of colour blindness.
BLUE = "#0072B2"
GREEN = "#009E73"
PURPLE = "#CC79A7"
ORANGE = "#E69F00"
SKY = "#56B4E9"
VERMILION = "#D55E00"

SERIES_COLOURS = (BLUE, GREEN, PURPLE, ORANGE, SKY)
SERIES_SHAPES = ("circle", "triangle-up", "square", "diamond", "cross")

# Vermilion is reserved for collapse and violet for loops; text uses the darker shade.
COLLAPSE = VERMILION
COLLAPSE_INK = "#9C4500"
LOOP = "#7A4FD0"
LOOP_INK = "#5A2FB0"

INK = "#24292f"
FAINT_INK = "#57606a"
GRID = "#e4e7eb"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

# Plot widths in pixels: for a page, for a phone, and for a square.
WIDE = 620
NARROW = 240
SQUARE = 300

THEME: dict[str, Any] = {
    "background": "white",
    "font": FONT,
    # The reader's font may be wider than the one used for layout.
    "padding": {"left": 6, "top": 4, "right": 16, "bottom": 4},
    "view": {"stroke": None},
    "axis": {
        "labelColor": FAINT_INK,
        "labelFontSize": 12,
        "titleColor": INK,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 10,
        "gridColor": GRID,
        "domainColor": FAINT_INK,
        "tickColor": FAINT_INK,
    },
    "legend": {
        "labelColor": INK,
        "labelFontSize": 12,
        "titleColor": INK,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
    "text": {"color": INK, "fontSize": 12},
}

# Line height in pixels.
LINE = 16
# Approximate width of a letter in pixels.
LETTER = 6.6
DASHES = ([1, 0], [6, 3], [2, 2])


def layer_charts(layers: Sequence[alt.Chart], width: int, height: float) -> Chart:
    """Layer charts, with the theme of the project."""
    return alt.LayerChart(layer=list(layers), width=width, height=height, config=THEME)


def data(rows: Iterable[Row]) -> alt.InlineData:
    return alt.InlineData(values=list(rows))


def pixel_scale(height: float) -> alt.Scale:
    """A scale in pixels from the top."""
    return alt.Scale(domain=[0, height], nice=False, reverse=True, zero=False)


def labels(
    rows: Sequence[Label], tops: Sequence[float], height: float, width: int
) -> Iterator[alt.Chart]:
    """Draw the labels of all rows at the left edge, with a halo."""
    names: list[Row] = []
    numbers: list[Row] = []
    for (name, shown), top in zip(rows, tops, strict=True):
        names.append({"top": top, "text": truncate(name, width, bold=True)})
        numbers.append({"top": top + LINE, "text": truncate(shown, width)})
    halo = {"stroke": "white", "strokeWidth": 4, "strokeJoin": "round"}
    yield _words([*names, *numbers], height, color="white", **halo)
    yield _words(names, height, color=INK, fontWeight="bold")
    yield _words(numbers, height, color=FAINT_INK)


def _words(lines: Sequence[Row], height: float, **style: Any) -> alt.Chart:
    chart = alt.Chart(data(lines))
    mark: alt.Chart = chart.mark_text(align="left", baseline="top", **style)
    top = alt.Y("top:Q", axis=None, scale=pixel_scale(height))
    return mark.encode(x=XValue(0), y=top, text=alt.Text("text:N"))


def truncate(text: str, width: float, *, bold: bool = False) -> str:
    """Truncate a text to a width in pixels.

    >>> truncate("a rather long name of a condition", 100)
    'a rather long…'
    """
    text = " ".join(neutralize(text).split())
    limit = max(1, int(width / (LETTER * (1.08 if bold else 1))))
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def series_style(place: int) -> tuple[str, str, list[int]]:
    """Colour, shape and dash of the nth series, so that series differ in more than colour.

    The dashes change when the colours repeat.

    >>> series_style(0)[0] == series_style(5)[0], series_style(0)[1] == series_style(5)[1]
    (True, False)
    """
    turn, first = divmod(place, len(SERIES_COLOURS))
    shape = SERIES_SHAPES[(first + turn) % len(SERIES_SHAPES)]
    return SERIES_COLOURS[first], shape, list(DASHES[turn % len(DASHES)])


def series_scales(names: Sequence[str]) -> list[alt.Scale]:
    """Scales for the colour, shape and dash of these series."""
    looks = [series_style(place) for place in range(len(names))]
    return [
        alt.Scale(domain=list(names), range=[each[aspect] for each in looks]) for aspect in range(3)
    ]


def legend(names: Sequence[str], width: int, **style: Any) -> alt.Legend:
    """A legend below the chart, in as many columns as fit."""
    longest = max((len(name) for name in names), default=1) * LETTER + 56
    columns = max(1, min(len(names), int(width // longest)))
    style = {"symbolSize": 80, "labelLimit": width, "columnPadding": 24, **style}
    return alt.Legend(orient="bottom", columns=columns, offset=6, title=None, **style)


PNG_SCALE = 2
# The major and minor version of Vega-Lite that Altair writes.
VEGA_LITE = alt.SCHEMA_VERSION.removeprefix("v").rpartition(".")[0]


class Figure(NamedTuple):
    """A rendered figure with the name of its files, captions, and a text alternative (`label`).

    It is drawn for a wide screen and for a phone, unless it looks the same on both.
    """

    name: str
    label: str
    wide: Markup
    narrow: Markup | None
    title: str = ""
    captions: Sequence[str] = ()

    @property
    def png(self) -> bytes:
        """The figure for print and slides."""
        picture: bytes = vl_convert.svg_to_png(str(self.wide), scale=PNG_SCALE)
        return picture


def draw(
    name: str,
    label: str,
    chart: Callable[[int], Chart],
    *,
    title: str = "",
    captions: Sequence[str] = (),
) -> Figure:
    """Render a chart for a wide screen and for a phone."""
    # Validation against the schema takes as long as rendering.
    with debug_mode(False):
        # Safe: the renderer escapes the names in a chart, as a test checks.
        wide, narrow = Markup(render_svg(chart(WIDE))), Markup(render_svg(chart(NARROW)))  # noqa: S704
    return Figure(name, label, wide, narrow, title, captions)


def draw_square(name: str, label: str, chart: Chart, *, captions: Sequence[str] = ()) -> Figure:
    """Render a chart that looks the same everywhere."""
    return Figure(name, label, Markup(render_svg(chart)), None, captions=captions)  # noqa: S704


def render_svg(chart: Chart) -> str:
    """Render a chart as SVG, offline, with rounded coordinates."""
    spec = chart.to_dict(validate=False)
    text: str = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
    return round_coordinates(text)


def round_coordinates(text: str) -> str:
    """Round the coordinates of an SVG to 0.01 pixels, which halves its size; text is kept.

    >>> round_coordinates('<path d="M1.23456,2"/><text>p < 0.001</text>')
    '<path d="M1.23,2"/><text>p < 0.001</text>'
    """
    return re.sub(r"<[^<>]+>", lambda tag: _TINY.sub(lambda n: f"{float(n[0]):.2f}", tag[0]), text)


_TINY = re.compile(r"\d+\.\d{3,}")
