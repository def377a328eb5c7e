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

MADE = Path(__file__).parent / "made"
"""Logs made with langchain-core and openai themselves."""
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


@pytest.mark.parametrize("way", ["dumpd", "messages_to_dict", "model_dump"])
def test_what_langchain_core_dumped_is_read(way):
    (talk,) = readers.read(MADE / f"langchain-{way}.json")
    assert [turn.text for turn in judged(talk).turns] == ["I see a.txt, let me look again."] * 5
    assert [call.result for turn in talk.turns for call in turn.calls] == ["a.txt"] * 5


def test_what_the_openai_package_dumped_is_read():
    (talk,) = readers.read(MADE / "openai-response.json")
    assert [(turn.text, turn.spoken) for turn in talk.turns] == [
        ("Be brief.", False),
        ("", False),
        ("I see a.txt.", True),
    ]


def test_both_answers_of_a_preference_are_conversations(tmp_path):
    asked = {"role": "user", "content": "Which is it?"}
    same, other = ({"role": "assistant", "content": text} for text in ("The red one.", "Blue."))
    looping, healthy = [asked, same] * 6, [asked, other]
    log = tmp_path / "pairs.jsonl"
    log.write_text(json.dumps({"prompt": [asked], "chosen": healthy, "rejected": looping}))
    chosen, rejected = readers.read(log)
    assert [turn.text for turn in judged(chosen).turns] == ["Blue."]
    assert [turn.text for turn in judged(rejected).turns] == ["The red one."] * 6
    assert chimeralab.detect(rejected, detector=None).loops
    log.write_text(json.dumps({"chosen": "\n\nHuman: Hi\n\nAssistant: Yes?", "rejected": "No."}))
    chosen, _ = readers.read(log)
    assert [turn.text for turn in judged(chosen).turns] == ["Yes?"]


def test_a_refusal_names_the_format_that_a_log_was_taken_for(tmp_path):
    log = tmp_path / "log"
    log.write_text('{"contents": [{"role": "model", "parts": [{"text": 5}]}]}')
    with pytest.raises(LogError, match=r"parts\[0\].text is a number, not text \(read as gemini;"):
        list(readers.read(log))
