"""How a page of the app is made: a template in the frame that all of them share.

The page of a conversation is the same for logs and studies. It takes no time by itself; its
pictures are drawn when the browser asks for them.
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
# The style sheets of every page that we write.
SHEETS = [TEMPLATES / "page.css", TEMPLATES / "report.css", RATING / "rating.css"]
# One text after another: the encoder keeps what it has computed in a memory of its own.
ENCODING = threading.Lock()

Trail = dict[str, str | None]
"""Where a page belongs: the way `back` under its `title`, and the addresses `before`, `after`."""


def page(request: Request, template: str, *, status: int = 200, **content: Any) -> HTMLResponse:
    """Fill a template that extends `app.html`.

    The frame shows where else one can go, unless the visitor was invited to rate alone.
    """
    menu = [] if is_rater(request) else request.app.state.site.menu()
    here = request.url.path
    html = render(template, pages=PAGES, frame="app.html", menu=menu, here=here, **content)
    return HTMLResponse(html, status)


def is_rater(request: Request) -> bool:
    """Whether whoever asks may do nothing but rate; nobody else than the owner may do more."""
    visitor = request.scope.get("visitor")
    return visitor is None or visitor.kind != "owner"


def static_file(name: str) -> Path | None:
    """The file behind `/static/NAME`; nothing but what is listed or lies in our folder."""
    ours = [path for path in (HERE / "static").iterdir() if path.suffix in (".css", ".js")]
    return {path.name: path for path in (*ours, *SHEETS)}.get(name)


def trail_to(study: int, name: str) -> Trail:
    """The way back to the page of a study."""
    return {"back": f"/study/{study}", "title": name, "before": None, "after": None}


class LinkedFigure(NamedTuple):
    """A figure behind an address, for a wide screen and for a phone."""

    wide: str
    narrow: str | None
    label: str
    captions: Sequence[str]


class JudgedConversation(NamedTuple):
    """A judged conversation, how it was judged, and where its pictures are to be had."""

    trajectory: Trajectory
    detection: Detection
    judges: DetectorPair
    words: ResultWords
    pictures: str


def show_conversation(request: Request, shown: JudgedConversation, trail: Trail) -> Response:
    """Evidence first, then the pictures and every message."""
    # Drawing takes a while to import, and the table must not wait for it.
    from chimeralab.report import conversation as drawing  # noqa: PLC0415

    trajectory, detection, judges, words, pictures = shown
    content = drawing.conversation_page(trajectory, detection, judges, words)
    figures: dict[str, Any] = {"timeline": None, "heat_map": None, "most_alike": ()}
    trace = detection.trace or ()
    if len(trace) > 1 and trace[0].lags:
        figures["timeline"] = LinkedFigure(
            f"{pictures}/timeline.svg",
            f"{pictures}/timeline-narrow.svg",
            drawing.timeline_in_words(detection),
            [drawing.lines_caption(detection, words)],
        )
        figures["heat_map"] = LinkedFigure(
            f"{pictures}/heat-map.svg",
            None,
            f"Heat map that compares {detection.turns:,} judged turns with one another, dark where "
            "two are similar.",
            [drawing.map_caption(detection, 1, words)],
        )
    return page(request, "conversation.html", **content, **figures, trail=trail)


def draw_picture(shown: JudgedConversation, name: str) -> Response:
    """A picture of a conversation."""
    from chimeralab.embedding.encoder import default_encoder  # noqa: PLC0415 - as above
    from chimeralab.report import conversation as drawing  # noqa: PLC0415
    from chimeralab.report.charts.timeline import compare_turns  # noqa: PLC0415

    figure = None
    if name in ("timeline", "timeline-narrow"):
        figure = drawing.timeline_figure(shown.detection, shown.words)
    elif name == "heat-map" and shown.detection.turns > 1:
        turns = shown.trajectory.turns
        texts = [turns[position - 1].text for position in shown.detection.positions]
        with ENCODING:
            vectors = default_encoder().encode(texts).vectors
        figure = drawing.heat_map_figure(shown.detection, compare_turns(vectors))
    if figure is None:
        raise HTTPException(404, "there is no such picture of this conversation")
    drawn = figure.narrow if name == "timeline-narrow" and figure.narrow else figure.wide
    return Response(str(drawn), media_type="image/svg+xml")
