"""An append-only hash chain over everything that a study stores; its head is the root hash.

Each record covers a row as written and the head before it, so that editing, deleting or rewriting a
row is detected. Anyone who can rewrite the whole folder can rewrite the chain too: only a head that
was published earlier reveals that.
"""

import hashlib
import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

# The tables and their key columns; rows of a conversation start with its id. Verdicts and scored
# trials follow from the others, but that they were there does not. A column that is added later
# must be NULL in earlier rows: nulls are left out of the hash.
OBSERVED: Mapping[str, tuple[str, ...]] = {
    "study": ("key",),
    "runs": ("id",),
    "trajectories": ("id",),
    "attempts": ("trajectory", "id"),
    "charges": ("id",),
    "turns": ("trajectory", "turn"),
    "probes": ("trajectory", "turn", "probe"),
    "events": ("trajectory", "id"),
    "detections": ("trajectory", "detector"),
    "trials": ("trajectory", "trial"),
    "raters": ("id",),
    "ratings": ("trajectory", "rater"),
    "samples": ("name",),
    "packets": ("name",),
    "adjudications": ("trajectory", "sample"),
}
# Rows that are updated once: a run, an attempt and a charge end, a gate's sample is used.
COMPLETED = ("runs", "trajectories", "attempts", "charges", "samples")
# A packet may be exported again.
REPEATABLE = ("packets",)
ADDED, CHANGED = "added", "changed"
SINGULAR = {"study": "note", "trajectories": "conversation"}
KEYS_NAMED = 5


class ChainRecord(NamedTuple):
    """One record of the chain."""

    id: int
    kind: str
    change: str
    key: str
    row: bytes
    head: bytes

    @property
    def place(self) -> str:
        """The row in words, such as "turn free/p1/1 3"."""
        kind = SINGULAR.get(self.kind, self.kind.removesuffix("s"))
        return f"{kind} {' '.join(map(str, json.loads(self.key)))}"


def row_hash(*cells: Any) -> bytes:
    """The hash of a row, given as alternating names and values.

    >>> row_hash("turn", 1, "note", None) == row_hash("turn", 1.0)
    True
    """
    pairs = zip(cells[::2], cells[1::2], strict=True)
    # Within a trigger, SQLite may pass an integral REAL as an integer.
    row = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in pairs
        if value is not None
    }
    return hashlib.sha256(_canonical(row)).digest()


def row_key(*values: Any) -> str:
    return _canonical(list(values)).decode("utf-8", "surrogatepass")


def next_head(previous: bytes, kind: str, change: str, key: str, row: bytes) -> bytes:
    """The head after a record, given the one before it."""
    return hashlib.sha256(previous + _canonical([kind, change, key]) + row).digest()


def _canonical(value: Any) -> bytes:
    # A damaged cell may hold bytes, which no record does.
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=repr
    )
    return text.encode("utf-8", "surrogatepass")


def record_writes(connection: sqlite3.Connection) -> None:
    """Record every write to an observed table in the same transaction.

    The triggers are temporary: the file itself does not depend on our functions.
    """
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.create_function("chain_row", -1, row_hash, deterministic=True)
    connection.create_function("chain_key", -1, row_key, deterministic=True)
    connection.create_function("chain_head", 5, next_head, deterministic=True)
    for table, key in OBSERVED.items():
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        cells = ", ".join(f"'{name}', new.{name}" for name in names)
        keys = ", ".join(f"new.{name}" for name in key)
        for change, event in ((ADDED, "INSERT"), (CHANGED, "UPDATE")):
            what = f"'{table}', '{change}', chain_key({keys})"
            last = "coalesce((SELECT head FROM chain ORDER BY id DESC LIMIT 1), x'')"
            connection.execute(
                f"CREATE TEMP TRIGGER chain_{table}_{change} AFTER {event} ON main.{table} "  # noqa: S608
                f"BEGIN INSERT INTO chain (kind, change, key, row, head) VALUES ({what}, "
                f"chain_row({cells}), chain_head({last}, {what}, chain_row({cells}))); END"
            )


class Rows(Protocol):
    """What a chain is read from."""

    def rows(self, query: str, /) -> Iterator[dict[str, Any]]: ...


class Chain(NamedTuple):
    """A recomputed chain; a misfit is a place and its problem."""

    records: tuple[ChainRecord, ...]
    misfits: tuple[tuple[str, str], ...]
    withheld: int = 0

    @property
    def head(self) -> str | None:
        return self.records[-1].head.hex() if self.records else None

    def at(self, head: str) -> ChainRecord | None:
        """The record with this head."""
        return next((each for each in self.records if each.head.hex() == head), None)


def read_chain(archive: Rows, withheld: Collection[tuple[str, str]] = ()) -> Chain:
    """Recompute the chain, and compare its records with every stored row.

    `withheld` has the kinds and keys of rows that a bundle leaves out.
    """
    query = "SELECT id, kind, change, key, row, head FROM chain ORDER BY id"
    records = tuple(ChainRecord(**row) for row in archive.rows(query))
    misfits = [*_find_breaks(records), *_find_mismatches(records, archive, withheld)]
    hidden = sum(kind != "study" for kind, _ in withheld)
    return Chain(records, tuple(misfits), hidden)


def _find_breaks(records: Iterable[ChainRecord]) -> Iterator[tuple[str, str]]:
    head = b""
    for number, each in enumerate(records, start=1):
        if each.id != number:
            yield "the chain", f"record {number} is missing"
            return
        if each.head != next_head(head, each.kind, each.change, each.key, each.row):
            yield "the chain", f"record {number} ({each.place}) was changed"
            return
        head = each.head


def _find_mismatches(
    records: Iterable[ChainRecord], archive: Rows, withheld: Collection[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Rows that are deleted, changed, unrecorded, or recorded too often."""
    of_kind: dict[str, dict[str, list[ChainRecord]]] = {table: {} for table in OBSERVED}
    for each in records:
        of_kind.setdefault(each.kind, {}).setdefault(each.key, []).append(each)
    for table, known in of_kind.items():
        problems: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        stored = {
            row_key(*(row[name] for name in OBSERVED[table])): row_hash(
                *(cell for pair in row.items() for cell in pair)
            )
            for row in archive.rows(f"SELECT * FROM main.{table}")  # noqa: S608
        }
        absent = {key for kind, key in withheld if kind == table and key in known}
        for key in (known.keys() | stored.keys()) - (absent - stored.keys()):
            place, name = _split_key(table, key)
            for problem in _problems(table, known.get(key, []), stored.get(key)):
                problems[place, problem].append(name)
        for (place, problem), names in sorted(problems.items()):
            yield place, f"{_describe_rows(table, names)} {problem}"


def _problems(table: str, known: list[ChainRecord], stored: bytes | None) -> Iterator[str]:
    changes = Counter(each.change for each in known)
    if not known:
        yield "in the store, but never recorded: added from outside"
    elif stored is None:
        yield "recorded, but no longer in the store: deleted"
    elif stored != known[-1].row:
        yield "not as recorded: changed from outside"
    again = changes[ADDED] > 1 and table not in REPEATABLE
    if again or changes[CHANGED] > (table in COMPLETED):
        yield "recorded again after it was complete: wiped and run again"


def _split_key(table: str, key: str) -> tuple[str, str]:
    first, *rest = (str(part) for part in json.loads(key))
    rest = [part if len(part) < 64 else f"{part[:12]}…" for part in rest]
    if table == "trajectories":
        return first, ""
    return (first, " ".join(rest)) if rest else (table, first)


def _describe_rows(table: str, names: list[str]) -> str:
    if names == [""]:
        return "the conversation is"
    one = SINGULAR.get(table, table.removesuffix("s"))
    if len(names) == 1:
        return f"{one} {names[0]} is"
    ordered = sorted(names, key=lambda name: (len(name), name))
    more = f" and {len(names) - KEYS_NAMED} more" if len(names) > KEYS_NAMED else ""
    return f"{len(names)} {table} ({', '.join(ordered[:KEYS_NAMED])}{more}) are"
