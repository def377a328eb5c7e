"""Every format is recognised by content, by one reader, and judged by the assistant's turns."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import chimeralab
from chimeralab import readers
from chimeralab.core.errors import LogError
from chimeralab.core.records import Trajectory
from chimeralab.detection.seam import choose_turns, list_judged_turns
from chimeralab.readers.formats import Formats
from tests.unit.readers.logs_of import (
    FORMAT_OF_MADE,
    LOGS,
    MADE,
    REFUSED,
    WITHOUT_CALLS,
    WITHOUT_QUESTIONS,
)
from tests.unit.readers.talks import TALKS


def written(folder: Path, kind: str, talk: str) -> Path:
    log = folder / f"{talk}.log"
    log.write_bytes(getattr(LOGS[kind], talk))
    return log


def read(folder: Path, kind: str, talk: str) -> Trajectory:
    """Return the conversation; for preferences, the chosen one."""
    first, *others = readers.read(written(folder, kind, talk))
    assert len(others) == (LOGS[kind].format == "preferences")
    return first


@pytest.mark.parametrize("talk", TALKS)
@pytest.mark.parametrize("kind", LOGS)
def test_the_assistants_turns_are_judged_and_the_tools_kept(tmp_path, kind, talk):
    trajectory = read(tmp_path, kind, talk)
    _, whose = choose_turns(trajectory)
    questions = kind not in WITHOUT_QUESTIONS
    assert whose == ("assistant turns (chat)" if questions else "all turns (self-play)")
    said = [step.text for step in TALKS[talk] if step.who == "assistant"]
    assert [turn.text for turn in list_judged_turns(trajectory)] == said
    if kind in WITHOUT_CALLS:
        return
    calls = [call for turn in trajectory.turns for call in turn.calls]
    given = [step for step in TALKS[talk] if step.who == "call"]
    assert [(call.result or "").strip() for call in calls] == [step.text for step in given]
    assert not any(call.error for call in calls)


@pytest.mark.parametrize("kind", LOGS)
def test_looping_log_loops_and_healthy_one_does_not(tmp_path, kind):
    loops, healthy = (
        chimeralab.detect(read(tmp_path, kind, talk), detector=None).loops
        for talk in ("looping", "healthy")
    )
    assert any(loop.level == "verdict" for loop in loops)
    assert not any(loop.level == "verdict" for loop in healthy)


@pytest.fixture
def taken(monkeypatch) -> set[str]:
    """Record the formats that logs are recognised as."""
    names = set[str]()
    of, of_archives = Formats.of, Formats.of_archives

    def seen(reader: readers.Reader) -> readers.Reader:
        names.add(reader.name)
        return reader

    monkeypatch.setattr(Formats, "of", lambda self, value: seen(of(self, value)))
    monkeypatch.setattr(Formats, "of_archives", lambda self: seen(of_archives(self)))
    return names


@pytest.mark.parametrize("talk", TALKS)
@pytest.mark.parametrize("kind", LOGS)
def test_each_is_read_as_its_own_format(tmp_path, kind, talk, taken):
    log = written(tmp_path, kind, talk)
    found = list(readers.read(log))
    assert taken == {LOGS[kind].format}
    assert list(readers.read(log, format=LOGS[kind].format)) == found


SHARED = {
    # The messages of a simulation are in OpenAI's form.
    ("tau2", "openai"),
}
"""Formats whose logs a second one reads as well, and rightly: the first decides."""


@pytest.mark.parametrize("kind", LOGS)
def test_each_log_matches_one_reader(tmp_path, kind):
    """Each log against every reader, independent of their order."""
    log, own = written(tmp_path, kind, "healthy"), LOGS[kind].format
    mine = spoken_in(readers.read(log))
    for name, reader in readers.READERS.items():
        if name == own:
            continue
        try:
            others = spoken_in(alone(log, reader))
        except LogError:
            continue
        assert (own, name) in SHARED, f"{kind} is taken for {name} as well"
        assert others == mine


def alone(log: Path, reader: type[readers.Reader]) -> Iterator[Trajectory]:
    """Read the values of a log that a reader matches."""

    class Strict(reader):  # type: ignore[valid-type,misc]
        def read(self, value, place):
            if not self.matches(value):
                raise readers.Unreadable("is not recognised")
            return super().read(value, place)

    return readers.read(log, format=Strict)


def spoken_in(talks: Iterator[Trajectory]) -> list[list[str]]:
    return [[turn.text for turn in list_judged_turns(talk)] for talk in talks]


@pytest.mark.parametrize("talk", TALKS)
def test_trace_with_only_response_ids_says_what_to_save(talk):
    with pytest.raises(LogError, match=r"only names its responses; save .* to_input_list"):
        list(readers.read(MADE / f"{talk}-{REFUSED}"))


def test_every_log_that_was_made_is_tested_and_every_format_has_one():
    for talk in TALKS:
        made = {file.name.removeprefix(f"{talk}-") for file in MADE.glob(f"{talk}-*")}
        assert made == {*FORMAT_OF_MADE, REFUSED}
    assert {log.format for log in LOGS.values()} == set(readers.READERS)
