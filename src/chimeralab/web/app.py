"""The app: what it was started on, the pages of each part, and the frame around them."""

import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from chimeralab.core.errors import ChimeraError
from chimeralab.web import logs
from chimeralab.web.pages import is_rater, page, served
from chimeralab.web.safety import Names, Safety, owner_door
from chimeralab.web.serving import OpenDoor, ServerOptions
from chimeralab.web.site import Site

HEADINGS = {403: "Not with this link", 404: "Not here"}


def home(request: Request) -> Response:
    """The only thing there is to see, or a list of them."""
    site: Site = request.app.state.site
    if site.library and not site.studies:
        return logs.table(request)
    if not site.library and len(site.studies) == 1:
        from chimeralab.web import study  # noqa: PLC0415 - it is loaded where there are studies

        request.path_params["study"] = 1
        return study.overview(request)
    return page(request, "home.html", site=site)


def static(request: Request) -> Response:
    """Style sheets and scripts, by name."""
    found = served(request.path_params["name"])
    if found is None:
        raise HTTPException(404, "there is no such file")
    kind = "text/css" if found.suffix == ".css" else "text/javascript"
    return FileResponse(found, media_type=kind)


def refused(request: Request, error: Exception) -> Response:
    """A sentence for what was asked in vain."""
    status = error.status_code if isinstance(error, HTTPException) else 400
    reason = error.detail if isinstance(error, HTTPException) else str(error)
    if "text/html" not in request.headers.get("accept", ""):
        return PlainTextResponse(f"{reason}\n", status)
    back = "/rate" if is_rater(request) else "/"
    heading = HEADINGS.get(status, "That did not work")
    return page(request, "error.html", status=status, heading=heading, reason=reason, back=back)


def broken(request: Request, error: Exception) -> Response:
    """What went wrong is for the terminal; the page says only that something did."""
    return PlainTextResponse("something went wrong; the terminal says what\n", 500)


def application(site: Site) -> Starlette:
    """All pages of all parts."""

    @contextlib.asynccontextmanager
    async def alive(_: Starlette) -> AsyncIterator[None]:
        site.start()
        try:
            yield
        finally:
            site.close()

    routes = [Route("/", home), Route("/static/{name}", static), *logs.ROUTES]
    if site.studies:
        from chimeralab.web import raters, rating, report, study  # noqa: PLC0415 - as above

        routes += [*study.ROUTES, *rating.ROUTES, *raters.ROUTES, *report.ROUTES]
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: refused, ChimeraError: refused, Exception: broken},
        lifespan=alive,
    )
    app.state.site = site
    return app


class Built(NamedTuple):
    """The app behind its checks, and what it shows."""

    app: ASGIApp
    site: Site


def build(asked: ServerOptions, opened: OpenDoor) -> Built:
    """The app that was asked for."""
    site = Site(asked.paths, allow_run=asked.allow_run)
    names = Names(asked.host, opened.port, secure=asked.certificate is not None)
    doors = [owner_door(opened.token), *site.doors]
    return Built(Safety(application(site), names, doors), site)
