"""What the owner of a study sees of rating: who rates, how well they agree, tables to take away."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chimeralab.core.numbers import percent
from chimeralab.rating.auditing import Contested, contested, write_validation_set
from chimeralab.rating.auditing import reliability as audited
from chimeralab.rating.invitations import DraftRating, RatingRoom, Task, written_turns
from chimeralab.rating.ratings import Rating
from chimeralab.rating.samples import stored_samples
from chimeralab.stats.intervals import wilson
from chimeralab.stats.raters import against_the_rest
from chimeralab.study import Study
from chimeralab.study.export import write_ratings
from chimeralab.web.conversation import trail_of
from chimeralab.web.desks import RatingDesk, form_of
from chimeralab.web.pages import page

TASKS: dict[Task, str] = {"rate": "rate", "adjudicate": "settle disagreements"}
EXPORTS: dict[str, Callable[[Study, Path], Path]] = {
    "ratings": write_ratings,
    "validation": write_validation_set,
}


class Dispute(NamedTuple):
    """A conversation that raters differ on: what each said, and what was settled."""

    item: str
    said: Sequence[tuple[str, Rating]]
    settled: DraftRating | None


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
        "gate_is_due": any(each.draw.kind == "gate" and not each.used for each in samples),
        "tasks": TASKS,
    }


def _agreement(room: RatingRoom) -> dict[str, Any]:
    # Drawing takes a while to import, and raters must not wait for it.
    from chimeralab.selfplay.report.page import reliability_section  # noqa: PLC0415

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
    Route("/study/{study:int}/raters", raters, methods=["GET"]),
    Route("/study/{study:int}/raters", invite, methods=["POST"]),
    Route("/study/{study:int}/reliability", reliability),
    Route("/study/{study:int}/export/{name}.csv", export),
]
