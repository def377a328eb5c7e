"""Exports as Markdown: which headings begin a message, and which belong to one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from chimeralab import readers
from chimeralab.core.errors import LogError
from chimeralab.core.records import Trajectory
from tests.unit.readers.by_schema import aider
from tests.unit.readers.talks import HEALTHY

Read = Callable[[str], Trajectory]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(text: str) -> Trajectory:
        log = tmp_path / "session.md"
        log.write_text(text, encoding="utf-8")
        (talk,) = readers.read(log)
        return talk

    return read


def test_headings_of_an_answer_are_part_of_it(read: Read) -> None:
    answer = "It works.\n\n## Summary\n\nOne file.\n\n### Error\n\nNone.\n\n## Steps\n\n1. Run."
    talk = read(f"# Log\n\n## User\n\nFix it.\n\n## Assistant\n\n{answer}\n\n## User\n\nThanks.")
    assert [turn.text for turn in talk.turns] == ["Fix it.", answer, "Thanks."]


def test_headings_in_a_block_of_code_are_not_messages(read: Read) -> None:
    code = "````text\n## User\n```\n## Assistant\n```\n````"
    talk = read(f"## User\n\nQuote it.\n\n## Assistant\n\n{code}\n")
    assert [turn.text for turn in talk.turns] == ["Quote it.", code]


def test_a_block_that_was_cut_does_not_swallow_the_rest(read: Read) -> None:
    talk = read("## User\n\nA.\n\n## Assistant\n\n```sh\nls\n\n## User\n\nB.\n\n## Assistant\n\nC.")
    assert [turn.role for turn in talk.turns] == ["user", "assistant", "user", "assistant"]


def test_reasoning_has_a_section_of_its_own(read: Read) -> None:
    talk = read("### 👤 User\n\nA?\n\n### 💭 Reasoning\n\nHm.\n\n### 💬 Copilot\n\nB.\n")
    assert (talk.turns[-1].text, talk.turns[-1].reasoning) == ("B.", "Hm.")


@pytest.mark.parametrize(
    "text",
    [
        "# API\n\n## User\n\nA user has a name.\n\n## Group\n\nA group has users.\n",
        "# Summary of a session\n\nThe user asked, and the assistant answered.\n",
        "> A quote\n\nand a dot: ⏺\n",
    ],
)
def test_a_page_of_documentation_is_not_a_log(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    with pytest.raises(LogError, match="no known format"):
        list(readers.read(page))


def test_history_of_aider_may_have_lost_the_spaces_that_end_its_lines(read):
    said = aider(HEALTHY).decode()
    kept, stripped = (
        [(turn.role, " ".join(turn.text.split())) for turn in read(log).turns]
        for log in (said, said.replace("  \n", "\n"))
    )
    assert kept == stripped
