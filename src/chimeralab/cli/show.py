"""`chimera show`: draw a conversation, or a folder of them, or say where a study stands."""

import difflib
import webbrowser
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import click

from chimeralab.cli.options import (
    DETECTOR_OPTIONS,
    LOG_OPTIONS,
    WHICH_OPTIONS,
    asked_judges,
    is_study,
    read_logs,
    take_detector,
    with_options,
)
from chimeralab.cli.terminal import out, plain, say, where_it_stands, with_progress
from chimeralab.core.errors import InputError
from chimeralab.core.files import replacing
from chimeralab.core.numbers import counted
from chimeralab.core.parts import StandIn
from chimeralab.core.records import Trajectory
from chimeralab.core.result_words import FACT, ResultWords
from chimeralab.detection.loops import Judges, loops_beside
from chimeralab.detection.seam import Detector

IDS_NAMED = 5
# Enough to find a misspelt name; comparing with millions would take minutes.
IDS_COMPARED = 10_000
FOLDER = Path("conversations")
PAGES = (".html", ".htm")


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
@click.option("--open", "open_it", is_flag=True, help="Open the page in the browser.")
@with_options(*DETECTOR_OPTIONS)
def show(**options: Any) -> None:
    """Draw a conversation as a page: what repeats, then the pictures, and every message.

    The page is one HTML file that needs no network. Of several conversations, --id chooses one;
    without it, a folder gets a page for each and an index of them, loops first. For a study without
    --id, say where it stands.
    """
    asked = take_detector(options)
    judges, words = asked_judges(asked, options), FACT
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
        judges = Judges(None if no_vectors else detector, loops_beside(detector))
        options["speaker"] = options["speaker"] or "all"
    if options["wanted"] is None:
        coming = iter(trajectories)
        several = list(islice(coming, 2))
        trajectories = chain(several, coming)
        if len(several) > 1:
            tell(draw_several(trajectories, judges, options), options)
            return
    trajectory = choose(trajectories, options["wanted"])
    # Drawing is slow to import, and a wrong name should be told at once.
    if options["out"]:
        check_page_name(options["out"])
    from chimeralab.embedding.encoder import open_encoder  # noqa: PLC0415
    from chimeralab.report.conversation import draw_conversation, page_name  # noqa: PLC0415

    path = options["out"] or Path(page_name(trajectory.id))
    page = draw_conversation(
        trajectory,
        judges,
        speaker=options["speaker"],
        open_encoder=partial(open_encoder, options["cache"]),
        words=words,
    )
    with replacing(path) as part:
        part.write_text(page, encoding="utf-8")
    tell(path, options)


def draw_several(
    trajectories: Iterable[Trajectory], judges: Judges, options: dict[str, Any]
) -> Path:
    """Write a page for each conversation and an index of them; gives the path of the index."""
    folder = options["out"] or FOLDER
    if folder.suffix.lower() in PAGES:
        raise InputError(
            f"there are several conversations: choose one with --id (`chimera detect` lists them),"
            f" or give --out the name of a folder, not of a page such as {folder}"
        )
    from chimeralab.embedding.encoder import open_encoder  # noqa: PLC0415 - as above
    from chimeralab.report.conversation import INDEX, write_index  # noqa: PLC0415

    conversations, looping, collapsed = write_index(
        trajectories,
        folder,
        judges,
        speaker=options["speaker"],
        open_encoder=partial(open_encoder, options["cache"]),
    )
    say(f"{counted(conversations, 'conversation')}: {looping:,} in a loop, {collapsed:,} collapsed")
    return folder / INDEX


def tell(path: Path, options: dict[str, Any]) -> None:
    """Say what was written, and open it where that was asked for."""
    click.echo(str(path))
    if options["open_it"] and not webbrowser.open(path.resolve().as_uri()):
        say(f"no browser could be started; open {path} yourself")


def print_standing(path: Path) -> None:
    """What is asked, whether it was locked, and how far each condition has come."""
    # Imported here: drawing a conversation of a log, the common case, needs no study.
    from chimeralab.study import Study, flow  # noqa: PLC0415

    study = Study(path)
    about = study.plan.study
    lock = study.checked_lock()
    click.echo(plain(f"{about.name}: {about.question}" if about.question else about.name))
    click.echo(f"locked, sha256 {lock.sha256}" if lock else "not locked: exploratory")
    if not study.store_path.exists():
        click.echo(f"{len(study.talks):,} conversations planned, none begun: `chimera run {path}`")
        return
    with study.archive() as archive:
        out.print(where_it_stands(flow(archive), list(study.plan.conditions)))


class StoredTalks(NamedTuple):
    """The conversations of a study, the detector of its plan, the words that its gate allows.

    A detector whose code is not ours is left out: to show a conversation must not run it.
    """

    trajectories: Iterator[Trajectory]
    detector: Detector | None
    words: ResultWords


def stored_talks(path: Path) -> StoredTalks:
    """What there is to show of a study."""
    from chimeralab.rating.auditing import reliability, scope_of  # noqa: PLC0415 - as above
    from chimeralab.study import Study  # noqa: PLC0415

    study = Study(path)
    words = scope_of(reliability(study)).words
    settings: Any = study.plan.detector.settings
    if isinstance(settings, StandIn):
        say(f"loops alone are looked for: the study's detector is code of {settings.code}")
    detector = None if isinstance(settings, StandIn) else settings
    return StoredTalks(study.trajectories(), detector, words)


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
    if found is None:
        raise InputError(_nothing(ids, wanted or ""))
    if matches > 1 and wanted is not None:
        place = plain(found.source or "the log")
        say(f"{matches:,} conversations have the id {wanted!r}; this is the first, of {place}")
    return found


def _nothing(ids: list[str], wanted: str) -> str:
    if not ids:
        return "no conversation could be read there"
    by_spelling = difflib.get_close_matches(wanted, ids, IDS_NAMED)
    holding = [one for one in ids if wanted and wanted.casefold() in one.casefold()]
    close = list(dict.fromkeys([*by_spelling, *holding]))[:IDS_NAMED]
    hint = f"did you mean {_listed(close)}?" if close else f"there are {_listed(ids[:IDS_NAMED])}"
    return f"no conversation has the id {plain(wanted)!r}; {hint}"


def _listed(ids: list[str]) -> str:
    return ", ".join(repr(plain(one)) for one in ids)


def check_page_name(path: Path) -> None:
    """Refuse a place we can't or shouldn't write to, before any work is done."""
    if path.suffix.lower() not in PAGES:
        raise InputError(f"{path}: a page is an .html file; give --out a name that ends so")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}; make it first")
    if path.is_dir():
        raise InputError(f"{path} is a folder; give --out another name")
