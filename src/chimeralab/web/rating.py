"""Rating in the browser: the pages of somebody who was invited.

A rater's link leads to their own sheets and nowhere else. Their pages are made from the sheets
alone: what the study knows about a conversation never reaches them.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from chimeralab.rating.invitations import (
    UNSURE,
    Desk,
    DraftRating,
    Invitation,
    RatingRoom,
    Sheet,
    training_names,
    written_turns,
)
from chimeralab.rating.packets import read_turns
from chimeralab.web.desks import RatingDesk, form_of
from chimeralab.web.pages import page
from chimeralab.web.safety import Visitor

WORDS = {"": "not rated", "0": "0, no loop", "1": "1, a loop", UNSURE: "unsure"}
Got = TypeVar("Got")


class Seat(NamedTuple):
    """A rater at work: their study's desk, their invitation, its sheets and drafts."""

    desk: RatingDesk
    invitation: Invitation
    papers: Desk
    drafts: dict[str, DraftRating]
    trained: dict[str, DraftRating]

    @property
    def sheets(self) -> list[Sheet]:
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

    def next_sheet(self, after: int = 0) -> int | None:
        """The next sheet without a label, from here on and then from the beginning."""
        sheets = self.sheets
        order = [*range(after + 1, len(sheets) + 1), *range(1, after + 1)]
        return next(
            (n for n in order if not self.drafts.get(sheets[n - 1].name, DraftRating("")).label),
            None,
        )


def seat_of(request: Request) -> Seat:
    """Whose request this is; the owner has no sheets of their own."""
    visitor: Visitor = request.scope["visitor"]
    if visitor.kind != "rater" or visitor.study is None or visitor.name is None:
        raise HTTPException(403, "this page is for people who were invited to rate")
    desk: RatingDesk = request.app.state.site.desks.of(visitor.study)

    def sit_down(room: RatingRoom, token: str) -> Seat:
        invitation = room.invited(token)
        if invitation is None:
            raise HTTPException(403, "this invitation has ended; ask for a new link")
        drafts = room.drafts(invitation)
        trained = room.drafts(invitation, training=True)
        return Seat(desk, invitation, room.desk(invitation), drafts, trained)

    return desk.ask(sit_down, visitor.name)


def goto(path: str) -> Response:
    return RedirectResponse(path, 303)


def start(request: Request) -> Response:
    """Where a rater goes on: training, the next sheet, the overview, or the end."""
    seat = seat_of(request)
    if seat.invitation.handed_in:
        return page(request, "rate_done.html", seat=seat)
    if not seat.trained and not seat.drafts and seat.invitation.task == "rate":
        return page(request, "rate_welcome.html", seat=seat, rubric=seat.papers.rubric)
    if seat.next_example:
        return goto(f"/rate/training/{seat.next_example}")
    following = seat.next_sheet()
    return goto(f"/rate/{following}" if following else "/rate/overview")


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
        seat=seat,
        n=n,
        example=examples[n - 1],
        given=seat.trained.get(name),
        after=n + 1 if n < len(examples) else None,
        rubric=seat.papers.rubric,
    )


async def train(request: Request) -> Response:
    form = await form_of(request)
    n, label = request.path_params["n"], form.first("label")

    def keep(seat: Seat) -> None:
        draft = DraftRating(f"training-{n}", label)
        seat.desk.ask(RatingRoom.save, seat.invitation, draft)

    await _in_thread(request, keep)
    return goto(f"/rate/training/{n}")


def sheet(request: Request) -> Response:
    """One conversation, the rubric beside it, and what was put down so far."""
    seat, n = seat_of(request), request.path_params["n"]
    if seat.invitation.handed_in:
        return goto("/rate")
    sheets = seat.sheets
    if not 1 <= n <= len(sheets):
        raise HTTPException(404, f"there are {len(sheets)} sheets")
    shown = sheets[n - 1]
    draft = seat.drafts.get(shown.name, DraftRating(shown.name))
    return page(
        request,
        "rate_sheet.html",
        seat=seat,
        n=n,
        sheet=shown,
        draft=draft,
        cited=set(read_turns(draft.turns, len(shown.texts)) or ()),
        opinions=[(each, written_turns(each.turns)) for each in shown.opinions],
        before=n - 1 if n > 1 else None,
        after=n + 1 if n < len(sheets) else None,
        rubric=seat.papers.rubric,
        unsure=UNSURE,
    )


async def save(request: Request) -> Response:
    """Keep what stands in the form. With `go`, move on; without, only keep it."""
    form = await form_of(request)
    n = request.path_params["n"]

    def keep(seat: Seat) -> str:
        sheets = seat.sheets
        if not 1 <= n <= len(sheets):
            raise HTTPException(404, f"there are {len(sheets)} sheets")
        shown = sheets[n - 1]
        turns = [int(turn) for turn in form.all("turn") if turn.isascii() and turn.isdigit()]
        label = form.first("label")
        reason = " ".join(form.first("reason").split())
        draft = DraftRating(shown.name, label, written_turns(turns), reason)
        kept = seat.desk.ask(RatingRoom.save, seat.invitation, draft)
        given = {**seat.drafts, shown.name: kept}
        following = seat._replace(drafts=given).next_sheet(n)
        return f"/rate/{following}" if following else "/rate/overview"

    ahead = await _in_thread(request, keep)
    return goto(ahead) if form.first("label") else Response(status_code=204)


async def undo(request: Request) -> Response:
    """Take the last label back, and show its sheet."""

    def back(seat: Seat) -> str:
        name = seat.desk.ask(RatingRoom.undo, seat.invitation)
        names = list(seat.papers.sheets)
        return f"/rate/{names.index(name) + 1}" if name in names else "/rate/overview"

    return goto(await _in_thread(request, back))


def overview(request: Request) -> Response:
    """All sheets with what was put down, the unsure ones to come back to, and handing in."""
    seat = seat_of(request)
    if seat.invitation.handed_in:
        return goto("/rate")
    rows = [
        (n, seat.drafts.get(each.name, DraftRating(each.name)))
        for n, each in enumerate(seat.sheets, 1)
    ]
    return page(request, "rate_overview.html", seat=seat, rows=rows, words=WORDS, unsure=UNSURE)


async def hand_in(request: Request) -> Response:
    """Store the labels for good."""

    def hand(seat: Seat) -> None:
        if not seat.invitation.handed_in:
            seat.desk.ask(RatingRoom.hand_in, seat.invitation)

    await _in_thread(request, hand)
    return goto("/rate")


async def _in_thread(request: Request, do: Callable[[Seat], Got]) -> Got:
    """Work that waits for the store, off the event loop."""
    return await run_in_threadpool(lambda: do(seat_of(request)))


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
