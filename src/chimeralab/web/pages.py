"""Rendering: templates in the frame of the app, and the page of a conversation.

Charts are slow to draw, so a page only links to them.
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from chimeralab.core.records import Detection, Trajectory
from chimeralab.core.result_words import ResultWords
from chimeralab.detection.loops import DetectorPair
from chimeralab.rating.packets import TEMPLATES as RATING
from chimeralab.report.page import TEMPLATES, environment, render

HERE = Path(__file__).parent
PAGES = environment(HERE / "templates", RATING)
# Style sheets shared with written reports.
SHEETS = [TEMPLATES / "page.css", TEMPLATES / "report.css", RATING / "rating.css"]
# A window of this many messages has fewer than 5,000 elements.
WINDOW = 200
# The encoder is not thread-safe: it has a cache.
ENCODING = threading.Lock()

Trail = dict[str, str | None]
"""Navigation of a page: the link `back` with its `title`, its `place` and neighbours, an export."""


def page(request: Request, template: str, *, status: int = 200, **content: Any) -> HTMLResponse:
    """Render a template that extends `app.html`; raters get no menu."""
    menu = [] if is_rater(request) else request.app.state.site.menu()
    here = request.url.path
    chosen = request.cookies.get("theme")
    frame = {"frame": "app.html", "theme": chosen if chosen in ("light", "dark") else None}
    html = render(template, pages=PAGES, menu=menu, here=here, **frame, **content)
    return HTMLResponse(html, status)


def is_rater(request: Request) -> bool:
    """Whether the visitor is restricted to rating, as everyone but the owner is."""
    visitor = request.scope.get("visitor")
    return visitor is None or visitor.kind != "owner"


def static_file(name: str) -> Path | None:
    """Look up the file for `/static/NAME` in the list of our own files."""
    ours = [path for path in (HERE / "static").iterdir() if path.suffix in (".css", ".js")]
    return {path.name: path for path in (*ours, *SHEETS)}.get(name)


def trail_to(study: int, name: str) -> Trail:
    """Make the navigation of a page that belongs to a study."""
    return {"back": f"/study/{study}", "title": name}


class LinkedFigure(NamedTuple):
    """A figure by address."""

    href: str
    label: str
    captions: Sequence[str]


class JudgedConversation(NamedTuple):
    """A conversation with its verdict, detectors, wording, and the address of its figures."""

    trajectory: Trajectory
    detection: Detection
    judges: DetectorPair
    words: ResultWords
    pictures: str


def show_conversation(
    request: Request,
    shown: JudgedConversation,
    trail: Trail,
    *,
    in_study: bool = False,
    run: Sequence[Any] = (),
) -> Response:
    """Show what repeats, every message or a window of them, and the figures."""
    from chimeralab.report import conversation as drawing  # noqa: PLC0415 - slow to import

    trajectory, detection, judges, words, pictures = shown
    at = request.query_params.get("at", "")
    first = int(at) if at.isascii() and at.isdigit() and 0 < len(at) < 9 else None
    content = drawing.conversation_page(
        trajectory, detection, judges, words, in_study=in_study, limit=WINDOW, at=first
    )
    more = f"{request.url.path}?at=" if content["left_out"] else None
    content["transcript"] = content["transcript"]._replace(more=more)
    figures: dict[str, Any] = {"timeline": None, "heat_map": None, "most_alike": ()}
    trace = detection.trace or ()
    if len(trace) > 1 and trace[0].lags:
        figures["timeline"] = LinkedFigure(
            f"{pictures}/timeline-narrow.svg",
            drawing.timeline_label(detection),
            [drawing.timeline_caption(detection, words)],
        )
        figures["heat_map"] = LinkedFigure(
            f"{pictures}/heat-map.svg",
            f"Heat map of the similarity of {detection.turns:,} judged turns; dark means similar.",
            [drawing.heat_map_caption(detection, 1, words)],
        )
    return page(request, "conversation.html", **{**content, **figures, "run": run}, trail=trail)


def draw_picture(shown: JudgedConversation, name: str) -> Response:
    """Draw a figure of a conversation as SVG."""
    from chimeralab.embedding.encoder import default_encoder  # noqa: PLC0415 - slow to import
    from chimeralab.report import conversation as drawing  # noqa: PLC0415
    from chimeralab.report.charts.timeline import compare_turns  # noqa: PLC0415

    figure = None
    if name == "timeline-narrow":
        figure = drawing.timeline_figure(shown.detection, shown.words)
    elif name == "heat-map" and shown.detection.turns > 1:
        turns = shown.trajectory.turns
        texts = [turns[position - 1].text for position in shown.detection.positions]
        with ENCODING:
            vectors = default_encoder().encode(texts).vectors
        figure = drawing.heat_map_figure(shown.detection, compare_turns(vectors))
    if figure is None:
        raise HTTPException(404, "this conversation has no such figure")
    return Response(str(figure.narrow or figure.wide), media_type="image/svg+xml")
