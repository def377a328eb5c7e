"""`chimera show`, `chimera report` and `chimera view`: conversations and studies as pages.

Modules that draw or serve pages are slow to import, so they are imported where they are needed.
"""

import contextlib
import difflib
import threading
import webbrowser
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import click

from chimeralab.cli.options import (
    DETECTOR_OPTIONS,
    JSON_OPTION,
    LOG_OPTIONS,
    PRICE_OPTION,
    STUDY_ARGUMENT,
    WHICH_OPTIONS,
    choose_judges,
    is_study,
    pop_detector,
    read_logs,
    with_options,
)
from chimeralab.cli.terminal import err, out, sanitize, say, summarize_flow, with_progress
from chimeralab.core.errors import InputError
from chimeralab.core.files import atomic_file
from chimeralab.core.numbers import plural
from chimeralab.core.parts import StandIn
from chimeralab.core.records import Trajectory
from chimeralab.core.result_words import FACT, ResultWords
from chimeralab.core.schema import json_text
from chimeralab.detection.cost import Prices
from chimeralab.detection.loops import DetectorPair, resolve_loops

MAX_SUGGESTIONS = 5
# Enough to find a misspelt id; comparing millions would take minutes.
MAX_COMPARED = 10_000
FOLDER = Path("conversations")
PAGES = (".html", ".htm")
OPEN_OPTION = click.option("--open", "open_it", is_flag=True, help="Open the page in the browser.")
FILE = click.Path(dir_okay=False, exists=True, path_type=Path)
OPEN_ENCRYPTED = "open to the network: anyone with the address above sees what you see"
OPEN_UNENCRYPTED = (
    "open to the network without TLS: anyone who can listen on the way to {} can read the pages "
    "and copy the token, which gives full access; use --tls-cert, or leave out --host and use an "
    "SSH tunnel"
)


@click.command()
@with_options(*LOG_OPTIONS)
@click.option("--id", "wanted", metavar="ID", help="Show only this conversation.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="The .html file to write, or the folder for several conversations. Default: "
    "conversation-ID.html or conversations/, in the current folder.",
)
@with_options(*WHICH_OPTIONS)
@OPEN_OPTION
@with_options(*DETECTOR_OPTIONS)
def show(**options: Any) -> None:
    """Write conversations as HTML pages: what repeats, charts, and every message.

    A page is a single file that works offline. Several conversations get a folder with a page each
    and an index, loops first; --id selects one of them. For a study without --id, print its
    progress.

    \b
    Examples:
      chimera show logs/run.jsonl --id run-17 --open
      chimera show logs/ --out pages
    """
    detector = pop_detector(options)
    judges, words = choose_judges(detector, options), FACT
    if options["out"] and options["wanted"] is not None:
        check_page_name(options["out"])
    if not is_study(options["paths"]):
        trajectories = with_progress(read_logs(options), "conversations")
    elif options["wanted"] is None:
        print_study_status(Path(options["paths"][0]))
        return
    else:
        changed = [*detector.changed, *(["detector"] if options["which"] != "both" else [])]
        if changed:
            raise InputError(f"the plan of a study sets its detector: leave out --{changed[0]}")
        trajectories, judges, words = open_study(Path(options["paths"][0]), options["no_vectors"])
        options["speaker"] = options["speaker"] or "all"
    several = False
    if options["wanted"] is None:
        coming = iter(trajectories)
        first = list(islice(coming, 2))
        several, trajectories = len(first) > 1, chain(first, coming)
    if several:
        path = write_pages(trajectories, judges, options)
    else:
        path = write_page(
            find_conversation(trajectories, options["wanted"]), judges, words, options
        )
    click.echo(str(path))
    if options["open_it"]:
        open_in_browser(path)


def write_page(
    trajectory: Trajectory, judges: DetectorPair, words: ResultWords, options: dict[str, Any]
) -> Path:
    if options["out"]:
        check_page_name(options["out"])
    from chimeralab.embedding.encoder import open_encoder  # noqa: PLC0415
    from chimeralab.report.conversation import draw_conversation, page_name  # noqa: PLC0415

    path: Path = options["out"] or Path(page_name(trajectory.id))
    page = draw_conversation(
        trajectory,
        judges,
        speaker=options["speaker"],
        open_encoder=partial(open_encoder, options["cache"]),
        words=words,
    )
    with atomic_file(path) as part:
        part.write_text(page, encoding="utf-8")
    return path


def write_pages(
    trajectories: Iterable[Trajectory], judges: DetectorPair, options: dict[str, Any]
) -> Path:
    """Write a page per conversation and an index; return the path of the index."""
    folder: Path = options["out"] or FOLDER
    if folder.suffix.lower() in PAGES:
        raise InputError(
            f"--out {folder} is one page, but there are several conversations: choose one with --id"
            " (`chimera detect` lists them), or name a folder"
        )
    from chimeralab.embedding.encoder import open_encoder  # noqa: PLC0415
    from chimeralab.report.conversation import INDEX, write_index  # noqa: PLC0415

    conversations, looping, collapsed = write_index(
        trajectories,
        folder,
        judges,
        speaker=options["speaker"],
        open_encoder=partial(open_encoder, options["cache"]),
    )
    say(f"{plural(conversations, 'conversation')}: {looping:,} looping, {collapsed:,} collapsed")
    return folder / INDEX


def open_in_browser(path: Path) -> None:
    if not webbrowser.open(path.resolve().as_uri()):
        say(f"no browser could be started; open {path} yourself")


def print_study_status(path: Path) -> None:
    """Print the question of a study, whether it is locked, and its progress by condition."""
    from chimeralab.study import Study, flow  # noqa: PLC0415

    study = Study(path)
    about = study.plan.study
    lock = study.check_lock()
    click.echo(sanitize(f"{about.name}: {about.question}" if about.question else about.name))
    click.echo(f"locked, sha256 {lock.sha256}" if lock else "not locked: exploratory")
    if not study.store_path.exists():
        click.echo(f"{len(study.talks):,} conversations planned; start with `chimera run {path}`")
        return
    with study.archive() as archive:
        out.print(summarize_flow(flow(archive), list(study.plan.conditions)))


def open_study(
    path: Path, no_vectors: bool
) -> tuple[Iterator[Trajectory], DetectorPair, ResultWords]:
    """Load the conversations of a study, the detectors of its plan and the wording of its gate.

    Third-party detectors are left out: showing a conversation must not run their code.
    """
    from chimeralab.rating.study_audit import load_reliability, scope_of  # noqa: PLC0415
    from chimeralab.study import Study  # noqa: PLC0415

    study = Study(path)
    detector: Any = study.plan.detector.settings
    if isinstance(detector, StandIn):
        say(f"only loops are detected: the detector of this study is code in {detector.code}")
        detector = None
    skip = no_vectors and detector and detector.needs.lags
    judges = DetectorPair(None if skip else detector, resolve_loops(detector))
    return study.trajectories(), judges, scope_of(load_reliability(study)).words


def find_conversation(trajectories: Iterable[Trajectory], wanted: str | None) -> Trajectory:
    """Find the conversation with this id, or take the only one."""
    found: Trajectory | None = None
    matches = 0
    # The table of `detect` shows a long id as "…" and its end.
    ending = wanted[1:] if wanted and wanted[0] == "…" else None
    ids: list[str] = []
    for trajectory in trajectories:
        if len(ids) < MAX_COMPARED:
            ids.append(trajectory.id)
        if wanted in (None, trajectory.id) or (ending and trajectory.id.endswith(ending)):
            matches += 1
            found = found or trajectory
    if not ids:
        raise InputError("no conversation found")
    if found is None:
        name = wanted or ""
        similar = difflib.get_close_matches(name, ids, MAX_SUGGESTIONS)
        similar += [each for each in ids if name and name.casefold() in each.casefold()]
        close = list(dict.fromkeys(similar))[:MAX_SUGGESTIONS]
        listed = ", ".join(repr(sanitize(each)) for each in close or ids[:MAX_SUGGESTIONS])
        hint = (
            f"did you mean {listed}?"
            if close
            else f"known: {listed}{', …' * (len(ids) > MAX_SUGGESTIONS)}"
        )
        raise InputError(f"no conversation has the id {sanitize(name)!r}; {hint}")
    if matches > 1 and wanted is not None:
        source = sanitize(found.source or "the log")
        say(f"{matches:,} conversations have the id {wanted!r}; showing the first, from {source}")
    return found


def check_page_name(path: Path) -> None:
    """Reject a bad --out before any work is done."""
    if path.suffix.lower() not in PAGES:
        raise InputError(f"--out {path}: the file name must end in .html")
    if not path.parent.is_dir():
        raise InputError(f"--out {path}: folder {path.parent} does not exist")
    if path.is_dir():
        raise InputError(f"--out {path} is a folder; choose another name")


@click.command()
@STUDY_ARGUMENT
@OPEN_OPTION
@JSON_OPTION
def report(path: Path, open_it: bool, as_json: bool) -> None:
    """Write the report of a study to STUDY/report/index.html, a single file that works offline.

    Figures (SVG, PNG) and tables (CSV) are written next to the page. Self-play conversations
    without a verdict are judged first; nothing else in the study changes, and you can write the
    report again at any time.
    """
    from chimeralab.report.files import write_report  # noqa: PLC0415
    from chimeralab.study import Study  # noqa: PLC0415
    from chimeralab.study.estimates import Estimates  # noqa: PLC0415

    study = Study(path)
    estimates = Estimates(study, renew=True, warn=say)
    with err.status("reading") as status:
        written = write_report(
            study, lambda text: status.update(sanitize(text)), estimates=estimates
        )
    if as_json:
        row = {
            "page": str(written.page),
            "glance": list(written.glance),
            "files": [str(file) for file in written.files],
            "root": study.root,
        }
        click.echo(json_text(row))
    else:
        for sentence in written.glance:
            say(sentence)
        say(f"root hash {study.root}")
        click.echo(str(written.page))
    if open_it:
        open_in_browser(written.page)


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on. Anything but a loopback address is open to the network.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Default: 8472, or a free port if it is taken."
)
@click.option("--no-open", is_flag=True, help="Don't open the browser.")
@click.option("--allow-run", is_flag=True, help="Let the page start and pause runs of a study.")
@click.option("--tls-cert", "certificate", type=FILE, help="Encrypt with this certificate (PEM).")
@click.option("--tls-key", "key", type=FILE, help="The key, if it is not in the certificate file.")
@PRICE_OPTION
def view(no_open: bool, paths: tuple[str, ...], price: Prices | None, **options: object) -> None:
    """Browse logs and follow studies in the browser.

    PATH is a log, a folder of logs, a study, or a folder of studies. Default: the current folder.
    The printed address contains a token: anyone who has it sees what you see. Ctrl-C stops the
    server.
    """
    from chimeralab.web.serving import (  # noqa: PLC0415
        Server,
        ServerOptions,
        check_certificate,
        check_path,
    )

    paths = paths or (".",)
    for path in paths:
        check_path(Path(path))
    settings = ServerOptions(paths, prices=price, **options)  # type: ignore[arg-type]
    check_certificate(settings)
    with contextlib.closing(Server(settings)) as server:
        click.echo(server.url)
        if settings.is_open_to_others:
            say(OPEN_ENCRYPTED if settings.certificate else OPEN_UNENCRYPTED.format(settings.host))
        if not no_open:
            # In a thread: a browser that is slow to start must not block the server.
            threading.Thread(target=webbrowser.open, args=[server.url], daemon=True).start()
        server.serve()
