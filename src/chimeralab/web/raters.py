"""The owner's pages on rating: raters and their progress, agreement, exports."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chimeralab.core.numbers import percent
from chimeralab.rating.invitations import RatingService, Task
from chimeralab.rating.plan import describe_draft, load_study_rubric
from chimeralab.rating.samples import load_samples
from chimeralab.rating.study_audit import load_decided_gate, load_reliability, write_validation_set
from chimeralab.stats.intervals import wilson
from chimeralab.stats.raters import compare_with_majority
from chimeralab.study import Study
from chimeralab.study.export import write_ratings
from chimeralab.web.pages import page, trail_to
from chimeralab.web.rating import Form, RatingWorker, first, form_endpoint
from chimeralab.web.serving import is_loopback

TASKS: dict[Task, str] = {"rate": "rate", "adjudicate": "adjudicate disagreements"}
EXPORTS: dict[str, Callable[[Study, Path], Path]] = {
    "ratings": write_ratings,
    "validation": write_validation_set,
}


def find_worker(request: Request) -> RatingWorker:
    workers: list[RatingWorker] = request.app.state.site.rating_workers
    number: int = request.path_params["study"]
    if not 1 <= number <= len(workers):
        raise HTTPException(404, "this server does not show that study")
    return workers[number - 1]


def about_study(request: Request, template: str, **content: Any) -> Response:
    """Render a page below that of its study; the content has the `name` of the study."""
    number = request.path_params["study"]
    trail = trail_to(number, content["name"])
    return page(request, template, number=number, trail=trail, **content)


def raters(request: Request) -> Response:
    """List the raters and their progress, with a form to invite more."""
    return about_study(request, "raters.html", link=None, **find_worker(request).run(_progress))


@form_endpoint
def invite(request: Request, form: Form) -> Response:
    """Invite a rater and show the link, once."""
    task: Task = "adjudicate" if first(form, "task") == "adjudicate" else "rate"
    worker = find_worker(request)
    name, sample = first(form, "name"), first(form, "sample") or None
    token = worker.run(lambda service: service.invite(name, sample, task))
    link = f"{request.url.scheme}://{request.headers['host']}/rate?token={token}"
    here = is_loopback(request.url.hostname or "")
    return about_study(request, "raters.html", link=link, only_here=here, **worker.run(_progress))


def _progress(service: RatingService) -> dict[str, Any]:
    samples = load_samples(service.study)
    return {
        "name": service.study.plan.study.name,
        "progress": service.progress(),
        "samples": samples,
        "gate": service.study.plan.extras["gate"],
        "decided": any(each.kind == "gate" and each.used for each in samples),
        "gate_is_due": any(each.kind == "gate" and not each.used for each in samples),
        "tasks": TASKS,
    }


def reliability(request: Request) -> Response:
    """Show the reliability section of the report and every disagreement."""
    return about_study(request, "reliability.html", **find_worker(request).run(_agreement))


def _agreement(service: RatingService) -> dict[str, Any]:
    # Charts are slow to import, and raters should not wait for them.
    from chimeralab.selfplay.report.page import reliability_section  # noqa: PLC0415

    found = load_decided_gate(service.study)
    rated = found[1] if found else {}
    labels = {name: [each.label for each in given.values()] for name, given in rated.items()}
    adjudicated = service.load_adjudications()
    return {
        "name": service.study.plan.study.name,
        "section": reliability_section(
            load_reliability(service.study), describe_draft(service.study)
        ),
        "against": [
            (rater, same, items, wilson(same, items) if items else None)
            for rater, (same, items) in compare_with_majority(labels).items()
        ],
        "disputes": [
            {
                "item": each.item,
                "said": [(name, rated[name][each.item]) for name in each.labels],
                "adjudicated": adjudicated.get(each.item),
            }
            for each in (found[0].disagreements if found else ())
        ],
        "rubric": load_study_rubric(service.study),
        "percent": percent,
    }


def export(request: Request) -> Response:
    """Export a table of the stored ratings; labels of an undecided gate are left out."""
    worker, name = find_worker(request), request.path_params["name"]

    def table(service: RatingService) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            return EXPORTS[name](service.study, Path(folder)).read_bytes()

    if name not in EXPORTS:
        raise HTTPException(404, f"unknown table {name!r}; choose from {', '.join(EXPORTS)}")
    download = {"content-disposition": f'attachment; filename="{name}.csv"'}
    return Response(worker.run(table), headers=download, media_type="text/csv")


ROUTES = [
    Route("/study/{study:int}/raters", raters, methods=["GET"]),
    Route("/study/{study:int}/raters", invite, methods=["POST"]),
    Route("/study/{study:int}/reliability", reliability),
    Route("/study/{study:int}/export/{name}.csv", export),
]
