"""What `make newcomer` reads out of the README."""

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def newcomer() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "newcomer.py"))


def test_every_shell_command_of_the_readme_is_run(newcomer: dict[str, Any]) -> None:
    found = newcomer["list_commands"](README)
    lines = [line for line in README.splitlines() if line.startswith("$ ")]
    assert [command for command, _ in found] == [line[2:].partition("  ")[0] for line in lines]
    assert len(found) > 10


def test_comments_say_which_command_serves_and_which_fails(newcomer: dict[str, Any]) -> None:
    found = newcomer["list_commands"](README)
    assert [c for c, said in found if newcomer["SERVES"] in said] == ["chimera view logs/ my-study"]
    failing = [command for command, said in found if newcomer["FAILS"] in said]
    assert failing == ["chimera detect logs/ --fail-on loop"]
