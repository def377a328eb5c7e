"""The example logs are what their names say, and the page on formats shows what is read."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import chimeralab
from chimeralab import readers
from chimeralab.cli.main import cli
from chimeralab.core.records import Trajectory
from chimeralab.detection.seam import choose_turns, list_judged_turns


@pytest.fixture
def examples(request: pytest.FixtureRequest) -> Path:
    return request.config.rootpath / "examples"


def texts(trajectory: Trajectory) -> list[str]:
    return [turn.text for turn in trajectory.turns]


def test_examples_are_short_and_have_a_model_and_a_condition(examples):
    talks = list(readers.read(examples / "conversations.jsonl"))
    assert len({talk.id for talk in talks}) == 8
    assert all(12 <= len(talk.turns) <= 16 for talk in talks)
    assert {talk.metadata["model"] for talk in talks} == {"aurora-small", "aurora-large"}
    assert {talk.metadata["condition"] for talk in talks} == {"free", "nudged"}


def test_example_loops_repeat_what_their_names_say(examples):
    talks = {talk.id: texts(talk) for talk in readers.read(examples / "conversations.jsonl")}
    assert len(set(talks["verbatim-loop"][5:])) == 1
    assert talks["alternating-pair"][4:] == talks["alternating-pair"][4:6] * 5
    assert talks["three-speaker-cycle"] == talks["three-speaker-cycle"][:3] * 5
    assert len(set(talks["endless-goodbye"])) == 16


def test_agent_sessions_are_judged_by_what_the_assistant_says(examples):
    looping, healthy = readers.read(examples / "agent-chat.jsonl")
    assert [choose_turns(talk)[1] for talk in (looping, healthy)] == ["assistant turns (chat)"] * 2
    assert all(turn.text for talk in (looping, healthy) for turn in list_judged_turns(talk))


def test_every_shape_on_the_formats_page_is_read_as_its_heading_says(request, write):
    page = (request.config.rootpath / "docs" / "formats.md").read_text()
    shown = {
        heading.lower().split()[0]: block
        for heading, block in re.findall(
            r"^## ([^\n]+)\n[^#]*?```json\n(.*?)```", page, re.M | re.S
        )
    }
    assert shown.keys() == {"plain", "openai", "sharegpt", "claude"}
    for name, lines in shown.items():
        form = "claude-code" if name == "claude" else name
        log = write(lines.encode())
        assert list(readers.read(log)) == list(readers.read(log, format=form))


def test_the_table_of_formats_is_what_the_readers_say_of_themselves(request):
    page = (request.config.rootpath / "docs" / "formats.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    said = [
        [f"| `{reader.name}`", reader.recognised, reader.turns, f"{reader.left_out} |"]
        for reader in readers.READERS.values()
    ]
    assert [row for row in rows if len(row) == 4] == said
    assert all(all(row) for row in said)


def test_the_command_prints_what_the_page_says():
    printed = json.loads(CliRunner().invoke(cli, ["formats", "--json"]).stdout)["formats"]
    assert [
        (each["name"], each["recognised"], each["turns"], each["left_out"]) for each in printed
    ] == [
        (reader.name, reader.recognised, reader.turns, reader.left_out)
        for reader in readers.READERS.values()
    ]
    table = CliRunner().invoke(cli, ["formats"]).stdout
    assert all(name in table for name in readers.READERS)


@pytest.mark.weights
def test_the_rule_sees_five_of_the_ten(examples):
    collapsed = {found.id for found in chimeralab.detect_file(examples) if found.collapsed}
    assert collapsed == {
        "verbatim-loop",
        "alternating-pair",
        "template-loop",
        "recovering-loop",
        "looping-agent",
    }
