"""The surest reader reads a value; the order in which the formats are listed decides nothing."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chimeralab import readers
from chimeralab.core.errors import LogError
from chimeralab.core.records import Trajectory
from chimeralab.readers import formats, logs
from chimeralab.readers.formats import READERS, Formats
from chimeralab.readers.logs import read_values
from chimeralab.readers.seam import Unreadable, file_place
from chimeralab.readers.streams import open_log
from tests.unit.readers.logs_of import LOGS


def shuffled(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    order = list(READERS.items())
    random.Random(seed).shuffle(order)
    for module in (formats, logs):
        monkeypatch.setattr(module, "READERS", dict(order))


def read(log: Path) -> tuple[list[Trajectory], list[str]]:
    bad: list[LogError] = []
    return list(readers.read(log, on_bad=bad.append)), [str(each) for each in bad]


@pytest.mark.parametrize("kind", LOGS)
def test_shuffling_the_readers_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    log = tmp_path / "talk.log"
    log.write_bytes(LOGS[kind].healthy)
    before = read(log)
    for seed in range(5):
        with monkeypatch.context() as patch:
            shuffled(patch, seed)
            assert read(log) == before


def sureness_of(log: Path) -> Iterator[list[tuple[float, str]]]:
    """For each value of a log, how sure each reader is of it, the surest first."""
    known = Formats()
    with open_log(str(log)) as file:
        values = read_values(file, file_place(str(log)), lambda *_: None, known)
        for value, _ in known.conversations(values):
            asked = [(reader().sureness(value), name) for name, reader in READERS.items()]
            yield sorted(asked, reverse=True)


@pytest.mark.parametrize("kind", [kind for kind in LOGS if not kind.endswith(".eval")])
def test_one_reader_is_surer_than_all_others(tmp_path: Path, kind: str) -> None:
    log = tmp_path / "talk.log"
    log.write_bytes(LOGS[kind].healthy)
    for (first, name), (second, other), *_ in sureness_of(log):
        assert first > second, f"{name} and {other}"
        assert name == LOGS[kind].format


def test_a_reader_is_sure_of_what_it_matches_and_of_nothing_else() -> None:
    values: list[Any] = [{"turns": ["Hi."]}, {"messages": []}, [{"from": "a"}], {"type": "user"}]
    for reader in (cls() for cls in READERS.values()):
        for value in values:
            assert bool(reader.sureness(value)) == reader.matches(value)
            assert 0 <= reader.sureness(value) <= 1


def test_a_reader_of_ones_own_is_surer_than_the_common_chat_formats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Tickets(readers.Reader):
        name = "aaa"  # the order of names decides nothing either
        recognised = "messages of a ticket"

        def matches(self, value: Any) -> bool:
            return isinstance(value, dict) and "ticket" in value

        def read(self, value: Any, place: readers.Place) -> Iterator[Trajectory]:
            raise Unreadable("read as a ticket")

    monkeypatch.setitem(READERS, Tickets.name, Tickets)
    log = tmp_path / "ticket.json"
    log.write_text(json.dumps({"ticket": 7, "messages": [{"role": "user", "content": "Hi."}]}))
    with pytest.raises(LogError, match="read as a ticket"):
        list(readers.read(log))


def test_a_note_among_rows_is_passed_over(tmp_path: Path) -> None:
    rows = [
        {"type": "message", "role": "user", "text": "Hi."},
        {"type": "title", "title": "A greeting"},
        {"type": "message", "role": "assistant", "text": "Hello!"},
    ]
    log = tmp_path / "session.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (talk,) = readers.read(log)
    assert [turn.text for turn in talk.turns] == ["Hi.", "Hello!"]
    log.write_text(json.dumps(rows[0]) + "\n" + json.dumps({"tiltle": 1}) + "\n")
    with pytest.raises(LogError, match="line 2: not a conversation in a known format"):
        list(readers.read(log))


def test_empty_list_is_asked_of_no_reader() -> None:
    """A log of nothing but empty lists is refused fast, also if a reader takes whatever it sees."""

    class TakesAll(readers.Reader):
        name = "all"
        recognised = "anything"

        def matches(self, value: Any) -> bool:
            return True

    assert not Formats(TakesAll).is_one_talk([])
