"""`chimera show`, `chimera report`, `chimera view`: conversations and studies as pages.

What draws or serves pages is imported when it is needed: it is slow, and a wrong name should be
reported at once.
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
from chimeralab.core.files import atomic_file, json_text
from chimeralab.core.numbers import plural
from chimeralab.core.parts import StandIn
from chimeralab.core.records import Trajectory
from chimeralab.core.result_words import FACT, ResultWords
from chimeralab.detection.loops import DetectorPair, resolve_loops
from chimeralab.detection.seam import Detector

IDS_NAMED = 5
# Enough to find a misspelt name; comparing with millions would take minutes.
IDS_COMPARED = 10_000
FOLDER = Path("conversations")
PAGES = (".html", ".htm")
OPEN_OPTION = click.option("--open", "open_it", is_flag=True, help="Open the page in the browser.")
FILE = click.Path(dir_okay=False, exists=True, path_type=Path)
OPEN_ENCRYPTED = "open to the network: whoever has the address above sees what you see"
OPEN_UNENCRYPTED = (
    "open to the network without TLS: everyone who can reach {} and overhears a "
    "request can read what the pages show, and the token with which they could do all that "
    "you can; give a certificate with --tls-cert, or leave --host out and use an SSH tunnel"
)


@click.command()
@with_options(*LOG_OPTIONS)
@click.option("--id", "wanted", metavar="ID", help="Which conversation, if there are several.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="The .html file to write, or the folder for several conversations. Default: "
    "conversation-ID.html, or conversations, in this folder.",
)
@with_options(*WHICH_OPTIONS)
@OPEN_OPTION
@with_options(*DETECTOR_OPTIONS)
def show(**options: Any) -> None:
    """Draw a conversation as a page: what repeats, then the pictures, and every message.

    The page is one HTML file that needs no network. Of several conversations, --id chooses one;
    without it, a folder gets a page for each and an index of them, loops first. For a study without
    --id, say where it stands.
    """
    asked = pop_detector(options)
    judges, words = choose_judges(asked, options), FACT
    if options["out"] and options["wanted"] is not None:
        check_page_name(options["out"])
    if not is_study(options["paths"]):
        trajectories = with_progress(read_logs(options), "conversations")
    elif options["wanted"] is None:
        print_standing(Path(options["paths"][0]))
        return
    else:
        changed = [*asked.changed, *(["detector"] if options["which"] != "both" else [])]
        if changed:
            raise InputError(f"a study is judged as its plan says: leave out --{changed[0]}")
        trajectories, detector, words = stored_talks(Path(options["paths"][0]))
        no_vectors = options["no_vectors"] and detector and detector.needs.lags
        judges = DetectorPair(None if no_vectors else detector, resolve_loops(detector))
        options["speaker"] = options["speaker"] or "all"
    several = False
    if options["wanted"] is None:
        coming = iter(trajectories)
        first = list(islice(coming, 2))
        several, trajectories = len(first) > 1, chain(first, coming)
    if several:
        path = draw_several(trajectories, judges, options)
    else:
        path = draw_one(choose(trajectories, options["wanted"]), judges, words, options)
    click.echo(str(path))
    if options["open_it"]:
        open_in_browser(path)


def draw_one(
    trajectory: Trajectory, judges: DetectorPair, words: ResultWords, options: dict[str, Any]
) -> Path:
    """Write the page of a conversation; gives its path."""
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


def draw_several(
    trajectories: Iterable[Trajectory], judges: DetectorPair, options: dict[str, Any]
) -> Path:
    """Write a page for each conversation and an index of them; gives the path of the index."""
    folder: Path = options["out"] or FOLDER
    if folder.suffix.lower() in PAGES:
        raise InputError(
            f"there are several conversations: choose one with --id (`chimera detect` lists them),"
            f" or give --out the name of a folder, not of a page such as {folder}"
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
    say(f"{plural(conversations, 'conversation')}: {looping:,} in a loop, {collapsed:,} collapsed")
    return folder / INDEX


def open_in_browser(path: Path) -> None:
    if not webbrowser.open(path.resolve().as_uri()):
        say(f"no browser could be started; open {path} yourself")


def print_standing(path: Path) -> None:
    """What is asked, whether it was locked, and how far each condition has come."""
    from chimeralab.study import Study, flow  # noqa: PLC0415

    study = Study(path)
    about = study.plan.study
    lock = study.check_lock()
    click.echo(sanitize(f"{about.name}: {about.question}" if about.question else about.name))
    click.echo(f"locked, sha256 {lock.sha256}" if lock else "not locked: exploratory")
    if not study.store_path.exists():
        click.echo(f"{len(study.talks):,} conversations planned, none begun: `chimera run {path}`")
        return
    with study.archive() as archive:
        out.print(summarize_flow(flow(archive), list(study.plan.conditions)))


def stored_talks(path: Path) -> tuple[Iterator[Trajectory], Detector | None, ResultWords]:
    """The conversations of a study, the detector of its plan, the words that its gate allows.

    A detector whose code is not ours is left out: to show a conversation must not run it.
    """
    from chimeralab.rating.study_audit import reliability, scope_of  # noqa: PLC0415
    from chimeralab.study import Study  # noqa: PLC0415

    study = Study(path)
    words = scope_of(reliability(study)).words
    settings: Any = study.plan.detector.settings
    if isinstance(settings, StandIn):
        say(f"loops alone are looked for: the study's detector is code of {settings.code}")
    detector = None if isinstance(settings, StandIn) else settings
    return study.trajectories(), detector, words


def choose(trajectories: Iterable[Trajectory], wanted: str | None) -> Trajectory:
    """The conversation with this id, or the only one there is."""
    found: Trajectory | None = None
    matches = 0
    ids: list[str] = []
    for trajectory in trajectories:
        if len(ids) < IDS_COMPARED:
            ids.append(trajectory.id)
        if wanted in (None, trajectory.id):
            matches += 1
            found = found or trajectory
    if not ids:
        raise InputError("no conversation could be read there")
    if found is None:
        asked = wanted or ""
        by_spelling = difflib.get_close_matches(asked, ids, IDS_NAMED)
        holding = [one for one in ids if asked and asked.casefold() in one.casefold()]
        close = list(dict.fromkeys([*by_spelling, *holding]))[:IDS_NAMED]
        named = ", ".join(repr(sanitize(one)) for one in close or ids[:IDS_NAMED])
        hint = f"did you mean {named}?" if close else f"there are {named}"
        raise InputError(f"no conversation has the id {sanitize(asked)!r}; {hint}")
    if matches > 1 and wanted is not None:
        place = sanitize(found.source or "the log")
        say(f"{matches:,} conversations have the id {wanted!r}; this is the first, of {place}")
    return found


def check_page_name(path: Path) -> None:
    """Refuse a place we can't or shouldn't write to, before any work is done."""
    if path.suffix.lower() not in PAGES:
        raise InputError(f"{path}: a page is an .html file; give --out a name that ends so")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}; make it first")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give --out another name")


@click.command()
@STUDY_ARGUMENT
@OPEN_OPTION
@JSON_OPTION
def report(path: Path, open_it: bool, as_json: bool) -> None:
    """Write the report of a study: STUDY/report/index.html, one file that needs no network.

    Works for self-play and for trials. Figures are written beside the page as SVG and PNG, tables
    as CSV. Self-play without a verdict is judged first; nothing else in the study changes, and the
    report can be rewritten at any time.
    """
    from chimeralab.report.files import write_report  # noqa: PLC0415
    from chimeralab.study import Study  # noqa: PLC0415
    from chimeralab.study.estimates import Estimates  # noqa: PLC0415

    study = Study(path)
    estimates = Estimates(study, renew=True, tell=say)
    with err.status("reading") as status:
        written = write_report(
            study, lambda doing: status.update(sanitize(doing)), estimates=estimates
        )
    if as_json:
        files = [str(file) for file in written.files]
        row = {
            "page": str(written.page),
            "glance": list(written.glance),
            "files": files,
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
    help="The address to listen at. Any but this machine's own is open to others.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Default: 8472, or a free one where that is used."
)
@click.option("--no-open", is_flag=True, help="Don't open the browser.")
@click.option("--allow-run", is_flag=True, help="Let the page start and pause runs of a study.")
@click.option("--tls-cert", "certificate", type=FILE, help="Encrypt with this certificate (PEM).")
@click.option(
    "--tls-key", "key", type=FILE, help="The certificate's key, if it is in a file apart."
)
def view(no_open: bool, paths: tuple[str, ...], **options: object) -> None:
    """Browse logs and watch studies in the browser.

    PATH is a log, a folder of logs, a study, or a folder of studies; by default this folder. The
    address that is printed holds a token: whoever has it sees what you see. Ctrl-C stops.
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
    asked = ServerOptions(paths, **options)  # type: ignore[arg-type]
    check_certificate(asked)
    with contextlib.closing(Server(asked)) as server:
        click.echo(server.url)
        if asked.is_open_to_others:
            say(OPEN_ENCRYPTED if asked.certificate else OPEN_UNENCRYPTED.format(asked.host))
        if not no_open:
            # A browser that takes its time to start must not keep the server from answering it.
            threading.Thread(target=webbrowser.open, args=[server.url], daemon=True).start()
        server.serve()
