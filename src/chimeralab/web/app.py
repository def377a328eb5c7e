"""The web application: what it shows, its routes, and the server that runs it."""

import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from chimeralab.core.errors import ChimeraError
from chimeralab.detection.cost import Prices
from chimeralab.web import logs
from chimeralab.web.log_index import LogScanner
from chimeralab.web.pages import is_rater, page, static_file
from chimeralab.web.safety import (
    HEADERS,
    AllowedHosts,
    Authenticator,
    SecurityMiddleware,
    owner_auth,
)
from chimeralab.web.serving import Server, studies_at

if TYPE_CHECKING:
    from chimeralab.web.rating import RatingWorker
    from chimeralab.web.watch import StudyWatch

HEADINGS = {403: "No access", 404: "Not found"}
SECONDS_TO_CLOSE = 2


class Site:
    """The logs and studies that a server shows."""

    def __init__(
        self, paths: Sequence[str], *, allow_run: bool = False, prices: Prices | None = None
    ) -> None:
        self.allow_run = allow_run
        self.studies: list[StudyWatch] = []
        self.rating_workers: list[RatingWorker] = []
        self.authenticators: list[Authenticator] = []
        folders = [folder for path in paths for folder in studies_at(Path(path))]
        if folders:  # slow to import, and not needed for logs
            from chimeralab.web import rating, watch  # noqa: PLC0415

            self.studies = [watch.StudyWatch(n, path) for n, path in enumerate(folders, 1)]
            self.rating_workers = [rating.RatingWorker(folder) for folder in folders]
            self.authenticators = [rating.rater_auth(self.rating_workers)]
        rest = [path for path in paths if not (Path(path) / "plan.toml").is_file()]
        self.scanner = LogScanner(rest, folders, prices) if rest else None

    def menu(self) -> list[tuple[str, str]]:
        """List the parts of the site by address and title."""
        found = [("/logs", "Logs")] if self.has_logs else []
        return found + [(f"/study/{each.number}", each.name) for each in self.studies]

    @property
    def has_logs(self) -> bool:
        """Whether to list logs; a folder of studies may contain none."""
        return self.scanner is not None and bool(self.scanner.read or not self.studies)

    @property
    def _parts(self) -> "list[LogScanner | StudyWatch]":
        return [*([self.scanner] if self.scanner else []), *self.studies]

    def close_streams(self) -> None:
        """Close the event streams of open pages, which would block the shutdown."""
        talks = [feed for watch in self.studies for feed in watch.talk_feeds.values()]
        for feed in (*(part.feed for part in self._parts), *talks):
            feed.close()

    def start(self) -> None:
        for part in self._parts:
            part.start()

    def close(self) -> None:
        for part in (*self.rating_workers, *self._parts):
            part.close()


def home(request: Request) -> Response:
    """Show the only log table or study, or list them all."""
    site: Site = request.app.state.site
    if site.scanner and not site.studies:
        return logs.table(request)
    if not site.scanner and len(site.studies) == 1:
        from chimeralab.web import study  # noqa: PLC0415 - slow to import

        request.path_params["study"] = 1
        return study.overview(request)
    return page(request, "home.html", site=site)


def static(request: Request) -> Response:
    """Serve a style sheet or script."""
    found = static_file(request.path_params["name"])
    if found is None:
        raise HTTPException(404, "file not found")
    kind = "text/css" if found.suffix == ".css" else "text/javascript"
    return FileResponse(found, media_type=kind)


def error_page(request: Request, error: Exception) -> Response:
    """Render an error page for a rejected request."""
    status, reason = 400, str(error)
    if isinstance(error, HTTPException):
        status, reason = error.status_code, error.detail
    if "text/html" not in request.headers.get("accept", ""):
        return PlainTextResponse(f"{reason}\n", status)
    back = "/rate" if is_rater(request) else "/"
    heading = HEADINGS.get(status, "Request failed")
    return page(request, "error.html", status=status, heading=heading, reason=reason, back=back)


def server_error(request: Request, error: Exception) -> Response:
    """Report a bug without details, which are logged to the terminal."""
    return PlainTextResponse("internal error; see the terminal of the server\n", 500)


def application(site: Site) -> Starlette:
    """Build the application with the routes of every part."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        site.start()
        try:
            yield
        finally:
            site.close()

    routes = [Route("/", home), Route("/static/{name}", static), *logs.ROUTES]
    if site.studies:
        from chimeralab.web import raters, rating, study  # noqa: PLC0415 - slow to import

        routes += [*study.ROUTES, *rating.ROUTES, *raters.ROUTES]
    app = Starlette(
        routes=routes,
        exception_handlers={
            HTTPException: error_page,
            ChimeraError: error_page,
            Exception: server_error,
        },
        lifespan=lifespan,
    )
    app.state.site = site
    return app


class SafeProtocol(H11Protocol):
    """Answer malformed requests, which never reach the app, with a 400 under the same policy."""

    def send_400_response(self, msg: str) -> None:
        policy = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        plain = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        for event in (
            h11.Response(status_code=400, headers=[*plain, *policy], reason=b"Bad Request"),
            h11.Data(data=msg.encode("ascii", "replace")),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class StreamingServer(uvicorn.Server):
    """A server that closes its event streams on shutdown instead of waiting for them."""

    def __init__(self, config: uvicorn.Config, close_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._close_streams = close_streams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._close_streams()
        await super().shutdown(sockets)


def run_server(server: Server) -> None:
    """Serve the site behind the security middleware until interrupted."""
    options = server.options
    site = Site(options.paths, allow_run=options.allow_run, prices=options.prices)
    hosts = AllowedHosts(options.host, server.port, secure=options.certificate is not None)
    config = uvicorn.Config(
        SecurityMiddleware(
            application(site), hosts, [owner_auth(server.token), *site.authenticators]
        ),
        http=SafeProtocol,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=SECONDS_TO_CLOSE,
        ssl_certfile=str(options.certificate) if options.certificate else None,
        ssl_keyfile=str(options.key) if options.key else None,
    )
    StreamingServer(config, site.close_streams).run(sockets=[server.socket])
