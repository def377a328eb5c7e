"""The pages of people who were invited to rate.

A rater's link opens their own sheets and nothing else. The pages are rendered from those sheets
alone, so nothing that identifies a conversation can reach a rater.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from chimeralab.core.errors import ChimeraError
from chimeralab.rating.invitations import (
    UNSURE,
    RaterSession,
    RatingService,
    list_training_sheets,
)
from chimeralab.rating.packets import DraftRating
from chimeralab.rating.ratings import Item
from chimeralab.study import Study
from chimeralab.web.pages import page
from chimeralab.web.safety import Authenticator, Visitor

# The paths that a rater's link opens.
PATHS = ("/rate", "/static/")
WORDS = {"": "not rated", "0": "0, no loop", "1": "1, a loop", UNSURE: "unsure"}
Result = TypeVar("Result")
# A field of a posted form may occur several times.
Form = dict[str, list[str]]


class RatingWorker:
    """The rating service of a study behind a thread of its own, which SQLite requires."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rating")
        self._service: RatingService | None = None

    def run(self, work: Callable[[RatingService], Result]) -> Result:
        def call() -> Result:
            self._service = self._service or RatingService(Study(self.folder))
            return work(self._service)

        return self._thread.submit(call).result()

    def close(self) -> None:
        if self._service is not None:
            self._thread.submit(self._service.close).result()
        self._thread.shutdown()


def rater_auth(workers: Sequence[RatingWorker]) -> Authenticator:
    """Recognise the tokens of people who were invited to one of the studies."""

    def authenticate(token: str) -> Visitor | None:
        for number, worker in enumerate(workers, start=1):
            if not (worker.folder / "study.db").is_file():
                continue
            try:
                found = worker.run(lambda service: service.find_invitation(token))
            except ChimeraError:
                continue  # the store can't be read, so nobody can rate in it
            if found:
                return Visitor("rater", PATHS, number, token)
        return None

    return authenticate


def form_endpoint(
    work: Callable[[Request, Form], Response],
) -> Callable[[Request], Awaitable[Response]]:
    """Make an endpoint that parses a form and handles it off the event loop."""

    async def endpoint(request: Request) -> Response:
        body = (await request.body()).decode("utf-8", "replace")
        return await run_in_threadpool(work, request, parse_qs(body, keep_blank_values=True))

    return endpoint


def first(form: Form, name: str) -> str:
    return form.get(name, [""])[0]


def load_session(request: Request) -> tuple[RaterSession, RatingWorker]:
    """Load the session of whoever sent a request; the owner of the server has none."""
    visitor: Visitor = request.scope["visitor"]
    if visitor.study is None or visitor.token is None:
        raise HTTPException(403, "this page is for people who were invited to rate")
    worker: RatingWorker = request.app.state.site.rating_workers[visitor.study - 1]
    token = visitor.token

    def load(service: RatingService) -> RaterSession:
        invitation = service.find_invitation(token)
        if invitation is None:
            raise HTTPException(403, "this invitation has ended; ask for a new link")
        return service.session(invitation)

    return worker.run(load), worker


def find_sheet(session: RaterSession, n: int) -> Item:
    if not 1 <= n <= len(session.sheets):
        raise HTTPException(404, f"there are {len(session.sheets)} sheets")
    return list(session.sheets.values())[n - 1]


def next_page(session: RaterSession, after: int = 0) -> str:
    """The next sheet without a label, wrapping around, or the overview when all have one."""
    names = list(session.sheets)
    order = [*range(after + 1, len(names) + 1), *range(1, after + 1)]
    unlabelled = (n for n in order if not session.draft(names[n - 1]).label)
    return f"/rate/{next(unlabelled, 'overview')}"


def goto(path: str) -> Response:
    return RedirectResponse(path, 303)


def start(request: Request) -> Response:
    """Send a rater to where they left off: training, the next sheet, the overview or the end."""
    session, _ = load_session(request)
    if session.invitation.handed_in:
        return page(request, "rate_done.html", session=session)
    if not session.training and not session.drafts and session.invitation.task == "rate":
        return page(request, "rate_welcome.html", session=session, rubric=session.rubric)
    example = session.next_example
    return goto(f"/rate/training/{example}" if example else next_page(session))


def training(request: Request) -> Response:
    """Show a worked example, with its answer once the rater has given a label."""
    (session, _), n = load_session(request), request.path_params["n"]
    examples = session.rubric.examples
    if not 1 <= n <= len(examples):
        raise HTTPException(404, f"there are {len(examples)} examples")
    return page(
        request,
        "rate_training.html",
        n=n,
        example=examples[n - 1],
        given=session.training.get(list_training_sheets(session.rubric)[n - 1]),
        after=n + 1 if n < len(examples) else None,
        rubric=session.rubric,
    )


@form_endpoint
def train(request: Request, form: Form) -> Response:
    n, (session, worker) = request.path_params["n"], load_session(request)
    draft = DraftRating(f"training-{n}", first(form, "label"))
    worker.run(lambda service: service.save(session.invitation, draft))
    return goto(f"/rate/training/{n}")


def sheet(request: Request) -> Response:
    """Show one conversation next to the rubric, with what was entered so far."""
    (session, _), n = load_session(request), request.path_params["n"]
    if session.invitation.handed_in:
        return goto("/rate")
    shown = find_sheet(session, n)
    draft = session.draft(shown.id)
    return page(
        request,
        "rate_sheet.html",
        session=session,
        n=n,
        sheet=shown,
        draft=draft,
        cited=set(session.rubric.read_turns(draft.turns, len(shown.texts)) or ()),
        opinions=session.opinions.get(shown.id, ()),
        before=n - 1 if n > 1 else None,
        after=n + 1 if n < len(session.sheets) else None,
        rubric=session.rubric,
        unsure=UNSURE,
        missing="cite" in request.query_params,
    )


@form_endpoint
def save(request: Request, form: Form) -> Response:
    """Save the form; with a label, go on to the next sheet."""
    (session, worker), n = load_session(request), request.path_params["n"]
    name, label = find_sheet(session, n).id, first(form, "label")
    turns = [int(turn) for turn in form.get("turn", ()) if re.fullmatch("[0-9]{1,9}", turn)]
    reason = " ".join(first(form, "reason").split())
    draft = DraftRating(name, label, session.rubric.label_turns(turns), reason)
    if label == "1" and not turns:  # keep what was written, and ask for the turns
        draft = replace(draft, label="")
    saved = worker.run(lambda service: service.save(session.invitation, draft))
    if label != draft.label:
        return goto(f"/rate/{n}?cite")
    if not label:
        return Response(status_code=204)
    return goto(next_page(replace(session, drafts={**session.drafts, name: saved}), n))


@form_endpoint
def undo(request: Request, form: Form) -> Response:
    """Undo the last label and show its sheet."""
    session, worker = load_session(request)
    name = worker.run(lambda service: service.undo(session.invitation))
    names = list(session.sheets)
    return goto(f"/rate/{names.index(name) + 1}" if name in names else "/rate/overview")


def overview(request: Request) -> Response:
    """List all sheets with their labels, and the button to hand them in."""
    session, _ = load_session(request)
    if session.invitation.handed_in:
        return goto("/rate")
    rows = list(enumerate(map(session.draft, session.sheets), 1))
    return page(
        request, "rate_overview.html", session=session, rows=rows, words=WORDS, unsure=UNSURE
    )


@form_endpoint
def hand_in(request: Request, form: Form) -> Response:
    session, worker = load_session(request)
    if not session.invitation.handed_in:
        worker.run(lambda service: service.hand_in(session.invitation))
    return goto("/rate")


ROUTES = [
    Route("/rate", start),
    Route("/rate/training/{n:int}", training, methods=["GET"]),
    Route("/rate/training/{n:int}", train, methods=["POST"]),
    Route("/rate/overview", overview),
    Route("/rate/undo", undo, methods=["POST"]),
    Route("/rate/hand-in", hand_in, methods=["POST"]),
    Route("/rate/{n:int}", sheet, methods=["GET"]),
    Route("/rate/{n:int}", save, methods=["POST"]),
]
