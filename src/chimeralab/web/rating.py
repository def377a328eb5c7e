"""Rating in the browser: the pages of somebody who was invited.

A rater's link leads to their own sheets and nowhere else. Their pages are made from the sheets
alone: what the study knows about a conversation never reaches them.
"""

from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from chimeralab.core.errors import ChimeraError
from chimeralab.rating.invitations import (
    UNSURE,
    Desk,
    Invitation,
    RatingRoom,
    training_names,
)
from chimeralab.rating.packets import DraftRating, read_turns, written_turns
from chimeralab.rating.ratings import Item
from chimeralab.study import Study
from chimeralab.web.pages import page
from chimeralab.web.safety import Authenticator, Visitor

# All that a rater's link opens.
PATHS = ("/rate", "/static/")
WORDS = {"": "not rated", "0": "0, no loop", "1": "1, a loop", UNSURE: "unsure"}
Got = TypeVar("Got")
Form = dict[str, list[str]]
"""What a page has sent: fields that may come several times."""


class RatingDesk:
    """The rating room of a study behind one thread, which all requests take turns in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="rating")
        self._room: RatingRoom | None = None

    def ask(self, what: Callable[[RatingRoom], Got]) -> Got:
        """Have something done in the room."""

        def do() -> Got:
            self._room = self._room or RatingRoom(Study(self.folder))
            return what(self._room)

        return self._worker.submit(do).result()

    def close(self) -> None:
        if self._room is not None:
            self._worker.submit(self._room.close).result()
        self._worker.shutdown()


def rater_auth(desks: Sequence[RatingDesk]) -> Authenticator:
    """Lets in who holds an invitation to one of the studies."""

    def who(token: str) -> Visitor | None:
        for number, desk in enumerate(desks, start=1):
            if not (desk.folder / "study.db").is_file():
                continue
            try:
                found = desk.ask(lambda room: room.invited(token))
            except ChimeraError:
                continue  # a store that can't be written has nobody who rates in it
            if found:
                return Visitor("rater", PATHS, number, token)
        return None

    return who


def posted(
    work: Callable[[Request, Form], Response],
) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that reads a form, and works on it off the event loop: the store may be busy."""

    async def endpoint(request: Request) -> Response:
        body = (await request.body()).decode("utf-8", "replace")
        return await run_in_threadpool(work, request, parse_qs(body, keep_blank_values=True))

    return endpoint


def first(form: Form, name: str) -> str:
    return form.get(name, [""])[0]


class Seat(NamedTuple):
    """A rater at work: their study's desk, the sheets of their invitation, and their drafts."""

    desk: RatingDesk
    invitation: Invitation
    papers: Desk
    drafts: dict[str, DraftRating]
    trained: dict[str, DraftRating]

    @property
    def sheets(self) -> list[Item]:
        return list(self.papers.sheets.values())

    @property
    def labelled(self) -> int:
        return sum(each.label != "" for each in self.drafts.values())

    @property
    def next_example(self) -> int | None:
        """The next worked example to try; an adjudicator has no need of them."""
        if self.invitation.task == "adjudicate":
            return None
        names = training_names(self.papers.rubric)
        return next((n for n, name in enumerate(names, 1) if name not in self.trained), None)

    def sheet(self, n: int) -> Item:
        if not 1 <= n <= len(self.sheets):
            raise HTTPException(404, f"there are {len(self.sheets)} sheets")
        return self.sheets[n - 1]

    def next_page(self, after: int = 0) -> str:
        """The next sheet without a label, from here on and then from the beginning; or all."""
        names = list(self.papers.sheets)
        order = [*range(after + 1, len(names) + 1), *range(1, after + 1)]
        open_ones = (n for n in order if not self.draft(names[n - 1]).label)
        return f"/rate/{next(open_ones, 'overview')}"

    def draft(self, sheet: str) -> DraftRating:
        return self.drafts.get(sheet, DraftRating(sheet))


def seat_of(request: Request) -> Seat:
    """Whose request this is; the owner has no sheets of their own."""
    visitor: Visitor = request.scope["visitor"]
    if visitor.study is None or visitor.token is None:
        raise HTTPException(403, "this page is for people who were invited to rate")
    desk: RatingDesk = request.app.state.site.desks[visitor.study - 1]
    token = visitor.token

    def sit_down(room: RatingRoom) -> Seat:
        invitation = room.invited(token)
        if invitation is None:
            raise HTTPException(403, "this invitation has ended; ask for a new link")
        drafts = room.drafts(invitation)
        trained = room.drafts(invitation, training=True)
        return Seat(desk, invitation, room.desk(invitation), drafts, trained)

    return desk.ask(sit_down)


def goto(path: str) -> Response:
    return RedirectResponse(path, 303)


def start(request: Request) -> Response:
    """Where a rater goes on: training, the next sheet, the overview, or the end."""
    seat = seat_of(request)
    if seat.invitation.handed_in:
        return page(request, "rate_done.html", seat=seat)
    if not seat.trained and not seat.drafts and seat.invitation.task == "rate":
        return page(request, "rate_welcome.html", seat=seat, rubric=seat.papers.rubric)
    example = seat.next_example
    return goto(f"/rate/training/{example}" if example else seat.next_page())


def training(request: Request) -> Response:
    """A worked example: first to be rated, then with the manual's answer."""
    seat, n = seat_of(request), request.path_params["n"]
    examples = seat.papers.rubric.examples
    if not 1 <= n <= len(examples):
        raise HTTPException(404, f"there are {len(examples)} examples")
    name = training_names(seat.papers.rubric)[n - 1]
    return page(
        request,
        "rate_training.html",
        n=n,
        example=examples[n - 1],
        given=seat.trained.get(name),
        after=n + 1 if n < len(examples) else None,
        rubric=seat.papers.rubric,
    )


@posted
def train(request: Request, form: Form) -> Response:
    n, seat = request.path_params["n"], seat_of(request)
    draft = DraftRating(f"training-{n}", first(form, "label"))
    seat.desk.ask(lambda room: room.save(seat.invitation, draft))
    return goto(f"/rate/training/{n}")


def sheet(request: Request) -> Response:
    """One conversation, the rubric beside it, and what was put down so far."""
    seat, n = seat_of(request), request.path_params["n"]
    if seat.invitation.handed_in:
        return goto("/rate")
    shown = seat.sheet(n)
    draft = seat.draft(shown.id)
    return page(
        request,
        "rate_sheet.html",
        seat=seat,
        n=n,
        sheet=shown,
        draft=draft,
        cited=set(read_turns(draft.turns, len(shown.texts)) or ()),
        opinions=seat.papers.opinions.get(shown.id, ()),
        before=n - 1 if n > 1 else None,
        after=n + 1 if n < len(seat.sheets) else None,
        rubric=seat.papers.rubric,
        unsure=UNSURE,
    )


@posted
def save(request: Request, form: Form) -> Response:
    """Keep what stands in the form. With a label, move on; without, only keep it."""
    seat, n = seat_of(request), request.path_params["n"]
    name, label = seat.sheet(n).id, first(form, "label")
    turns = [int(turn) for turn in form.get("turn", ()) if turn.isascii() and turn.isdigit()]
    reason = " ".join(first(form, "reason").split())
    draft = DraftRating(name, label, written_turns(turns), reason)
    kept = seat.desk.ask(lambda room: room.save(seat.invitation, draft))
    if not label:
        return Response(status_code=204)
    return goto(seat._replace(drafts={**seat.drafts, name: kept}).next_page(n))


@posted
def undo(request: Request, form: Form) -> Response:
    """Take the last label back, and show its sheet."""
    seat = seat_of(request)
    name = seat.desk.ask(lambda room: room.undo(seat.invitation))
    names = list(seat.papers.sheets)
    return goto(f"/rate/{names.index(name) + 1}" if name in names else "/rate/overview")


def overview(request: Request) -> Response:
    """All sheets with what was put down, the unsure ones to come back to, and handing in."""
    seat = seat_of(request)
    if seat.invitation.handed_in:
        return goto("/rate")
    rows = list(enumerate(map(seat.draft, seat.papers.sheets), 1))
    return page(request, "rate_overview.html", seat=seat, rows=rows, words=WORDS, unsure=UNSURE)


@posted
def hand_in(request: Request, form: Form) -> Response:
    """Store the labels for good."""
    seat = seat_of(request)
    if not seat.invitation.handed_in:
        seat.desk.ask(lambda room: room.hand_in(seat.invitation))
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
