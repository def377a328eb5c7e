"""The pages about a study: its grid while it fills, and each of its conversations."""

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from chimeralab.core.parts import StandIn
from chimeralab.detection.detectors import Judges
from chimeralab.detection.loops import loops_beside
from chimeralab.detection.measure import measurer_for
from chimeralab.detection.verdict import verdict
from chimeralab.embedding.encoder import default_encoder
from chimeralab.rating.auditing import reliability
from chimeralab.rating.gate_record import scope_of
from chimeralab.web.conversation import (
    ENCODING,
    ShownConversation,
    draw_picture,
    show_conversation,
    trail_of,
)
from chimeralab.web.events import (
    MOST_LINES,
    events_of,
    newest_events,
    newest_failures,
    turn_line,
)
from chimeralab.web.figures import metric_cells
from chimeralab.web.grid import TalkCell
from chimeralab.web.live import lines
from chimeralab.web.pages import page
from chimeralab.web.site import Site
from chimeralab.web.watch import StudyWatch

if TYPE_CHECKING:
    from chimeralab.trial.report.page import ShownSession

SECONDS_TO_OPEN = 60
MOST_TRIALS = 200
METRICS = {"sessions": "sessions", "trials": "trials", "mci": "MCI", "gfq": "GFQ", "dfs": "DFS"}


def study_of(request: Request) -> StudyWatch:
    """The study that an address is about; the pages of rating ask for it, too."""
    site: Site = request.app.state.site
    number = int(request.path_params["study"])
    if not 1 <= number <= len(site.studies):
        raise HTTPException(404, f"there is no study {number} here")
    watch = site.studies[number - 1]
    watch.ready.wait(SECONDS_TO_OPEN)
    if watch.problem is not None:
        raise HTTPException(409, watch.problem)
    return watch


def runnable(request: Request) -> StudyWatch:
    """The study, if the server may run it."""
    if not request.app.state.site.allow_run:
        raise HTTPException(403, "start the server with --allow-run to run studies from here")
    return study_of(request)


def overview(request: Request) -> Response:
    """The whole study: numbers, grid, metrics, failures and events."""
    watch = study_of(request)
    plan = watch.study.plan
    failures, happened = [], []
    if watch.study.store_path.is_file():
        with watch.study.archive() as archive:
            failures, happened = newest_failures(archive), newest_events(archive)
    return page(
        request,
        "study.html",
        watch=watch,
        plan=plan,
        locked=watch.study.lock is not None,
        figures=watch.figures(),
        grid=watch.grid(),
        done=watch.progress(),
        allow_run=request.app.state.site.allow_run,
        running=watch.child.is_running or watch.run_state().running,
        open_cells=any(cell.outcome is None for cell in watch.cells.values()),
        metrics={
            arm: metric_cells(watch.metrics[arm]) if arm in watch.metrics else {}
            for arm in plan.conditions
        }
        if plan.trial
        else None,
        metric_names=METRICS,
        failures=failures,
        events=happened,
        most=MOST_LINES,
    )


async def events(request: Request) -> Response:
    """What changes on the page of the study."""
    watch = await run_in_threadpool(study_of, request)
    return watch.feed.stream(watch.standing)


def cell_of(request: Request, watch: StudyWatch) -> TalkCell:
    cell = watch.cells.get(request.path_params["talk"])
    if cell is None:
        raise HTTPException(404, "this study has no such conversation")
    return cell


def talk(request: Request) -> Response:
    """One conversation: judged once it is over, and until then as it was said so far."""
    watch = study_of(request)
    cell = cell_of(request, watch)
    trail = trail_of(watch.number, watch.name)
    if cell.outcome is not None and cell.turns and watch.study.plan.trial is None:
        return show_conversation(request, shown_of(watch, cell), trail)
    session = shown_session(watch, cell)
    prompts = {prompt.id: prompt for prompt in watch.study.plan.prompts}
    done = []
    if watch.study.store_path.is_file():
        with watch.study.archive() as archive:
            done = events_of(archive, cell.id)
    return page(
        request,
        "talk.html",
        watch=watch,
        cell=cell,
        prompt=prompts.get(cell.prompt),
        turns=[turn_line(row) for row in watch.turns(cell.id)],
        done=[] if session else done,
        session=session,
        trail=trail,
    )


def shown_session(watch: StudyWatch, cell: TalkCell) -> "ShownSession | None":
    """A finished session of a trial as its report shows it: asked, disturbed, answered, judged."""
    if watch.study.plan.trial is None or cell.outcome is None:
        return None
    # Drawing takes a while to import, and the grid must not wait for it.
    from chimeralab.trial.report.page import show_session  # noqa: PLC0415

    found = show_session(watch.study, cell.id, cell.condition, most=MOST_TRIALS)
    return found if found.trials else None


def shown_of(watch: StudyWatch, cell: TalkCell) -> ShownConversation:
    """A finished conversation with the verdict of the study's detector, stored or made now."""
    settings: Any = watch.study.plan.detector.settings
    # Code of others is not run to show a page: then loops alone are looked for.
    detector = None if isinstance(settings, StandIn) else settings
    judges = Judges(detector, loops_beside(detector))
    with watch.study.archive() as archive:
        trajectory = archive.trajectory(cell.id)
    assert trajectory is not None
    detection = watch.detection(cell.id)
    if detection is None:
        with ENCODING:
            measurer = measurer_for(detector, default_encoder, speaker="all")
            (measured,) = measurer.measure([trajectory])
            detection = verdict(
                measured, detector, measurer.encoder, loops=judges.loops, trace=True
            )
    words = scope_of(reliability(watch.study)).words
    place = f"/study/{watch.number}/pictures/{quote(cell.id)}"
    return ShownConversation(trajectory, detection, judges, words, place)


def picture(request: Request) -> Response:
    watch = study_of(request)
    return draw_picture(shown_of(watch, cell_of(request, watch)), request.path_params["name"])


async def talk_events(request: Request) -> Response:
    """The turns of one conversation, as they are stored."""
    watch = await run_in_threadpool(study_of, request)
    name = cell_of(request, watch).id

    def so_far() -> list[dict[str, object]]:
        return [lines("turns", *map(turn_line, watch.turns(name)))]

    return watch.talk_feed(name).stream(so_far)


def start(request: Request) -> Response:
    """Run what is missing, as a child of the server."""
    watch = runnable(request)
    if watch.run_state().running:
        raise HTTPException(409, "it is being run already")
    watch.child.start()
    return RedirectResponse(f"/study/{watch.number}", 303)


def pause(request: Request) -> Response:
    """Pause the run that was started here."""
    watch = runnable(request)
    watch.child.pause()
    return RedirectResponse(f"/study/{watch.number}", 303)


ROUTES = [
    Route("/study/{study:int}", overview),
    Route("/study/{study:int}/events", events),
    Route("/study/{study:int}/run", start, methods=["POST"]),
    Route("/study/{study:int}/pause", pause, methods=["POST"]),
    Route("/study/{study:int}/talk/{talk:path}/events", talk_events),
    Route("/study/{study:int}/talk/{talk:path}", talk),
    Route("/study/{study:int}/pictures/{talk:path}/{name}.svg", picture),
]
