"""SQLite stores of agents are read as they are, and nothing in them is changed or executed."""

import json
import pickle
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from chimeralab import readers
from chimeralab.core.errors import LogError
from chimeralab.readers.seam import Unreadable
from chimeralab.readers.stores import unpack
from tests.mutation import pack

CHECKPOINTS = (
    "CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, type TEXT, "
    "checkpoint BLOB)"
)
ITEMS = ({"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."})


def state(*texts: str, channel: str = "messages") -> dict[str, Any]:
    kinds = (("HumanMessage", "human"), ("AIMessage", "ai"))
    messages = [
        (kinds[n % 2][0], {"content": text, "type": kinds[n % 2][1]})
        for n, text in enumerate(texts)
    ]
    return {"v": 4, "channel_values": {"step": 3, channel: messages}}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as opened:
        yield opened


def keep(store: sqlite3.Connection, *rows: tuple[str, str, str, str, bytes]) -> None:
    store.execute(CHECKPOINTS)
    store.executemany("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?)", rows)


def keep_session(store: sqlite3.Connection) -> None:
    store.execute("CREATE TABLE chat (id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT)")
    rows = [("s-1", json.dumps(item)) for item in ITEMS]
    store.executemany("INSERT INTO chat (session_id, message_data) VALUES (?, ?)", rows)


def texts(path: Path) -> dict[str, list[str]]:
    return {talk.id: [turn.text for turn in talk.turns] for talk in readers.read(path)}


def test_last_state_of_each_thread_is_a_conversation(store, tmp_path):
    keep(
        store,
        ("t-1", "", "2", "msgpack", pack(state("Hi.", "Hello."))),
        ("t-1", "", "1", "msgpack", pack(state("Hi."))),
        ("t-2", "", "3", "msgpack", pack(state("Bye.", channel="talk"))),
        ("t-2", "search:1", "4", "msgpack", pack(state("Find it.", "Found."))),
        ("t-3", "", "5", "msgpack", pack({"channel_values": {"question": "What?"}})),
    )
    found = texts(tmp_path / "store.db")
    assert found == {
        "t-1": ["Hi.", "Hello."],
        "t-2": ["Bye."],
        "t-2#search:1": ["Find it.", "Found."],
    }
    assert [talk.metadata for talk in readers.read(tmp_path / "store.db")][2] == {"parent": "t-2"}


def test_subgraph_that_repeats_the_graph_around_it_is_left_out(store, tmp_path):
    keep(
        store,
        ("t-1", "", "1", "msgpack", pack(state("Hi.", "Hello.", "Bye."))),
        ("t-1", "agent:1", "2", "msgpack", pack(state("Hi.", "Hello."))),
        ("t-1", "agent:2", "3", "msgpack", pack(state("Hi.", "Look it up."))),
    )
    found = texts(tmp_path / "store.db")
    assert found == {"t-1": ["Hi.", "Hello.", "Bye."], "t-1#agent:2": ["Hi.", "Look it up."]}


def test_message_of_langchain_may_have_a_role_of_its_own(store, tmp_path):
    message = {"type": "human", "content": "Hi.", "role": "user", "additional_kwargs": {}}
    values = {"channel_values": {"messages": [("HumanMessage", message)]}}
    keep(store, ("t-1", "", "1", "msgpack", pack(values)))
    assert texts(tmp_path / "store.db") == {"t-1": ["Hi."]}


def test_damaged_session_of_crush_does_not_cost_the_others(store, tmp_path):
    store.execute("CREATE TABLE messages (session_id, role, parts, model, created_at)")
    part = {"type": "text", "data": {"text": "Hi."}}
    for session, parts in (("s-1", "[{"), ("s-2", json.dumps([part])), ("s-3", "[]")):
        row = (session, "user", parts, None, 1)
        store.execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?)", row)
    bad: list[LogError] = []
    (talk,) = readers.read(tmp_path / "store.db", on_bad=bad.append)
    assert (talk.id, [turn.text for turn in talk.turns]) == ("s-2", ["Hi."])
    assert "session s-1: the JSON is truncated" in str(bad[0])


def test_state_in_json_is_read(store, tmp_path):
    """As the first versions of LangGraph kept it, under another name for the order."""
    store.execute("CREATE TABLE checkpoints (thread_id TEXT, thread_ts TEXT, checkpoint BLOB)")
    message = {"lc": 1, "id": ["langchain", "HumanMessage"], "kwargs": {"content": "Hi."}}
    raw = json.dumps({"channel_values": {"messages": [message]}}).encode()
    store.execute("INSERT INTO checkpoints VALUES ('t-1', '2024', ?)", [raw])
    assert texts(tmp_path / "store.db") == {"t-1": ["Hi."]}


def test_pickle_is_never_loaded(store, tmp_path):
    class Trap:
        def __reduce__(self) -> Any:
            return (tmp_path / "sprung").touch, ()

    rows = [("t-1", "", "1", kind, pickle.dumps(Trap())) for kind in ("pickle", "msgpack")]
    keep(store, rows[0], ("t-2", *rows[1][1:]), ("t-3", "", "1", "msgpack", pack(state("Hi."))))
    bad: list[LogError] = []
    found = list(readers.read(tmp_path / "store.db", on_bad=bad.append))
    assert [talk.id for talk in found] == ["t-3"]
    assert "thread t-1: its checkpoint is packed as 'pickle', which is never loaded" in str(bad[0])
    assert len(bad) == 2
    assert not (tmp_path / "sprung").exists()


def test_reading_a_store_changes_nothing_on_the_disk(store, tmp_path):
    """A store that is in use has a write-ahead log, and its last messages are only in there."""
    store.execute("PRAGMA journal_mode = WAL")
    keep_session(store)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == {"store.db", "store.db-wal", "store.db-shm"}
    assert texts(tmp_path / "store.db") == {"s-1": ["Hi.", "Hello."]}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    store.close()
    closed = (tmp_path / "store.db").read_bytes()
    assert texts(tmp_path / "store.db") == {"s-1": ["Hi.", "Hello."]}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"store.db": closed}


def test_stores_in_a_folder_are_found_and_other_databases_skipped(store, tmp_path):
    keep_session(store)
    with closing(sqlite3.connect(tmp_path / "other.sqlite3", isolation_level=None)) as other:
        other.execute("CREATE TABLE notes (text)")
    skipped: list[Any] = []
    found = readers.find_logs([tmp_path], on_skip=skipped.append)
    assert found == [str(tmp_path / "store.db")]
    assert [str(tmp_path / "other.sqlite3") in str(each) for each in skipped] == [True]


def test_item_that_is_not_json_is_reported_and_the_rest_is_read(store, tmp_path):
    keep_session(store)
    store.execute("INSERT INTO chat (session_id, message_data) VALUES ('s-1', '{')")
    bad: list[LogError] = []
    (talk,) = readers.read(tmp_path / "store.db", on_bad=bad.append)
    assert len(talk.turns) == 2
    assert "session s-1: the JSON is truncated" in str(bad[0])


@pytest.mark.parametrize(
    "raw", [b"", b"\xdd\xff\xff\xff\xff", b"\xc1", b"\xa9ab", b"\x91" * 500, b"\xc7\0"]
)
def test_damaged_msgpack_is_refused(raw):
    with pytest.raises((Unreadable, struct.error)):
        unpack(raw, 0)


def test_number_that_json_lacks_is_left_out():
    assert unpack(pack([float("nan"), 0.5]), 0)[0] == [None, 0.5]


def test_damaged_session_of_opencode_does_not_cost_the_others(store, tmp_path):
    columns = "id TEXT, session_id TEXT, time_created INTEGER, data TEXT"
    store.execute(f"CREATE TABLE message ({columns})")
    store.execute(f"CREATE TABLE part (message_id TEXT, {columns})")
    for session, data in (("s-1", '{"role": "user"'), ("s-2", '{"role": "user"}')):
        store.execute("INSERT INTO message VALUES (?, ?, 1, ?)", [f"m-{session}", session, data])
        part = (f"m-{session}", "p", session, json.dumps({"type": "text", "text": "Hi."}))
        store.execute("INSERT INTO part VALUES (?, ?, ?, 1, ?)", part)
    bad: list[LogError] = []
    (talk,) = readers.read(tmp_path / "store.db", on_bad=bad.append)
    assert (talk.id, [turn.text for turn in talk.turns]) == ("s-2", ["Hi."])
    assert "session s-1" in str(bad[0])
