"""The look that all charts share: colours that everyone can tell apart, fonts and sizes."""

from typing import Any

# Okabe and Ito's palette: told apart under every common kind of colour blindness.
BLUE = "#0072B2"
GREEN = "#009E73"
PURPLE = "#CC79A7"
ORANGE = "#E69F00"
SKY = "#56B4E9"
VERMILION = "#D55E00"

SERIES_COLOURS = (BLUE, GREEN, PURPLE, ORANGE, SKY)
SERIES_SHAPES = ("circle", "triangle-up", "square", "diamond", "cross")

# Vermilion stands for collapse in every chart and for nothing else; words need the darker shade.
COLLAPSE = VERMILION
COLLAPSE_INK = "#9C4500"

INK = "#24292f"
FAINT_INK = "#57606a"
GRID = "#e4e7eb"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

# Widths in pixels of what lies inside the axes: for a page, for a phone, and for a square.
WIDE = 620
NARROW = 240
SQUARE = 300

THEME: dict[str, Any] = {
    "background": "white",
    "font": FONT,
    # A reader's font may be wider than the one that the layout was measured with.
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
