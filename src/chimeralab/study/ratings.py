"""The ratings that a study has stored: one of each rater on each conversation, never edited."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.rating.ratings import Attempt, Item, Noted, Rating, item_of
from chimeralab.study.database import open_to_write, transaction
from chimeralab.study.folder import Study
from chimeralab.study.rater_identity import Identity, identity_of


@dataclass(frozen=True, slots=True)
class Candidate(Record):
    """A finished conversation that can be rated, with what it belongs to."""

    item: Item
    condition: str
    prompt: str


class RatingStore:
    """Writes ratings; several raters may do so at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = open_to_write(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def rated(self, identity: Identity) -> set[str]:
        query = "SELECT trajectory FROM ratings WHERE rater = ?"
        return {row[0] for row in self._db.execute(query, [identity.key])}

    def add(self, identity: Identity, rated: Iterable[tuple[Item, Rating]]) -> None:
        """Keep ratings, all or none. What a rater has said before stays as it was."""
        who = (identity.key, identity.name, json.dumps(identity.as_dict(), sort_keys=True))
        with transaction(self._db, self.path) as db:
            db.execute("INSERT OR IGNORE INTO raters VALUES (?, ?, ?)", who)
            db.executemany(
                "INSERT OR IGNORE INTO ratings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (_row(identity, item, rating) for item, rating in rated),
            )


@contextmanager
def brought_up_to_date(study: Study) -> Iterator[sqlite3.Connection]:
    """The database of a study that was run, with the tables that rating needs."""
    if not study.store_path.is_file():
        raise InputError(f"{study.path} has not been run yet; start with `chimera run`")
    with closing(open_to_write(study.store_path)) as db:
        yield db


def candidates(study: Study) -> dict[str, Candidate]:
    """Every finished conversation with a turn, in the order of the plan."""
    found = {}
    for talk in study.trajectories():
        if talk.metadata["outcome"] is not None:
            about = (talk.metadata["condition"], talk.metadata["prompt"])
            found[talk.id] = Candidate(item_of(talk, "all"), *about)
    return found


def stored_raters(study: Study) -> tuple[str, ...]:
    """The names under which ratings are stored."""
    with study.archive() as archive:
        query = "SELECT DISTINCT name FROM raters ORDER BY name != 'rules', name"
        return tuple(row["name"] for row in archive.rows(query))


def stored_ratings(study: Study, name: str) -> dict[str, Rating]:
    """What a rater, as the plan has it now, said about each conversation."""
    query = (
        "SELECT r.* FROM ratings r JOIN trajectories ON id = trajectory "
        "WHERE rater = ? ORDER BY position"
    )
    identity = identity_of(study, name)
    with study.archive() as archive:
        rows = archive.rows(query, identity.key)
        version = study.plan.extras["rubric"].version
        return {row["trajectory"]: _rating(row, name, version) for row in rows}


def _row(identity: Identity, item: Item, rating: Rating) -> tuple[Any, ...]:
    plain = rating.as_dict()
    lists = (json.dumps(plain[name]) for name in ("kinds", "noted", "attempts"))
    said = (rating.label, rating.reason, json.dumps(plain["turns"]), rating.step, *lists)
    return (item.id, identity.key, *said, item.sha256, _now())


def _rating(row: dict[str, Any], name: str, version: str) -> Rating:
    values = {key: json.loads(row[key]) for key in ("turns", "kinds", "noted", "attempts")}
    return Rating(
        item=row["trajectory"],
        rater=name,
        label=row["label"],
        reason=row["reason"],
        turns=tuple(values["turns"]),
        step=row["step"],
        kinds=tuple(values["kinds"]),
        noted=tuple(Noted(each["pattern"], tuple(each["turns"])) for each in values["noted"]),
        rubric=version,
        attempts=tuple(Attempt(**each) for each in values["attempts"]),
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
