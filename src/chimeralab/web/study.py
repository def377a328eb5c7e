"""Pages about a study: its live grid, its conversations, and its report."""

import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route

from chimeralab.core.parts import StandIn
from chimeralab.core.result_words import MARK
from chimeralab.core.text import neutralize
from chimeralab.detection.judging import Judge
from chimeralab.detection.loops import DetectorPair, resolve_loops
from chimeralab.rating.study_audit import load_reliability, scope_of
from chimeralab.study.verdicts import load_detections
from chimeralab.web.live import lines
from chimeralab.web.pages import (
    ENCODING,
    JudgedConversation,
    draw_picture,
    page,
    show_conversation,
    trail_to,
)
from chimeralab.web.progress import TalkCell, event_lines, failure_lines, turn_line
from chimeralab.web.watch import StudyWatch

SECONDS_TO_OPEN = 60
MAX_LINES = 40
# Repeated here because the report package is slow to import.
REPORT, REPORT_PAGE = "report", "index.html"
# A report has inline styles, because it must work without a server; its policy allows these and,
# like the page itself, no script at all.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
REPORT_KINDS = {
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".csv": "text/csv",
    ".json": "application/json",
    ".tex": "text/plain",
}


def get_study(request: Request) -> StudyWatch:
    """Get the study of a request, and wait until it is open."""
    studies: list[StudyWatch] = request.app.state.site.studies
    number = int(request.path_params["study"])
    if not 1 <= number <= len(studies):
        raise HTTPException(404, f"study {number} does not exist")
    watch = studies[number - 1]
    watch.ready.wait(SECONDS_TO_OPEN)
    if watch.problem is not None:
        raise HTTPException(409, watch.problem)
    return watch


# Name of a step, whether it is done, what is known about it, and what to do next (a command).
Step = tuple[str, bool, str, str]


def list_steps(watch: StudyWatch) -> list[Step]:
    """The steps of a study in order."""
    study, path = watch.study, watch.path
    run = not any(cell.outcome is None for cell in watch.cells.values())
    report, rated = REPORT_PAGE in report_files(study.path), False
    steps = [
        ("Plan", True, "", ""),
        ("Lock", study.lock is not None, "", f"chimera lock {path}"),
        ("Run", run, watch.figures()["talks"], f"chimera run {path}"),
    ]
    if watch.is_judged:
        audit = load_reliability(study) if study.has_begun else None
        judged = any(True for _ in load_detections(study)) if study.has_begun else False
        rated = bool(audit and audit.raters)
        steps += [
            ("Judge", judged, "", f"chimera detect {path}"),
            ("Rate", rated, "" if rated else "nobody has yet", f"/study/{watch.number}/raters"),
            ("Audit", audit is not None, "", f"chimera audit {path}"),
        ]
    known = "" if not (report and watch.is_judged) or rated else "by the detector alone"
    return [*steps, ("Report", report, known, f"chimera report {path}")]


def overview(request: Request) -> Response:
    """Show the study: numbers, grid, metrics, failures and events."""
    watch = get_study(request)
    plan = watch.study.plan
    failures, events = [], []
    if watch.study.has_begun:
        newest = "ORDER BY id DESC LIMIT ?"
        with watch.study.archive() as archive:
            failures = failure_lines(archive, newest, MAX_LINES)
            events = event_lines(archive, newest, MAX_LINES)
    cells = watch.cells.values()
    counts = {
        name: Counter(cell.is_marked for cell in cells if cell.condition == name)
        for name in plan.conditions
    }
    return page(
        request,
        "study.html",
        watch=watch,
        plan=plan,
        units=plan.kind.units,
        locked=watch.study.lock is not None,
        figures=watch.figures(),
        marked=f"{MARK.collapsed} or looping".capitalize(),
        marked_as=MARK.collapsed,
        stuck={name: (each[True], each.total()) for name, each in counts.items()},
        steps=list_steps(watch),
        grid=watch.grid(),
        done=watch.progress(),
        allow_run=request.app.state.site.allow_run,
        running=watch.child.is_running or watch.run_state()[0],
        open_cells=any(cell.outcome is None for cell in cells),
        metrics={arm: watch.metrics.get(arm, {}) for arm in plan.conditions},
        failures=failures,
        events=events,
        limit=MAX_LINES,
    )


async def events(request: Request) -> Response:
    """Stream the changes of the study."""
    watch = await run_in_threadpool(get_study, request)
    return watch.feed.stream(watch.snapshot)


def get_cell(request: Request, watch: StudyWatch) -> TalkCell:
    cell = watch.cells.get(request.path_params["talk"])
    if cell is None:
        raise HTTPException(404, "this study has no such conversation")
    return cell


def talk(request: Request) -> Response:
    """Show a conversation: with its verdict once it is over, until then turn by turn."""
    watch = get_study(request)
    cell = get_cell(request, watch)
    trail = trail_to(watch.number, watch.name)
    if cell.outcome is not None and cell.turns and watch.is_judged:
        return show_conversation(request, load_judged_talk(watch, cell), trail, in_study=True)
    study, session = watch.study, None
    if cell.outcome is not None:
        session = study.plan.kind.show_talk(study, cell.id, cell.condition)
    done = []
    if not session and watch.study.has_begun:
        with watch.study.archive() as archive:
            done = event_lines(archive, "WHERE trajectory = ? ORDER BY id DESC", cell.id)
        for line in done:
            line["head"] = line["head"].removeprefix(f"{neutralize(cell.id)}, ")
    return page(
        request,
        "talk.html",
        watch=watch,
        cell=cell,
        prompt={prompt.id: prompt for prompt in watch.study.plan.prompts}.get(cell.prompt),
        turns=[turn_line(row) for row in watch.turns(cell.id)],
        done=done,
        session=session,
        trail=trail,
    )


def load_judged_talk(watch: StudyWatch, cell: TalkCell) -> JudgedConversation:
    """Load a finished conversation with its stored verdict; judge it now if there is none."""
    settings: Any = watch.study.plan.detector.settings
    # Showing a page must not run third-party code: then only loops are detected.
    detector = None if isinstance(settings, StandIn) else settings
    judges = DetectorPair(detector, resolve_loops(detector))
    with watch.study.archive() as archive:
        trajectory = archive.trajectory(cell.id)
    assert trajectory is not None
    detection = watch.detection(cell.id)
    if detection is None:
        with ENCODING:
            judge = Judge(*judges, speaker="all", trace=True)
            [(_, detection)] = judge.judge([trajectory])
    words = scope_of(load_reliability(watch.study)).words
    pictures = f"/study/{watch.number}/pictures/{quote(cell.id)}"
    return JudgedConversation(trajectory, detection, judges, words, pictures)


def picture(request: Request) -> Response:
    watch = get_study(request)
    return draw_picture(
        load_judged_talk(watch, get_cell(request, watch)), request.path_params["name"]
    )


async def talk_events(request: Request) -> Response:
    """Stream the turns of a conversation as they are stored."""
    watch = await run_in_threadpool(get_study, request)
    name = get_cell(request, watch).id
    return watch.talk_feed(name).stream(
        lambda: [lines("turns", *map(turn_line, watch.turns(name)))]
    )


def get_runnable_study(request: Request) -> StudyWatch:
    """Get the study of a request, if the server may run it."""
    if not request.app.state.site.allow_run:
        raise HTTPException(403, "to run studies from here, start the server with --allow-run")
    return get_study(request)


def start(request: Request) -> Response:
    """Start the run as a child process of the server."""
    watch = get_runnable_study(request)
    if watch.run_state()[0]:
        raise HTTPException(409, "the study is already running")
    watch.child.start()
    return RedirectResponse(f"/study/{watch.number}", 303)


def pause(request: Request) -> Response:
    """Pause the run that was started here."""
    watch = get_runnable_study(request)
    watch.child.pause()
    return RedirectResponse(f"/study/{watch.number}", 303)


def report_files(study: Path) -> dict[str, Path]:
    """List the files of a report by address.

    Addresses are looked up here and never turned into paths; symbolic links are not followed.
    """
    folder = study / REPORT
    if folder.is_symlink():
        return {}
    paths = [Path(where, name) for where, _, names in os.walk(folder) for name in names]
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(paths)
        if path.suffix in REPORT_KINDS and path.is_file() and not path.is_symlink()
    }


def report(request: Request) -> Response:
    """Link to the report and its files, or explain how to write one."""
    watch = get_study(request)
    files = report_files(watch.study.path)
    written = None
    if REPORT_PAGE in files:
        at = datetime.fromtimestamp(files.pop(REPORT_PAGE).stat().st_mtime, UTC)
        written = f"{at:%Y-%m-%d %H:%M} UTC"
    return page(
        request,
        "report_files.html",
        watch=watch,
        files=files,
        written=written,
        page=REPORT_PAGE,
        trail=trail_to(watch.number, watch.name),
    )


def report_file(request: Request) -> Response:
    """Serve a file of the report."""
    found = report_files(get_study(request).study.path).get(request.path_params["place"])
    if found is None:
        raise HTTPException(404, "no such file in the report")
    policy = {"content-security-policy": REPORT_POLICY}
    return FileResponse(found, headers=policy, media_type=REPORT_KINDS[found.suffix])


ROUTES = [
    Route("/study/{study:int}", overview),
    Route("/study/{study:int}/events", events),
    Route("/study/{study:int}/run", start, methods=["POST"]),
    Route("/study/{study:int}/pause", pause, methods=["POST"]),
    Route("/study/{study:int}/talk/{talk:path}/events", talk_events),
    Route("/study/{study:int}/talk/{talk:path}", talk),
    Route("/study/{study:int}/pictures/{talk:path}/{name}.svg", picture),
    Route("/study/{study:int}/report", report),
    Route("/study/{study:int}/report/{place:path}", report_file),
]
