"""Every format: found by its content, never taken for another, judged by the assistant."""

from pathlib import Path

import pytest

import chimeralab
from chimeralab import readers
from chimeralab.core.records import Trajectory
from chimeralab.detection.measure import judged
from chimeralab.readers.formats import Formats
from tests.unit.readers.logs_of import HEALTHY, LOGS_OF, LOOPING, Talk

TALKS = {"healthy": HEALTHY, "looping": LOOPING}


def written(folder: Path, form: str, talk: Talk) -> Path:
    log = folder / "talk.log"
    log.write_bytes(LOGS_OF[form][1](talk))
    return log


def read(folder: Path, form: str, talk: Talk) -> Trajectory:
    (trajectory,) = readers.read(written(folder, form, talk))
    return trajectory


@pytest.mark.parametrize("talk", TALKS.values(), ids=TALKS)
@pytest.mark.parametrize("form", LOGS_OF)
def test_the_assistants_turns_are_judged_and_the_tools_kept(tmp_path, form, talk):
    trajectory = read(tmp_path, form, talk)
    told = judged(trajectory)
    assert told.who == "assistant turns (chat)"
    assert [turn.text for turn in told.turns] == [s.text for s in talk if s.who == "assistant"]
    results = [call.result for turn in trajectory.turns for call in turn.calls]
    assert results == [step.text for step in talk if step.who == "call"]


@pytest.mark.parametrize("form", LOGS_OF)
def test_a_looping_talk_loops_and_a_healthy_one_does_not(tmp_path, form):
    loops, healthy = (
        chimeralab.detect(read(tmp_path, form, talk), detector=None).loops
        for talk in (LOOPING, HEALTHY)
    )
    assert any(loop.level == "verdict" for loop in loops)
    assert not any(loop.level == "verdict" for loop in healthy)


@pytest.mark.parametrize("form", LOGS_OF)
def test_each_is_read_as_its_own_format(tmp_path, form, monkeypatch):
    name, log = LOGS_OF[form][0], written(tmp_path, form, HEALTHY)
    found = list(readers.read(log))
    assert list(readers.read(log, format=name)) == found
    taken = set[str]()
    of = Formats.of

    def spy(self: Formats, value: object) -> readers.Reader:
        reader = of(self, value)
        taken.add(reader.name)
        return reader

    monkeypatch.setattr(Formats, "of", spy)
    list(readers.read(log))
    assert taken == {name}
