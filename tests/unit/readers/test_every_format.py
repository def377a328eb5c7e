"""Every format: found by its content, never taken for another, judged by the assistant."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import chimeralab
from chimeralab import readers
from chimeralab.cli.main import cli
from chimeralab.core.errors import InputError, LogError
from chimeralab.core.records import Trajectory
from chimeralab.detection.judged_turns import judged
from chimeralab.readers.formats import Formats
from tests.unit.readers.logs_of import HEALTHY, LOGS_OF, LOOPING, WITHOUT_CALLS, Talk

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
    if form in WITHOUT_CALLS:
        return
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


def test_columns_of_any_name_can_be_named(tmp_path):
    log = tmp_path / "table.csv"
    log.write_text("chat;who;said\n1;Ann;Hi.\n1;Bo;Hello.\n2;Ann;Bye.\n")
    with pytest.raises(LogError, match=r"looks like a table .*'chat', 'who', 'said'; name the"):
        list(readers.read(log))
    named = readers.rows_with("id=chat,speaker=who,text=said")
    first, second = readers.read(log, format=named)
    assert [(turn.speaker, turn.text) for turn in first.turns] == [("Ann", "Hi."), ("Bo", "Hello.")]
    assert (first.id, second.id) == ("1", "2")
    with pytest.raises(LogError, match="no column 'sad'"):
        list(readers.read(log, format=readers.rows_with("text=sad")))
    for wrong in ("id=chat", "words=said", "text="):
        with pytest.raises(InputError, match="--columns"):
            readers.rows_with(wrong)


def test_a_failed_sample_without_an_answer_is_not_judged_by_its_question(tmp_path):
    (asked,) = readers.read(written(tmp_path, "openai", HEALTHY[:1]))
    assert judged(asked).turns == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x80\x04\x95", "Python pickle"),
        (b"SQLite format 3\0", "SQLite database"),
        (b'{"object": "trace.span", "span_data": {"type": "response"}}', "OpenAI trace"),
        (b'{"traceId": "a", "attributes": []}', "OpenTelemetry trace without messages"),
        (b"name: x\nversion: y\n", "'Name: text' lines"),
    ],
)
def test_a_refusal_names_what_it_seems_to_be(tmp_path, content, words):
    log = tmp_path / "log"
    log.write_bytes(content)
    with pytest.raises(LogError, match=words):
        list(readers.read(log))


def test_a_damaged_log_in_a_folder_fails_the_command_after_the_others(tmp_path):
    written(tmp_path, "codex", LOOPING).rename(tmp_path / "good.jsonl")
    (tmp_path / "bad.jsonl").write_text('{"messages": [{"role": "user", "content": 5}]}\n')
    asked = ["detect", "--no-vectors", "--json", str(tmp_path)]
    with pytest.raises(InputError, match="1 bad entry skipped"):
        cli.main(asked, standalone_mode=False)
    ran = CliRunner().invoke(cli, asked)
    assert json.loads(ran.stdout)["id"] == "s-1"
    assert "bad.jsonl, line 1: messages[0].content is a number" in ran.stderr
    assert CliRunner().invoke(cli, [*asked, "--skip-bad"]).exit_code == 0
