"""Everything that commands write for programs carries the number of its format."""

import json
from pathlib import Path

import pytest

import chimeralab.cli
from chimeralab.core.schema import FIRST_SCHEMA, SCHEMA
from tests.plans import SCRIPTED

# The settings of Claude Code and the messages of webhooks, whose formats are not ours.
OTHER_FORMATS = {"alerts.py", "hook.py"}


def schemas(text: str) -> list[int]:
    """The numbers of one JSON document, or of each line."""
    try:
        return [json.loads(text)["schema"]]
    except ValueError:
        return [json.loads(line)["schema"] for line in text.splitlines()]


def test_every_command_and_file_of_a_study_names_its_schema(make_study, chimera, tmp_path):
    study, events = make_study(SCRIPTED).path, tmp_path / "events.jsonl"
    outputs = [
        chimera("check", study, "--json"),
        chimera("lock", study, "--json"),
        chimera("run", study, "--json", "--events", events),
        chimera("detect", study, "--json"),
        chimera("analyse", study, "--json"),
        chimera("report", study, "--json"),
        chimera("verify", study, "--json", "--quick"),
        chimera("models", "--json"),
        chimera("formats", "--json"),
    ]
    assert [ran.code for ran in outputs] == [0] * len(outputs)
    assert chimera("export", study, "--format", "jsonl", "--out", tmp_path / "out").code == 0
    files = [
        events,
        study / "plan.lock",
        study / "estimates.json",
        study / "report" / "numbers.json",
        *(tmp_path / "out").glob("*.json*"),
    ]
    texts = [*(ran.out for ran in outputs), *(path.read_text() for path in files)]
    assert {number for text in texts for number in schemas(text)} == {SCHEMA}


def test_commands_write_json_in_one_way():
    folder = Path(chimeralab.cli.__file__).parent
    sources = {path.name: path.read_text() for path in folder.glob("*.py")}
    assert {name for name, text in sources.items() if "json.dumps" in text} == OTHER_FORMATS


def test_exported_conversations_read_back_without_the_number(make_study, chimera, tmp_path):
    study = make_study(SCRIPTED).path
    assert chimera("run", study).code == 0
    assert chimera("export", study, "--format", "jsonl", "--out", tmp_path / "out").code == 0
    found = chimera("detect", tmp_path / "out" / "trajectories.jsonl", "--json", "--no-vectors")
    rows = [json.loads(line) for line in found.out.splitlines()]
    assert rows
    assert all("schema" not in row["metadata"] for row in rows)


def test_schema_of_a_foreign_log_stays_metadata(chimera, tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text('{"id": "a", "schema": "v3", "turns": ["Hello there."]}\n')
    (line,) = chimera("detect", log, "--json", "--no-vectors").out.splitlines()
    assert json.loads(line)["metadata"] == {"schema": "v3"}


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [(SCHEMA + 1, "later version"), (FIRST_SCHEMA - 1, "before the first release")],
)
def test_table_of_an_unknown_schema_is_rejected(chimera, tmp_path, schema, complaint):
    table = tmp_path / "trials.jsonl"
    table.write_text(json.dumps({"schema": schema, "session": "a", "trial": 1}) + "\n")
    ran = chimera("measure", table)
    assert ran.code == 2
    assert "trials.jsonl:1 was written" in ran.err.replace("\n", " ")
    assert complaint in " ".join(ran.err.split())
