"""What the server was started on: studies and logs, found at the paths that were given."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from chimeralab.web.library import Library
from chimeralab.web.paths import studies_at
from chimeralab.web.safety import Door

if TYPE_CHECKING:
    from chimeralab.web.desks import RatingDesks
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
        rest = [path for path in paths if not (Path(path) / "plan.toml").is_file()]
        self.library = Library(rest, folders) if rest else None

    def menu(self) -> list[MenuEntry]:
        """The parts of the site."""
        found = [MenuEntry("/logs", "Logs")] if self.has_logs else []
        return found + [MenuEntry(f"/study/{each.number}", each.name) for each in self.studies]

    @property
    def has_logs(self) -> bool:
        """A folder of studies need not hold logs as well."""
        return self.library is not None and bool(self.library.read or not self.studies)

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
        for part in self.parts:
            part.close()


def _watches(folders: Sequence[Path]) -> "list[StudyWatch]":
    if not folders:
        return []
    from chimeralab.web.watch import StudyWatch  # noqa: PLC0415 - logs alone need no study

    return [StudyWatch(number, path) for number, path in enumerate(folders, start=1)]


def _desks(folders: Sequence[Path]) -> "RatingDesks | None":
    if not folders:
        return None
    from chimeralab.web.desks import RatingDesks  # noqa: PLC0415 - as above

    return RatingDesks(folders)
