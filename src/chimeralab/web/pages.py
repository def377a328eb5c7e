"""How a page of the app is made: a template in the frame that all of them share."""

from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse

from chimeralab.rating.packets import TEMPLATES as RATING
from chimeralab.report.page import TEMPLATES, environment, render

HERE = Path(__file__).parent
STATIC = HERE / "static"
PAGES = environment(HERE / "templates", RATING)
FRAME = "app.html"
# The style sheet of every page that we write, and what only the app needs.
SHEETS = {
    "page.css": TEMPLATES / "page.css",
    "report.css": TEMPLATES / "report.css",
    "rating.css": RATING / "rating.css",
}


def page(request: Request, template: str, *, status: int = 200, **content: Any) -> HTMLResponse:
    """Fill a template that extends `app.html`.

    The frame shows where else one can go, unless the visitor was invited to rate alone.
    """
    site = request.app.state.site
    menu = [] if is_rater(request) else site.menu()
    html = render(
        template,
        pages=PAGES,
        frame=FRAME,
        menu=menu,
        here=request.url.path,
        **content,
    )
    return HTMLResponse(html, status)


def is_rater(request: Request) -> bool:
    """Whether whoever asks may do nothing but rate; nobody else than the owner may do more."""
    visitor = request.scope.get("visitor")
    return visitor is None or visitor.kind != "owner"


def served(name: str) -> Path | None:
    """The file behind `/static/NAME`; nothing but what is listed or lies in our folder."""
    if name in SHEETS:
        return SHEETS[name]
    known = {path.name: path for path in STATIC.iterdir() if path.suffix in (".css", ".js")}
    return known.get(name)
