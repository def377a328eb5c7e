"""A study seen from outside: where it stands, and its stored conversations."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chimeralab.cli.terminal import out, plain
from chimeralab.core.errors import InputError
from chimeralab.core.records import Trajectory
from chimeralab.detection.detectors import Detector, Locked

if TYPE_CHECKING:
    from chimeralab.study import Study


def print_standing(path: Path) -> None:
    """What is asked, whether it was locked, and how far each condition has come."""
    from chimeralab.cli.flow_table import where_it_stands  # noqa: PLC0415 - as below
    from chimeralab.study import flow  # noqa: PLC0415

    study = _open(path)
    about = study.plan.study
    lock = study.checked_lock()
    click.echo(plain(f"{about.name}: {about.question}" if about.question else about.name))
    click.echo(f"locked, sha256 {lock.sha256}" if lock else "not locked: exploratory")
    if not study.store_path.exists():
        click.echo(f"{len(study.talks):,} conversations planned, none begun: `chimera run {path}`")
        return
    with study.archive() as archive:
        out.print(where_it_stands(flow(archive), list(study.plan.conditions)))


def stored_talks(path: Path, asked: Locked) -> tuple[Iterator[Trajectory], Detector]:
    """The conversations of a study, and the detector that its plan declares."""
    if asked.changed:
        option = next(iter(asked.changed))
        raise InputError(f"a study is judged as its plan says: leave out --{option}")
    study = _open(path)
    return study.trajectories(), study.plan.detector.settings


def _open(path: Path) -> "Study":
    # Imported here: drawing a conversation of a log, the common case, needs no study.
    from chimeralab.study import Study  # noqa: PLC0415

    return Study(path)
