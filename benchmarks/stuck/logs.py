"""Labelled logs: what two readers said of each, and its text, read where it is public.

Labels are in `labels/`, by repository, commit, path and hash; the texts never are. The folder that
`CHIMERA_REPOSITORIES` names holds the repositories, as `owner+name/repo`. Of each file, the sources
of one half are for development and those of the other held back; logs labelled before are `first`.
"""

import csv
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.stuck.talks import convert
from benchmarks.validity.loop_logs import Log
from chimeralab import Trajectory, readers
from chimeralab.core.errors import ChimeraError
from tests.wild.files import git

LABELS = Path(__file__).parent / "labels"
FILES = ("agents", "talks")
Row = dict[str, str]


class Absent(NamedTuple):
    """A labelled log that can't be judged here, and why."""

    repository: str
    why: str


def read_rows(name: str) -> list[Row]:
    """All labels of a file, whether the readers agree or not."""
    with (LABELS / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def is_agreed(row: Row) -> bool:
    """Whether both readers say the same: only then does a log count."""
    verdicts = {row[key] for key in ("stuck", "stuck_1", "stuck_2") if key in row}
    return verdicts in ({"0"}, {"1"})


def load(row: Row) -> Log | Absent:
    """The log of a label, if its file is on this machine and is the one that was read."""
    found = git(row["repository"], "show", f"{row['commit']}:{row['path']}")
    if found is None:
        return Absent(row["repository"], "not here")
    if sha256(found).hexdigest() != row["sha256"]:
        return Absent(row["repository"], "not the file that was labelled")
    if row["converted"] == "yes":
        text = found.decode("utf-8", "replace").replace("\r\n", "\n")
        talk = convert(row["repository"], row["id"], text, int(row["messages"]))
    else:
        talk = choose(read_bytes(found, Path(row["path"]).name), row["id"])
    log = make_log(row["repository"], row, talk)
    return log or Absent(row["repository"], "can't be read")


@lru_cache(maxsize=2)
def read_bytes(content: bytes, name: str) -> list[Trajectory]:
    """The conversations of a file of which only the content is at hand."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            return list(readers.read(path))
        except ChimeraError:
            return []


def choose(talks: list[Trajectory], name: str) -> Trajectory | None:
    """The conversation of that name or, after `#`, of that number; or the only one."""
    if name.startswith("#"):
        return dict(enumerate(talks)).get(int(name[1:]))
    ending = name.rpartition("#")[2]
    named = [talk for talk in talks if talk.id == name or talk.id.endswith(ending)]
    chosen = talks if len(talks) == 1 else named
    return chosen[0] if chosen else None


def make_log(group: str, row: Row, talk: Trajectory | None) -> Log | None:
    """A log with its source, kind and a span per reader who gave one."""
    if talk is None:
        return None
    ends = [(row[f"onset_{n}"], row[f"last_{n}"]) for n in (1, 2) if row["stuck_1"] == "1"]
    spans = tuple((int(first), int(last or first)) for first, last in ends if first)
    if row["stuck_1"] == "1" and not spans:
        spans = ((1, len(talk.turns)),)
    return Log(talk, group, row["kind_1"], spans)


def own_logs(name: str, half: str) -> Iterator[Log | None]:
    """The logs of a file of labels, of one half; None for one that is not here."""
    for row in read_rows(name):
        if row["half"] == half and is_agreed(row):
            log = load(row)
            yield log if isinstance(log, Log) else None
