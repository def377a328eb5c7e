"""Group commits: durable after a flush, atomic, and few."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from chimeralab.study.database import GroupCommit, StoreError
from tests import virtual_time


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.db"


@pytest.fixture
def db(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE said (text TEXT UNIQUE)")
        yield connection


def on_disk(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as other:
        return [row[0] for row in other.execute("SELECT text FROM said ORDER BY rowid")]


def say(commits: GroupCommit, *texts: str) -> None:
    with commits.step() as db:
        for text in texts:
            db.execute("INSERT INTO said VALUES (?)", [text])


def test_step_outside_an_event_loop_is_durable_at_its_end(
    db: sqlite3.Connection, path: Path
) -> None:
    say(GroupCommit(db, path, lambda: None), "Hi.")
    assert on_disk(path) == ["Hi."]


def test_concurrent_writers_share_one_commit(db: sqlite3.Connection, path: Path) -> None:
    made: list[int] = []
    commits = GroupCommit(db, path, lambda: made.append(1))

    async def talk(n: int) -> None:
        say(commits, str(n))
        assert on_disk(path) == []
        await commits.flush()
        assert len(on_disk(path)) == 50

    async def talks() -> None:
        await asyncio.gather(*(talk(n) for n in range(50)))

    asyncio.run(talks())
    assert len(made) == 1


def test_commits_are_spaced_out_with_patience(db: sqlite3.Connection, path: Path) -> None:
    made: list[float] = []

    async def talk(commits: GroupCommit, n: int) -> None:
        await asyncio.sleep(n / 1000)
        say(commits, str(n))
        await commits.flush()
        assert str(n) in on_disk(path)

    async def talks() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual_time.VirtualTimeLoop)

        def take_20_ms() -> None:
            made.append(loop.now)
            loop.now += 0.02

        commits = GroupCommit(db, path, take_20_ms, clock=loop.time)
        commits.patience = 4.0
        await asyncio.gather(*(talk(commits, n) for n in range(60)))

    virtual_time.run(talks())
    # The first, and all that came in the 20 ms that it took and in the 80 ms after it.
    assert made == [pytest.approx(0.0), pytest.approx(0.1)]


def test_step_without_a_flush_is_committed(db: sqlite3.Connection, path: Path) -> None:
    written = asyncio.Event()
    commits = GroupCommit(db, path, written.set)

    async def one() -> None:
        say(commits, "Hi.")
        await written.wait()
        assert on_disk(path) == ["Hi."]
        say(commits, "Bye.")

    asyncio.run(one())
    commits.commit()
    assert on_disk(path) == ["Hi.", "Bye."]


def test_step_of_a_closed_loop_is_committed_by_the_next(db: sqlite3.Connection, path: Path) -> None:
    now = [0.0]

    def take_a_second() -> None:
        now[0] += 1.0

    commits = GroupCommit(db, path, take_a_second, clock=lambda: now[0])
    say(commits, "Hi.")
    commits.patience = 1e6

    async def leave() -> None:
        say(commits, "Left behind.")

    async def wait() -> None:
        commits.patience = 0.0
        now[0] += 1.0
        say(commits, "Bye.")
        await commits.flush()

    asyncio.run(leave())
    assert on_disk(path) == ["Hi."]
    asyncio.run(wait())
    assert on_disk(path) == ["Hi.", "Left behind.", "Bye."]


def test_failed_step_does_not_roll_back_others(db: sqlite3.Connection, path: Path) -> None:
    commits = GroupCommit(db, path, lambda: None)

    async def two() -> None:
        say(commits, "Hi.")
        with pytest.raises(StoreError, match="UNIQUE"):
            say(commits, "half", "Hi.")
        await commits.flush()

    asyncio.run(two())
    assert on_disk(path) == ["Hi."]


def test_failed_commit_is_raised_in_flush(db: sqlite3.Connection, path: Path) -> None:
    def full() -> None:
        raise StoreError("the disk is full")

    commits = GroupCommit(db, path, full)

    async def talk(text: str) -> None:
        say(commits, text)
        with pytest.raises(StoreError, match="full"):
            await commits.flush()

    async def talks() -> None:
        await asyncio.gather(talk("a"), talk("b"))

    asyncio.run(talks())


def test_lost_transaction_is_raised_in_flush(db: sqlite3.Connection, path: Path) -> None:
    commits = GroupCommit(db, path, lambda: None)

    async def talk() -> None:
        say(commits, "a")
        with pytest.raises(StoreError, match="full"):
            await commits.flush()

    def fill() -> None:
        with commits.step() as step:
            step.execute("ROLLBACK")  # as SQLite does when the disk is full
            raise sqlite3.OperationalError("database or disk is full")

    async def talks() -> None:
        waiting = asyncio.create_task(talk())
        await asyncio.sleep(0)
        with pytest.raises(StoreError, match="full"):
            fill()
        await waiting
        say(commits, "b")
        await commits.flush()

    asyncio.run(talks())
    assert on_disk(path) == ["b"]


def test_cancelled_flush_does_not_cancel_the_commit(db: sqlite3.Connection, path: Path) -> None:
    commits = GroupCommit(db, path, lambda: None)

    async def talk(text: str) -> None:
        say(commits, text)
        await commits.flush()

    async def talks() -> None:
        one, two = asyncio.create_task(talk("a")), asyncio.create_task(talk("b"))
        await asyncio.sleep(0)
        one.cancel()
        await two

    asyncio.run(talks())
    assert on_disk(path) == ["a", "b"]
