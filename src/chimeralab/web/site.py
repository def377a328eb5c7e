"""What the server was started on: studies and logs, found at the paths that were given."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from chimeralab.web.library import Library
from chimeralab.web.runner import RunChild
from chimeralab.web.safety import Door

if TYPE_CHECKING:
    from chimeralab.web.rating import RatingDesks
    from chimeralab.web.watch import StudyWatch


class MenuEntry(NamedTuple):
    """Somewhere to go from every page."""

    href: str
    title: str


class Site:
    """What the server shows: the studies it was started on, and the logs."""

    def __init__(self, paths: Sequence[str], *, allow_run: bool = False) -> None:
        self.allow_run = allow_run
        folders = [folder for path in paths for folder in studies_at(Path(path))]
        self.studies = _watches(folders)
        self.desks = _desks(folders)
        self.children = [RunChild(path) for path in folders]
        rest = [path for path in paths if not (Path(path) / "plan.toml").is_file()]
        self.library = Library(rest, folders) if rest else None

    def menu(self) -> list[MenuEntry]:
        """The parts of the site; a folder of studies need not hold logs as well."""
        logs = self.library and (self.library.read or not self.studies)
        found = [MenuEntry("/logs", "Logs")] if logs else []
        return found + [MenuEntry(f"/study/{each.number}", each.name) for each in self.studies]

    @property
    def doors(self) -> list[Door]:
        """Who is let in beside the owner: people who were invited to rate."""
        return [self.desks.door()] if self.desks else []

    @property
    def parts(self) -> "list[Library | StudyWatch]":
        return [*([self.library] if self.library else []), *self.studies]

    def hang_up(self) -> None:
        """End the streams to open pages, which would keep the server from stopping."""
        for part in self.parts:
            part.feed.close()
        for watch in self.studies:
            for feed in watch.talk_feeds.values():
                feed.close()

    def start(self) -> None:
        for part in self.parts:
            part.start()

    def close(self) -> None:
        if self.desks:
            self.desks.close()
        for part in (*self.children, *self.parts):
            part.close()


def studies_at(path: Path) -> list[Path]:
    """The study at a path, or the studies in a folder, at any depth."""
    if (path / "plan.toml").is_file():
        return [path]
    found = []
    for where, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if "plan.toml" in files:
            found.append(Path(where))
            folders.clear()
    return found


def _watches(folders: Sequence[Path]) -> "list[StudyWatch]":
    if not folders:
        return []
    from chimeralab.web.watch import StudyWatch  # noqa: PLC0415 - logs alone need no study

    return [StudyWatch(number, path) for number, path in enumerate(folders, start=1)]


def _desks(folders: Sequence[Path]) -> "RatingDesks | None":
    if not folders:
        return None
    from chimeralab.web.rating import RatingDesks  # noqa: PLC0415 - as above

    return RatingDesks(folders)
