"""One conversation on a page of the app, wherever it comes from: a log or a study.

The page itself takes no time; its pictures are drawn when the browser asks for them.
"""

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from chimeralab.core.records import Detection, Trajectory
from chimeralab.core.result_words import ResultWords
from chimeralab.detection.detectors import Judges
from chimeralab.web.pages import page

# One text after another: the encoder keeps what it has computed in a memory of its own.
ENCODING = threading.Lock()


class LinkedFigure(NamedTuple):
    """A figure behind an address, for a wide screen and for a phone."""

    wide: str
    narrow: str | None
    label: str
    captions: Sequence[str]


class ShownConversation(NamedTuple):
    """A judged conversation, how it was judged, and where its pictures are to be had."""

    trajectory: Trajectory
    detection: Detection
    judges: Judges
    words: ResultWords
    pictures: str


class Trail(NamedTuple):
    """Where a page belongs: the way back, and its neighbours."""

    back: str
    title: str
    before: str | None = None
    after: str | None = None


def trail_of(study: int, name: str) -> Trail:
    """The way back to the page of a study."""
    return Trail(f"/study/{study}", name)


def show_conversation(request: Request, shown: ShownConversation, trail: Trail) -> Response:
    """Evidence first, then the pictures and every message."""
    # Drawing takes a while to import, and the table must not wait for it.
    from chimeralab.report import conversation as drawing  # noqa: PLC0415

    trajectory, detection, judges, words, _ = shown
    content = drawing.conversation_page(trajectory, detection, judges, words)
    figures: dict[str, Any] = {"timeline": None, "heat_map": None, "most_alike": ()}
    trace = detection.trace or ()
    if len(trace) > 1 and trace[0].lags:
        figures["timeline"] = LinkedFigure(
            f"{shown.pictures}/timeline.svg",
            f"{shown.pictures}/timeline-narrow.svg",
            drawing.timeline_in_words(detection),
            [drawing.lines_caption(detection, words)],
        )
        figures["heat_map"] = LinkedFigure(
            f"{shown.pictures}/heat-map.svg",
            None,
            f"Heat map that compares {detection.turns:,} judged turns with one another, dark where "
            "two are similar.",
            [drawing.map_caption(detection, 1, words)],
        )
    return page(request, "conversation.html", **content, **figures, trail=trail)


def draw_picture(shown: ShownConversation, name: str) -> Response:
    """A picture of a conversation."""
    from chimeralab.embedding.encoder import default_encoder  # noqa: PLC0415 - as above
    from chimeralab.report import conversation as drawing  # noqa: PLC0415
    from chimeralab.report.charts.timeline import compare  # noqa: PLC0415

    figure = None
    if name in ("timeline", "timeline-narrow"):
        figure = drawing.timeline_figure(shown.detection, shown.words)
    elif name == "heat-map" and shown.detection.turns > 1:
        said = shown.trajectory.turns
        with ENCODING:
            texts = [said[position - 1].text for position in shown.detection.positions]
            vectors = default_encoder().encode(texts).vectors
        figure = drawing.heat_map_figure(shown.detection, compare(vectors))
    if figure is None:
        raise HTTPException(404, "there is no such picture of this conversation")
    drawn = figure.narrow if name == "timeline-narrow" and figure.narrow else figure.wide
    return Response(str(drawn), media_type="image/svg+xml")
