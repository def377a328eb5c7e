"""OpenHands writes a file per event: the folder is the log."""

import json
from pathlib import Path

import pytest

from chimeralab import readers
from chimeralab.core.errors import LogError
from chimeralab.detection.seam import list_judged_turns
from tests.unit.readers.by_schema import openhands, openhands_sdk
from tests.unit.readers.talks import HEALTHY, LOOPING, Talk


def kept(folder: Path, talk: Talk) -> Path:
    """A session as OpenHands stores it: numbered events, some again in pages, and its title."""
    events = folder / "session-1" / "events"
    events.mkdir(parents=True)
    for n, event in enumerate(openhands(talk)):
        (events / f"{n}.json").write_text(json.dumps(event))
    (events.parent / "metadata.json").write_text('{"title": "Files"}')
    pages = events.parent / "event_cache"
    pages.mkdir()
    (pages / "0-25.json").write_text(json.dumps(openhands(talk)[:25]))
    return events


@pytest.mark.parametrize("talk", [HEALTHY, LOOPING])
def test_a_folder_of_events_is_one_conversation_in_order_of_their_numbers(tmp_path, talk):
    kept(tmp_path, talk)
    skipped: list[LogError] = []
    (read,) = readers.read_all([tmp_path], on_skip=skipped.append)
    assert read.id == "session-1"
    said = [step.text for step in talk if step.who == "assistant"]
    assert [turn.text for turn in list_judged_turns(read)] == said
    assert [Path(error.source).name for error in skipped] == ["metadata.json"]


def test_the_folder_itself_may_be_named(tmp_path):
    events = kept(tmp_path, HEALTHY)
    (read,) = readers.read_all([events])
    assert read.id == "session-1"
    assert list(readers.read(events)) == [read]


def test_the_files_of_the_sdk_are_one_conversation(tmp_path):
    events = tmp_path / "c-1" / "events"
    events.mkdir(parents=True)
    for n, line in enumerate(openhands_sdk(HEALTHY).splitlines()):
        (events / f"event-{n:05}-7f3a-{n}.json").write_bytes(line)
    (read,) = readers.read_all([tmp_path])
    assert (read.id, len(list_judged_turns(read))) == ("c-1", 3)


def test_sessions_in_sibling_folders_are_separate(tmp_path):
    kept(tmp_path / "a", HEALTHY)
    kept(tmp_path / "b", LOOPING)
    assert [len(list_judged_turns(talk)) for talk in readers.read_all([tmp_path])] == [3, 6]


def test_a_damaged_event_is_named_and_the_others_are_read(tmp_path):
    events = kept(tmp_path, HEALTHY)
    (events / "3.json").write_text('{"id": 3, "source": "agent", "acti')
    heard: list[LogError] = []
    (read,) = readers.read(events, on_bad=heard.append)
    assert len(read.turns) > 5
    assert "3.json, line 1: the JSON is truncated" in str(heard[0])


def test_numbered_conversations_are_separate(tmp_path):
    for n in range(3):
        (tmp_path / f"{n}.json").write_text('{"turns": ["Hi.", "Hello."]}')
    assert len(list(readers.read_all([tmp_path]))) == 3
