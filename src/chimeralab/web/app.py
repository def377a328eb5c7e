"""The app: what it was started on, the pages of each part, and the frame around them."""

import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from chimeralab.core.errors import ChimeraError
from chimeralab.web import logs
from chimeralab.web.library import Library
from chimeralab.web.pages import page, served
from chimeralab.web.safety import Door, Names, Safety, owner_door
from chimeralab.web.serving import Opened, Serving


class MenuEntry(NamedTuple):
    """Somewhere to go from every page."""

    href: str
    title: str


class Site:
    """What the server shows: the studies it was started on, and the logs."""

    def __init__(self, paths: Sequence[str], *, allow_run: bool = False) -> None:
        self.allow_run = allow_run
        self.studies = [folder for path in paths for folder in studies_at(Path(path))]
        rest = [path for path in paths if not (Path(path) / "plan.toml").is_file()]
        self.library = Library(rest, self.studies) if rest else None

    def menu(self) -> list[MenuEntry]:
        """The parts of the site; nothing to choose from where there is only one."""
        found = [MenuEntry("/logs", "Logs")] if self.library else []
        found += [
            MenuEntry(f"/study/{number}", folder.resolve().name)
            for number, folder in enumerate(self.studies, start=1)
        ]
        return found

    @property
    def doors(self) -> list[Door]:
        """Who is let in beside the owner."""
        return []

    def start(self) -> None:
        if self.library:
            self.library.start()

    def close(self) -> None:
        if self.library:
            self.library.close()


def studies_at(path: Path) -> list[Path]:
    """The study at a path, or the studies in a folder, at any depth."""
    if (path / "plan.toml").is_file():
        return [path]
    found = []
    for where, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if "plan.toml" in files:
            found.append(Path(where))
            folders.clear()
    return found


def home(request: Request) -> Response:
    """The only thing there is to see, or a list of them."""
    site: Site = request.app.state.site
    if site.library and not site.studies:
        return logs.table(request)
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
    return page(request, "error.html", status=status, reason=reason)


def broken(request: Request, error: Exception) -> Response:
    """What went wrong is for the terminal; the page says only that something did."""
    return PlainTextResponse("something went wrong; the terminal says what\n", 500)


def application(site: Site) -> Starlette:
    """All pages of all parts. `rating.ROUTES` and others are added to this list."""

    @contextlib.asynccontextmanager
    async def alive(_: Starlette) -> AsyncIterator[None]:
        site.start()
        try:
            yield
        finally:
            site.close()

    app = Starlette(
        routes=[Route("/", home), Route("/static/{name}", static), *logs.ROUTES],
        exception_handlers={HTTPException: refused, ChimeraError: refused, Exception: broken},
        lifespan=alive,
    )
    app.state.site = site
    return app


def build(asked: Serving, opened: Opened) -> ASGIApp:
    """The app behind its checks."""
    site = Site(asked.paths, allow_run=asked.allow_run)
    names = Names(asked.host, opened.port, secure=asked.certificate is not None)
    return Safety(application(site), names, [owner_door(opened.token), *site.doors])
