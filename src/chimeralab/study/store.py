"""The store of a study: `Store` is the journal that a run writes, `Archive` reads it.

Every turn is durable before the next one is requested; reading is safe during a run.
"""

import json
import os
import platform
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from chimeralab import version
from chimeralab.core.records import Record, Trajectory, Turn
from chimeralab.models.seam import Request
from chimeralab.runner import Answer, Event, Talk, TurnRecord
from chimeralab.study.chain import Chain, read_chain
from chimeralab.study.database import (
    COPY_ID,
    GroupCommit,
    StoreError,
    checkpoint,
    explain_errors,
    find_damage,
    find_foreign,
    find_shortfall,
    hide_damage,
    open_to_read,
    open_to_write,
    read_tally,
    tally_path,
    transaction,
    update_tally,
)
from chimeralab.study.lock import branch, link, opening

Row = dict[str, Any]
# With more conversations than this, commits are spaced out and no guard watches.
MANY_TALKS = 64

# Prefixes of keys in the table `study`: checks of raters, by rater and time, and the items that a
# packet showed to a person twice, by rater and packet.
CHECKS, RETESTS = "check of rater ", "retest of rater "
# And what models told about their revisions, in order.
REVISION = "revision "
# The key in the table `study` of the secret that samples and the order of ratings are drawn with.
SECRET = "secret"  # noqa: S105 - its name


@dataclass(frozen=True, slots=True)
class RunEntry(Record):
    """One run of a study."""

    id: int
    pid: int
    host: str
    started: str
    ended: str | None


class Store:
    """The `Journal` of a run on disk; one writer at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = open_to_write(path)
        self._commits = GroupCommit(self._db, path, on_commit=self._after_commit)
        self._run = 0
        self._has_finished = False

    def close(self) -> None:
        try:
            self._commits.commit()
        finally:
            self._db.close()

    def tune(self, conversations: int) -> None:
        """Space out commits if many conversations share them."""
        self._commits.patience = 9.0 if conversations > MANY_TALKS else 0.0

    async def flush(self) -> None:
        await self._commits.flush()

    def _transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        """Commit the pending steps, then write in a transaction of its own."""
        self._commits.commit()
        return transaction(self._db, self.path)

    def read_note(self, key: str) -> str | None:
        """Read a value of the table `study`."""
        row = self._row("SELECT value FROM study WHERE key = ?", key)
        return row[0] if row else None

    def write_notes(self, **values: str) -> None:
        with self._transaction() as db:
            db.executemany("INSERT OR REPLACE INTO study VALUES (?, ?)", values.items())

    @property
    def secret(self) -> str:
        return draw_secret(self._db)

    def begin_run(self, lock: str | None, settings: Mapping[str, Any]) -> int:
        """Start a run, and close what a killed one left open."""
        with self._transaction() as db:
            db.execute("UPDATE runs SET ended = ?, reason = 'killed' WHERE ended IS NULL", [now()])
            db.execute(
                "UPDATE attempts SET outcome = 'interrupted', "
                "reason = 'the run was killed while this was in flight' WHERE outcome IS NULL"
            )
            self._run = insert(
                db,
                "runs",
                pid=os.getpid(),
                host=platform.node(),
                version=version.__version__,
                lock=lock,
                settings=json.dumps(settings),
                started=now(),
            )
            draw_secret(db)
        return self._run

    def end_run(self, reason: str | None) -> None:
        with self._transaction() as db:
            db.execute(
                "UPDATE runs SET ended = ?, reason = ? WHERE id = ?", (now(), reason, self._run)
            )

    def enter_talks(self, talks: Iterable[Talk]) -> None:
        """Store the planned conversations."""
        with self._transaction() as db:
            for position, talk in enumerate(talks, start=1):
                insert(
                    db,
                    "trajectories",
                    or_ignore=True,
                    id=talk.id,
                    position=position,
                    condition=talk.condition,
                    prompt=talk.prompt.id,
                    bucket=talk.prompt.bucket,
                    prompt_text=talk.prompt.text,
                    repeat=talk.repeat,
                    opening=opening(talk.id, talk.prompt),
                )

    def open_talks(self) -> set[str]:
        """The conversations that have not ended."""
        return {row[0] for row in self._rows("SELECT id FROM trajectories WHERE outcome IS NULL")}

    def total_cost(self) -> float:
        """The cost so far of conversations, first questions, ratings and checks of raters.

        An answer whose cost is not known, or that a kill left in flight, counts by its estimate.
        """
        query = (
            "SELECT total(cost) FROM (SELECT cost FROM charges UNION ALL "
            "SELECT coalesce(cost, CASE WHEN outcome IS NULL OR outcome IN ('answered', 'empty', "
            "'refusal', 'unreadable', 'interrupted', 'cancelled', 'crashed', 'timeout') "
            "THEN estimate END) FROM attempts)"
        )
        return float(self._row(query)[0])

    def charge(self, model: str, purpose: str, cost: float, row: int | None = None) -> int:
        """Record the cost of an answer outside of conversations, and return its row.

        Before the answer, that is an estimate; after it, `row` gets the cost.
        """
        with self._transaction() as db:
            if row is None:
                return insert(db, "charges", model=model, purpose=purpose, cost=cost, at=now())
            db.execute("UPDATE charges SET cost = ? WHERE id = ?", (cost, row))
            return row

    def add_revision(self, model: str, told: Mapping[str, str]) -> None:
        """Record what a model told about its revision."""
        value = json.dumps({"model": model, "told": told, "run": self._run or None, "at": now()})
        with self._transaction() as db:
            db.execute(
                "INSERT INTO study SELECT printf('%s%06d', ?1, count(*) + 1), ?2 FROM study "
                "WHERE key GLOB ?1 || '*'",
                (REVISION, value),
            )

    def turns_stored(self, *, in_open_talks: bool = False) -> int:
        everywhere = "SELECT count(*) FROM turns"
        open_only = f"{everywhere} JOIN trajectories ON id = trajectory WHERE outcome IS NULL"
        return int(self._row(open_only if in_open_talks else everywhere)[0])

    def history(self, talk: str) -> list[TurnRecord]:
        columns = "turn, speaker, model, text, finish"
        query = f"SELECT {columns} FROM turns WHERE trajectory = ? ORDER BY turn"  # noqa: S608
        return [TurnRecord(*row) for row in self._rows(query, talk)]

    def events(self, talk: str) -> list[Event]:
        query = "SELECT turn, kind, detail FROM events WHERE trajectory = ? ORDER BY id"
        rows = self._rows(query, talk)
        return [Event(turn, kind, json.loads(detail)) for turn, kind, detail in rows]

    def count_rejections(self, talk: str, turn: int, probe: str = "") -> dict[str, int]:
        query = (
            "SELECT outcome, count(*) FROM attempts WHERE trajectory = ? AND turn = ? "
            "AND probe = ? AND outcome IN ('empty', 'refusal') GROUP BY outcome"
        )
        return dict(self._rows(query, talk, turn, probe))

    def open_attempt(self, model: str, request: Request, estimate: float | None = None) -> int:
        with self._commits.step() as db:
            return insert(
                db,
                "attempts",
                run=self._run,
                trajectory=request.conversation,
                turn=request.turn,
                probe=request.probe,
                model=model,
                seed=request.seed,
                **request.sampling.as_dict(),
                started=now(),
                estimate=estimate,
            )

    def close_attempt(self, attempt: int, answer: Answer) -> None:
        with self._commits.step() as db:
            _close_attempt(db, attempt, answer)

    def add_try(self, talk: str, turn: int, outcome: str, seconds: float) -> float | None:
        same = "run, trajectory, turn, probe, model, seed, temperature, top_p, max_tokens, started"
        with self._commits.step() as db:
            row = db.execute(
                f"INSERT INTO attempts ({same}, estimate, ended, outcome, reason, seconds) "  # noqa: S608
                f"SELECT {same}, estimate, ?, ?, 'asked again by the client library', ? "
                "FROM attempts WHERE trajectory = ? AND turn = ? AND outcome IS NULL "
                "ORDER BY id DESC LIMIT 1 RETURNING estimate",
                (now(), outcome, seconds, talk, turn),
            ).fetchone()
        return row[0] if row and outcome == "timeout" else None

    def add_turn(self, attempt: int, talk: Talk, turn: TurnRecord, answer: Answer) -> None:
        with self._commits.step() as db:
            _close_attempt(db, attempt, answer)
            chained = link(self._last_hash(talk.id, turn.turn), turn)
            cells = {"trajectory": talk.id, **turn.as_dict(), "attempt": attempt, "hash": chained}
            insert(db, "turns", **cells)

    def add_probe(
        self, attempt: int, talk: str, probe: str, turn: TurnRecord, answer: Answer
    ) -> None:
        with self._commits.step() as db:
            _close_attempt(db, attempt, answer)
            branched = branch(self._last_hash(talk, turn.turn), turn.turn, probe, turn.text)
            row = (talk, turn.turn, probe, turn.text, attempt, branched)
            db.execute("INSERT INTO probes VALUES (?, ?, ?, ?, ?, ?)", row)

    def probe_replies(self, talk: str, turn: int) -> dict[str, str]:
        query = "SELECT probe, text FROM probes WHERE trajectory = ? AND turn = ?"
        return dict(self._rows(query, talk, turn))

    def is_scored(self, talk: str, trial: int) -> bool:
        query = "SELECT 1 FROM trials WHERE trajectory = ? AND trial = ?"
        return self._row(query, talk, trial) is not None

    def add_trial(self, talk: str, row: Any) -> None:
        with self._commits.step() as db:
            insert(db, "trials", trajectory=talk, **row.cells())

    def add_event(self, talk: str, event: Event) -> None:
        cells = {"trajectory": talk, **event.as_dict(), "detail": encode_detail(event), "at": now()}
        with self._commits.step() as db:
            insert(db, "events", **cells)

    def finish(self, talk: str, outcome: str, reason: str | None) -> None:
        turns = self._row("SELECT count(*) FROM turns WHERE trajectory = ?", talk)[0]
        row = (outcome, reason, now(), turns, self._last_hash(talk, turns + 1), talk)
        with self._commits.step() as db:
            db.execute(
                "UPDATE trajectories SET outcome = ?, reason = ?, ended = ?, turns = ?, "
                "closing = ? WHERE id = ?",
                row,
            )
            self._has_finished = True

    def _after_commit(self) -> None:
        """Update the count next to the database, and checkpoint after a conversation."""
        update_tally(self._db, self.path)
        if self._has_finished:
            self._has_finished = False
            checkpoint(self._db, self.path)

    def _last_hash(self, talk: str, turn: int) -> str:
        if turn == 1:
            row = self._row("SELECT opening FROM trajectories WHERE id = ?", talk)
        else:
            query = "SELECT hash FROM turns WHERE trajectory = ? AND turn = ?"
            row = self._row(query, talk, turn - 1)
        if row is None:
            raise StoreError(f"{self.path}: {talk} has no turn {turn - 1} to continue from")
        return str(row[0])

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with explain_errors(self.path):
            return self._db.execute(query, values).fetchall()

    def _row(self, query: str, *values: Any) -> Any:
        with explain_errors(self.path):
            return self._db.execute(query, values).fetchone()


def insert(db: sqlite3.Connection, table: str, *, or_ignore: bool = False, **cells: Any) -> int:
    """Insert a row, and return its id."""
    names, places = ", ".join(cells), ", ".join("?" * len(cells))
    verb = "INSERT OR IGNORE" if or_ignore else "INSERT"
    query = f"{verb} INTO {table} ({names}) VALUES ({places})"
    return db.execute(query, tuple(cells.values())).lastrowid or 0


def draw_secret(db: sqlite3.Connection) -> str:
    """The secret of a study: drawn once, by its first run, and covered by the chain from then on.

    What raters are shown, and in which order, must not follow from the plan: a rater may know it.
    """
    query = "SELECT value FROM study WHERE key = ?"
    if db.execute(query, [SECRET]).fetchone() is None:
        # Another process may draw it at the same moment; the first one counts.
        db.execute("INSERT OR IGNORE INTO study VALUES (?, ?)", (SECRET, secrets.token_hex(32)))
    return str(db.execute(query, [SECRET]).fetchone()[0])


def encode_detail(event: Event) -> str:
    """The detail of an event as stored."""
    return json.dumps(event.detail, sort_keys=True)


def _close_attempt(db: sqlite3.Connection, attempt: int, answer: Answer) -> None:
    reply = answer.reply
    billed = reply or answer.billed
    counts = (
        (billed.prompt_tokens, billed.completion_tokens, billed.reported_model) if billed else ()
    )
    rejected = reply.text if reply and answer.outcome != "answered" else None
    row = (now(), answer.outcome, answer.reason, rejected, *(counts or (None, None, None)))
    db.execute(
        "UPDATE attempts SET ended = ?, outcome = ?, reason = ?, rejected_text = ?, "
        "prompt_tokens = ?, completion_tokens = ?, reported_model = ?, cost = ?, seconds = ? "
        "WHERE id = ?",
        (*row, answer.cost, answer.seconds, attempt),
    )


def now() -> str:
    """The current time as the store writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


METADATA = ("condition", "prompt", "bucket", "prompt_text", "repeat", "outcome", "reason")


class Archive:
    """A read-only connection to the store, without the damaged rows of these tables."""

    def __init__(
        self, path: Path, damaged: Iterable[str] = (), *, any_schema: bool = False
    ) -> None:
        self.path = path
        self._tally: tuple[int, str] | None = None
        self._db = open_to_read(path, any_schema=any_schema)
        hide_damage(self._db, damaged)
        self._db.row_factory = sqlite3.Row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read a consistent snapshot, even during a run."""
        self._tally = read_tally(self.path)  # first: a run may be writing
        with explain_errors(self.path):
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                if self._db.in_transaction:
                    self._db.execute("COMMIT")

    def damage(self) -> dict[str, list[tuple[str, str]]]:
        """Find damaged cells, as place and problem by table."""
        with explain_errors(self.path):
            return find_damage(self._db)

    def chain(self, *, may_withhold: bool = False) -> Chain:
        """Recompute the chain.

        The copy in a bundle may withhold labels while their gate is undecided.
        """
        may_withhold = may_withhold and self.is_copy
        withheld = self.rows("SELECT kind, key FROM withheld") if may_withhold else ()
        return read_chain(self, {(row["kind"], row["key"]) for row in withheld})

    @property
    def head(self) -> str | None:
        """The last hash of the chain as stored."""
        head = self.value("SELECT head FROM chain ORDER BY id DESC LIMIT 1")
        return None if head is None else bytes(head).hex()

    def rows(self, query: str, *values: Any) -> Iterator[Row]:
        """Iterate over the rows of a query."""
        with explain_errors(self.path):
            for row in self._db.execute(query, values):
                yield dict(row)

    def value(self, query: str, *values: Any) -> Any:
        """The first value of a query; None if there is no row."""
        row = next(self.rows(query, *values), {})
        return next(iter(row.values()), None)

    def last_run(self) -> RunEntry | None:
        query = "SELECT id, pid, host, started, ended FROM runs ORDER BY id DESC LIMIT 1"
        return next((RunEntry(**row) for row in self.rows(query)), None)

    @property
    def is_copy(self) -> bool:
        """Whether it is the read-only copy in a bundle."""
        return bool(self.value("PRAGMA application_id") == COPY_ID)

    def foreign(self) -> tuple[tuple[str, str], ...]:
        """What is in the schema that is not ours, or is missing from it, as place and problem."""
        with explain_errors(self.path):
            return tuple(find_foreign(self._db))

    def shortfall(self) -> str | None:
        """Say which records are missing of those that were stored; None if none."""
        if self.is_copy:
            return None
        if self._tally is None:
            return f"has no {tally_path(self.path).name} that says how much was stored in it"
        with explain_errors(self.path):
            return find_shortfall(self._db, self.path, self._tally)

    def talks(self) -> Iterator[Row]:
        """The planned conversations, in the order of the plan."""
        return self.rows("SELECT * FROM trajectories ORDER BY position")

    def turns(self, talk: str) -> Iterator[Row]:
        return self.rows("SELECT * FROM turns WHERE trajectory = ? ORDER BY turn", talk)

    def trajectories(self) -> Iterator[Trajectory]:
        """Every conversation with a turn, finished or not."""
        for talk in self.talks():
            if found := self._load_trajectory(talk):
                yield found

    def trajectory(self, talk: str) -> Trajectory | None:
        """One conversation; None if it has no turn."""
        query = "SELECT * FROM trajectories WHERE id = ?"
        return next((self._load_trajectory(row) for row in self.rows(query, talk)), None)

    def _load_trajectory(self, talk: Row) -> Trajectory | None:
        turns = tuple(
            Turn(turn["text"], turn["speaker"], model=turn["model"])
            for turn in self.turns(talk["id"])
        )
        metadata = {key: talk[key] for key in METADATA}
        return Trajectory(talk["id"], turns, metadata, str(self.path)) if turns else None
