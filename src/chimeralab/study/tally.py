"""How much a study has stored, kept beside its database, so that a lost or cut WAL is noticed.

After a kill, the last turns are in `study.db-wal` alone. A copy of the folder without it, or with
half of it, is a sound database that holds less, and no hash inside it can tell. So each turn, reply
to a probe and start of a run is counted twice: inside the database and in `study.count`.
"""

from pathlib import Path

# The file is written over in place, so that every content has to have the same length.
WIDTH = 20


def tally_path(store: Path) -> Path:
    return store.with_suffix(".count")


def read_tally(store: Path) -> int:
    """What the file beside a database says; 0 where an early version has kept none."""
    try:
        return int(tally_path(store).read_bytes())
    except (OSError, ValueError):
        return 0


def write_tally(store: Path, stored: int) -> None:
    """Put down what is safe in the database by now: after a kill, at most a commit too few."""
    path = tally_path(store)
    with path.open("r+b" if path.exists() else "wb", buffering=0) as file:
        file.write(f"{stored:<{WIDTH}}\n".encode("ascii"))


def shortfall(store: Path, found: int) -> str | None:
    """What is missing in a database that holds less than was stored in it; None if nothing is.

    >>> shortfall(Path("nowhere/study.db"), 3)
    """
    kept = read_tally(store)
    if found >= kept:
        return None
    lacks = f"lacks the last {kept - found:,} of {kept:,}" if found else f"has none of the {kept:,}"
    return (
        f"{lacks} turns, replies to probes and starts of runs that were stored in it: "
        f"{store.name}-wal is missing or cut"
    )
