"""The README: what its commands print, and the numbers in it."""

import re
from pathlib import Path

import pytest

from chimeralab.cli.main import SECTIONS
from chimeralab.embedding.minilm import MAX_PIECES
from chimeralab.weights import MODELS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ chimera ([a-z-]+)", README, re.MULTILINE)


def test_demo_prints_what_the_readme_shows(chimera, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    [shown] = re.findall(r"^The demo prints:\n\n```text\n(.+?)^```", README, re.M | re.S)
    assert chimera("detect", "--demo").out == shown


def test_size_of_the_encoder_is_that_of_its_files() -> None:
    [said] = re.findall(r"sentence encoder of (\d+) MB", README)
    assert round(MODELS["minilm"].size / 1e6) == int(said)


def test_no_other_number_is_in_the_prose() -> None:
    prose = re.sub(r"^```.*?^```", "", README, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"\]\([^)]*\)", "]", prose)
    assert re.findall(r"\d[\d,.]*", prose.split("## What it can't do")[0]) == ["91"]
    assert re.findall(r"\d[\d,.]*", prose.split("## What it can't do")[1]) == [str(MAX_PIECES)]


@pytest.mark.parametrize("section", SECTIONS)
def test_commands_of_the_readme_are_at_the_top_of_the_help(section: str) -> None:
    named = [name in COMMANDS for name in SECTIONS[section]]
    assert named == sorted(named, reverse=True)
    assert any(named) == (section in ("Logs", "Guard", "Studies"))


def test_each_of_three_readers_has_few_commands() -> None:
    parts = re.split(r"^## ", README, flags=re.MULTILINE)[1:]
    assert [part.partition("\n")[0] for part in parts][:4] == [
        "I have logs", "I have an agent", "I run studies", "What it can't do"
    ]  # fmt: skip
    assert all(len(re.findall(r"^\$ ", part, re.MULTILINE)) <= 10 for part in parts)
