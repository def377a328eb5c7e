"""`llms.txt` and the skill for agents are what `python tools/describe.py` writes."""

import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest
from click import Context

from chimeralab.cli.main import COMMANDS, cli

yaml: Any = pytest.importorskip("yaml", reason="comes with [inspect]")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "describe.py"))


@pytest.mark.parametrize(("name", "path"), [("llms", "LLMS"), ("skill", "SKILL")])
def test_file_is_what_the_tool_writes(tool: dict[str, Any], name: str, path: str) -> None:
    assert tool[path].read_text(encoding="utf-8") == tool[name](), "run python tools/describe.py"


def test_llms_txt_leads_to_every_page_and_command(tool: dict[str, Any]) -> None:
    text = tool["llms"]()
    assert text.startswith("# Chimera Lab\n\n> ")
    pages = set(re.findall(r"\]\(docs/([\w-]+\.md)\)", text))
    assert pages == {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert re.findall(r"^- `chimera ([\w-]+)`", text, re.MULTILINE) == list(COMMANDS)


def test_skill_says_what_it_is_for_in_its_front_matter(tool: dict[str, Any]) -> None:
    front = yaml.safe_load(tool["skill"]().split("---\n")[1])
    assert front["name"] == tool["SKILL"].parent.name == "chimera-lab"
    assert 100 < len(front["description"]) < 1_024


def test_every_command_of_the_skill_can_be_parsed(tool: dict[str, Any]) -> None:
    lines = re.findall(r"(?:`|^)chimera ((?:detect|explain|logs) [^`\n]+)", tool["skill"](), re.M)
    assert len(lines) > 8
    for line in lines:
        name, *arguments = shlex.split(line)
        command = cli.get_command(Context(cli), name)
        assert command is not None
        command.make_context(name, arguments)
