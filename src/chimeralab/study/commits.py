"""Commits that conversations share, and a count beside the database of what is safe in it.

A commit that outlives a power cut takes a disk some milliseconds. A thousand conversations that
each wait for their own would wait for nothing else, so the disk is waited for once.

After a kill, the last turns are in `study.db-wal` alone. A copy of the folder without it, or with
half of it, is a sound database that holds less, and no hash inside it can tell. So each turn, reply
to a probe and start of a run is counted twice: inside the database and in `study.count`.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from chimeralab.study.database import plainly

# The file is written over in place, so that every content has to have the same length.
WIDTH = 20


def tally_path(store: Path) -> Path:
    return store.with_suffix(".count")


def read_tally(store: Path) -> int:
    """What the file beside a database says; 0 before anything is stored."""
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


class SharedCommits:
    """Gathers steps, each whole or not there, and commits all of them together.

    Outside an event loop a step is on disk at its end. Inside one it is when `settled` returns,
    or soon after if nobody waits. `then` is called after each commit. With `patience`, a commit
    waits so many times as long as the last one took before it follows, so that waiting for the
    disk leaves the loop that share of its time, by `clock`.
    """

    patience = 0.0

    def __init__(
        self,
        db: sqlite3.Connection,
        path: Path,
        then: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._db = db
        self._path = path
        self._then = then
        self._clock = clock
        self._next: asyncio.Future[None] | None = None
        self._took = self._ended = 0.0

    @contextmanager
    def step(self) -> Iterator[sqlite3.Connection]:
        try:
            with plainly(self._path):
                if not self._db.in_transaction:
                    self._db.execute("BEGIN IMMEDIATE")
                self._db.execute("SAVEPOINT step")
                try:
                    yield self._db
                except BaseException:
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK TO step")
                    raise
                finally:
                    if self._db.in_transaction:
                        self._db.execute("RELEASE step")
        except Exception as error:
            if self._next and not self._db.in_transaction:
                # A full disk ends the transaction, and with it what others had gathered.
                self._next.set_exception(error)
                self._next = None
            raise
        self._commit_soon()

    async def settled(self) -> None:
        """Wait until all steps so far are on disk."""
        if self._next is not None:
            await asyncio.shield(self._next)  # others wait for it, too

    def commit(self) -> None:
        """Put what was gathered on disk now, and tell whoever waits for it."""
        waiting, self._next = self._next, None
        try:
            if self._db.in_transaction:
                self._commit()
        except Exception as error:
            if waiting is not None:
                waiting.set_exception(error)
            raise
        if waiting is not None:
            waiting.set_result(None)

    def _commit(self) -> None:
        started = self._clock()
        with plainly(self._path):
            try:
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        self._then()
        self._ended = self._clock()
        self._took = self._ended - started

    def _commit_soon(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.commit()
            return
        if self._next is None or self._next.get_loop() is not loop:
            self._next = loop.create_future()
            wait = self._ended + self.patience * self._took - self._clock()
            loop.call_later(max(0.0, wait), self._commit_for_all, self._next)

    def _commit_for_all(self, waiting: asyncio.Future[None]) -> None:
        if not waiting.done():
            with suppress(Exception):  # whoever waits for it is told
                self.commit()
