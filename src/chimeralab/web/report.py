"""The report of a study as `chimera report` wrote it: its page as it is, and what came with it.

The page was made for a browser without a server, so its styles stand inside it. It is served under
a policy of its own that lets these through and, like the page itself, no script at all.
"""

import os
from datetime import UTC, datetime
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from chimeralab.web.conversation import trail_of
from chimeralab.web.pages import page
from chimeralab.web.study import study_of

# Named here again: drawing a report takes a while to import, and none is drawn here.
FOLDER, PAGE = "report", "index.html"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
KINDS = {
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".csv": "text/csv",
    ".json": "application/json",
    ".tex": "text/plain",
}


def files_of(study: Path) -> dict[str, Path]:
    """The files of a report by the names that addresses give them.

    An address is only ever looked up here, never made into a path; and a link in the folder, which
    may lead anywhere, is not followed.
    """
    folder = study / FOLDER
    if folder.is_symlink():
        return {}
    lying = [Path(where, name) for where, _, names in os.walk(folder) for name in names]
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(lying)
        if path.suffix in KINDS and path.is_file() and not path.is_symlink()
    }


def overview(request: Request) -> Response:
    """Where the report is, and what can be taken away; or how it is made."""
    watch = study_of(request)
    files = files_of(watch.study.path)
    written = None
    if PAGE in files:
        at = datetime.fromtimestamp(files.pop(PAGE).stat().st_mtime, UTC)
        written = f"{at:%Y-%m-%d %H:%M} UTC"
    return page(
        request,
        "report_files.html",
        watch=watch,
        files=files,
        written=written,
        page=PAGE,
        trail=trail_of(watch.number, watch.name),
    )


def file(request: Request) -> Response:
    """One file of the report, as it lies there."""
    found = files_of(study_of(request).study.path).get(request.path_params["place"])
    if found is None:
        raise HTTPException(404, "the report has no such file")
    policy = {"content-security-policy": POLICY}
    return FileResponse(found, headers=policy, media_type=KINDS[found.suffix])


ROUTES = [
    Route("/study/{study:int}/report", overview),
    Route("/study/{study:int}/report/{place:path}", file),
]
