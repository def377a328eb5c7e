"""Rating in the browser: the pages of raters, and what the owner sees of them.

A rater's link leads to their own sheets and nowhere else. Their pages are made from the sheets
alone: what the study knows about a conversation never reaches them.
"""

import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from chimeralab.core.errors import ChimeraError
from chimeralab.core.numbers import percent
from chimeralab.rating.packets import read_turns
from chimeralab.rating.ratings import Rating
from chimeralab.stats.intervals import wilson
from chimeralab.stats.raters import against_the_rest
from chimeralab.study import Study
from chimeralab.study.auditing import Contested, contested
from chimeralab.study.auditing import reliability as audited
from chimeralab.study.export import write_ratings
from chimeralab.study.invitations import (
    UNSURE,
    Desk,
    DraftRating,
    Invitation,
    RatingRoom,
    Sheet,
    Task,
    training_names,
    written_turns,
)
from chimeralab.study.samples import stored_samples
from chimeralab.study.standing import write_validation_set
from chimeralab.web.conversation import trail_of
from chimeralab.web.pages import page
from chimeralab.web.safety import Door, Visitor

PATHS = ("/rate", "/static/")
WORDS = {"": "not rated", "0": "0, no loop", "1": "1, a loop", UNSURE: "unsure"}
EXPORTS: dict[str, Callable[[Study, Path], Path]] = {
    "ratings": write_ratings,
    "validation": write_validation_set,
}
Given = ParamSpec("Given")
Got = TypeVar("Got")


class RatingDesk:
    """The rating room of a study behind one thread, which all requests take turns in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="rating")
        self._room: RatingRoom | None = None

    def ask(
        self,
        what: Callable[Concatenate[RatingRoom, Given], Got],
        *args: Given.args,
        **named: Given.kwargs,
    ) -> Got:
        """Have something done in the room."""
        return self._worker.submit(lambda: what(self._opened(), *args, **named)).result()

    def _opened(self) -> RatingRoom:
        if self._room is None:
            self._room = RatingRoom(Study(self.folder))
        return self._room

    def close(self) -> None:
        if self._room is not None:
            self._worker.submit(self._room.close).result()
        self._worker.shutdown()


class RatingDesks:
    """The desks of all studies that the server shows, each opened when it is first needed."""

    def __init__(self, studies: Sequence[Path]) -> None:
        self.studies = list(studies)
        self._desks: dict[int, RatingDesk] = {}
        self._lock = threading.Lock()

    def of(self, number: int) -> RatingDesk:
        with self._lock:
            if number not in self._desks:
                self._desks[number] = RatingDesk(self.studies[number - 1])
            return self._desks[number]

    def door(self) -> Door:
        """Lets in who holds an invitation to one of the studies."""

        def who(token: str) -> Visitor | None:
            for number, folder in enumerate(self.studies, start=1):
                if not (folder / "study.db").is_file():
                    continue
                try:
                    found = self.of(number).ask(RatingRoom.invited, token)
                except ChimeraError:
                    continue  # a store that can't be written has nobody who rates in it
                if found:
                    return Visitor("rater", PATHS, number, token)
            return None

        return who

    def close(self) -> None:
        for each in self._desks.values():
            each.close()


class Dispute(NamedTuple):
    """A conversation that raters differ on: what each said, and what was settled."""

    item: str
    said: Sequence[tuple[str, Rating]]
    settled: DraftRating | None


class Form:
    """What a page has sent: fields that may come several times."""

    def __init__(self, body: bytes) -> None:
        self._fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)

    def all(self, name: str) -> list[str]:
        return self._fields.get(name, [])

    def first(self, name: str) -> str:
        return next(iter(self.all(name)), "")


async def form_of(request: Request) -> Form:
    return Form(await request.body())


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


# What the owner sees


def raters(request: Request) -> Response:
    """Who was invited, how far they are, and a form to invite more."""
    number = _study(request)
    desk: RatingDesk = request.app.state.site.desks.of(number)
    standing = desk.ask(_standing)
    trail = trail_of(number, standing["name"])
    return page(request, "raters.html", number=number, **standing, link=None, trail=trail)


async def invite(request: Request) -> Response:
    """Make an invitation, and show its link this once."""
    form = await form_of(request)
    number = _study(request)
    name, only = form.first("name"), form.first("sample") or None
    task: Task = "adjudicate" if form.first("task") == "adjudicate" else "rate"
    desk: RatingDesk = request.app.state.site.desks.of(number)

    def make(room: RatingRoom) -> tuple[str, dict[str, Any]]:
        return room.invite(name, only, task), _standing(room)

    token, standing = await run_in_threadpool(lambda: desk.ask(make))
    link = f"{request.url.scheme}://{request.headers['host']}/rate?token={token}"
    trail = trail_of(number, standing["name"])
    return page(request, "raters.html", number=number, **standing, link=link, trail=trail)


def reliability(request: Request) -> Response:
    """The panel as it will be printed, and every disagreement with what was settled."""
    number = _study(request)
    desk: RatingDesk = request.app.state.site.desks.of(number)
    found = desk.ask(_agreement)
    trail = trail_of(number, found["name"])
    return page(request, "reliability.html", number=number, **found, trail=trail)


def export(request: Request) -> Response:
    """A table to take away, made from what is stored now; sealed labels are not in it."""
    number, name = _study(request), request.path_params["name"]
    desk: RatingDesk = request.app.state.site.desks.of(number)

    def made(room: RatingRoom) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            return EXPORTS[name](room.study, Path(folder)).read_bytes()

    if name not in EXPORTS:
        raise HTTPException(404, f"there is no such table; there are {', '.join(EXPORTS)}")
    download = {"content-disposition": f'attachment; filename="{name}.csv"'}
    return Response(desk.ask(made), headers=download, media_type="text/csv")


def _standing(room: RatingRoom) -> dict[str, Any]:
    samples = stored_samples(room.study)
    return {
        "name": room.study.plan.study.name,
        "progress": room.progress(),
        "samples": samples,
        "gate": room.study.plan.extras["gate"],
        "decided": any(each.used for each in samples),
    }


def _agreement(room: RatingRoom) -> dict[str, Any]:
    # Drawing takes a while to import, and raters must not wait for it.
    from chimeralab.report.selfplay.page import reliability_section  # noqa: PLC0415

    found = contested(room.study)
    labels = {
        name: [rating.label for rating in rated.values()]
        for name, rated in (found.rated if found else {}).items()
    }
    return {
        "name": room.study.plan.study.name,
        "section": reliability_section(audited(room.study)),
        "against": [
            (each, wilson(each.same, each.items) if each.items else None)
            for each in against_the_rest(labels)
        ],
        "disputes": _disputes(room, found) if found else [],
        "written": written_turns,
        "percent": percent,
    }


def _disputes(room: RatingRoom, found: Contested) -> list[Dispute]:
    settled = room.settled()
    return [
        Dispute(
            each.item,
            [(name, found.rated[name][each.item]) for name in each.labels],
            settled.get(each.item),
        )
        for each in found.items
    ]


def _study(request: Request) -> int:
    number: int = request.path_params["study"]
    if not 1 <= number <= len(request.app.state.site.studies):
        raise HTTPException(404, "this server does not show that study")
    return number


ROUTES = [
    Route("/rate", start),
    Route("/rate/training/{n:int}", training, methods=["GET"]),
    Route("/rate/training/{n:int}", train, methods=["POST"]),
    Route("/rate/overview", overview),
    Route("/rate/undo", undo, methods=["POST"]),
    Route("/rate/hand-in", hand_in, methods=["POST"]),
    Route("/rate/{n:int}", sheet, methods=["GET"]),
    Route("/rate/{n:int}", save, methods=["POST"]),
    Route("/study/{study:int}/raters", raters, methods=["GET"]),
    Route("/study/{study:int}/raters", invite, methods=["POST"]),
    Route("/study/{study:int}/reliability", reliability),
    Route("/study/{study:int}/export/{name}.csv", export),
]
