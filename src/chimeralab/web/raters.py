"""What the owner of a study sees of rating: who rates, how well they agree, tables to take away."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chimeralab.core.numbers import percent
from chimeralab.rating.auditing import contested, write_validation_set
from chimeralab.rating.auditing import reliability as audited
from chimeralab.rating.invitations import RatingRoom, Task
from chimeralab.rating.packets import written_turns
from chimeralab.rating.samples import stored_samples
from chimeralab.stats.intervals import wilson
from chimeralab.stats.raters import against_the_rest
from chimeralab.study import Study
from chimeralab.study.export import write_ratings
from chimeralab.web.pages import page, trail_to
from chimeralab.web.rating import Form, RatingDesk, first, posted

TASKS: dict[Task, str] = {"rate": "rate", "adjudicate": "settle disagreements"}
EXPORTS: dict[str, Callable[[Study, Path], Path]] = {
    "ratings": write_ratings,
    "validation": write_validation_set,
}


def desk_of(request: Request) -> RatingDesk:
    """The rating room of the study that an address is about."""
    desks: list[RatingDesk] = request.app.state.site.desks
    number: int = request.path_params["study"]
    if not 1 <= number <= len(desks):
        raise HTTPException(404, "this server does not show that study")
    return desks[number - 1]


def about_study(request: Request, template: str, **content: Any) -> Response:
    """A page that belongs to the page of its study, whose `name` is in the content."""
    number = request.path_params["study"]
    trail = trail_to(number, content["name"])
    return page(request, template, number=number, trail=trail, **content)


def raters(request: Request) -> Response:
    """Who was invited, how far they are, and a form to invite more."""
    return about_study(request, "raters.html", link=None, **desk_of(request).ask(_progress))


@posted
def invite(request: Request, form: Form) -> Response:
    """Make an invitation, and show its link this once."""
    task: Task = "adjudicate" if first(form, "task") == "adjudicate" else "rate"
    desk = desk_of(request)
    name, sample = first(form, "name"), first(form, "sample") or None
    token = desk.ask(lambda room: room.invite(name, sample, task))
    link = f"{request.url.scheme}://{request.headers['host']}/rate?token={token}"
    return about_study(request, "raters.html", link=link, **desk.ask(_progress))


def _progress(room: RatingRoom) -> dict[str, Any]:
    samples = stored_samples(room.study)
    return {
        "name": room.study.plan.study.name,
        "progress": room.progress(),
        "samples": samples,
        "gate": room.study.plan.extras["gate"],
        "decided": any(each.used for each in samples),
        "gate_is_due": any(each.kind == "gate" and not each.used for each in samples),
        "tasks": TASKS,
    }


def reliability(request: Request) -> Response:
    """The panel as it will be printed, and every disagreement with what was settled."""
    return about_study(request, "reliability.html", **desk_of(request).ask(_agreement))


def _agreement(room: RatingRoom) -> dict[str, Any]:
    # Drawing takes a while to import, and raters must not wait for it.
    from chimeralab.selfplay.report.page import reliability_section  # noqa: PLC0415

    found = contested(room.study)
    rated = found[1] if found else {}
    labels = {name: [each.label for each in given.values()] for name, given in rated.items()}
    settled = room.settled()
    return {
        "name": room.study.plan.study.name,
        "section": reliability_section(audited(room.study)),
        "against": [
            (rater, same, items, wilson(same, items) if items else None)
            for rater, (same, items) in against_the_rest(labels).items()
        ],
        "disputes": [
            {
                "item": each.item,
                "said": [(name, rated[name][each.item]) for name in each.labels],
                "settled": settled.get(each.item),
            }
            for each in (found[0].disagreements if found else ())
        ],
        "written": written_turns,
        "percent": percent,
    }


def export(request: Request) -> Response:
    """A table to take away, made from what is stored now; sealed labels are not in it."""
    desk, name = desk_of(request), request.path_params["name"]

    def table(room: RatingRoom) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            return EXPORTS[name](room.study, Path(folder)).read_bytes()

    if name not in EXPORTS:
        raise HTTPException(404, f"there is no such table; there are {', '.join(EXPORTS)}")
    download = {"content-disposition": f'attachment; filename="{name}.csv"'}
    return Response(desk.ask(table), headers=download, media_type="text/csv")


ROUTES = [
    Route("/study/{study:int}/raters", raters, methods=["GET"]),
    Route("/study/{study:int}/raters", invite, methods=["POST"]),
    Route("/study/{study:int}/reliability", reliability),
    Route("/study/{study:int}/export/{name}.csv", export),
]
