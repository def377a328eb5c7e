"""Exports as Markdown: which headings begin a message, and which belong to one."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from chimeralab import readers
from chimeralab.core.errors import LogError
from chimeralab.core.records import Call, Trajectory
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


CURSOR = """_**User (2025-10-14 22:25Z)**_

Fix it.

---

_**Assistant (m-1)**_

Let me look.

---

Tool use: **read_file**

Read file: a.py

---

Tool use: **run_terminal_cmd**

```bash
pytest -q
```

```
1 failed
---
_**User**_ is not a heading here
```

---

Tool use: **mcp_search**

<details>
    <summary>MCP tool call</summary>

*Called tool*: search

---

*Parameters*:
  * query: ragas

*Result*:
{"found": 2}
</details>

---

Tool use: **Edit**

Result:

```
The file a.py has been updated.
```

---

Found it.

---
"""


def test_tools_between_rules_are_calls_and_what_is_left_is_said(read: Read) -> None:
    """As SpecStory exports sessions of Cursor: a healthy one looped by its `Tool use` lines."""
    talk = read(CURSOR)
    assert [turn.text for turn in talk.turns if turn.text] == [
        "Fix it.",
        "Let me look.\n\nFound it.",
    ]
    calls = [call for turn in talk.turns for call in turn.calls]
    assert [(call.name, call.arguments) for call in calls] == [
        ("read_file", "Read file: a.py"),
        ("run_terminal_cmd", "pytest -q"),
        ("mcp_search", "* query: ragas"),
        ("Edit", None),
    ]
    results = [call.result for call in calls]
    assert results == [
        None,
        "1 failed\n---\n_**User**_ is not a heading here",
        '{"found": 2}',
        "The file a.py has been updated.",
    ]


def test_sign_of_a_person_names_a_side_whatever_the_name(read: Read) -> None:
    talk = read("# Log\n\n### 👤 Nina\n\nHei!\n\n### 🤖 Claude\n\nHei!\n\n### 👤 Nina\n\nKiitos.\n")
    assert [turn.role for turn in talk.turns] == ["user", "assistant", "user"]


def test_side_in_bold_is_a_heading_below_a_rule_only(read: Read) -> None:
    """As Cursor exports a chat; the answer has headings, and a block that was never closed."""
    answer = "Two tables.\n\n**User** is one of them:\n\n---\n\n## Group\n\n```sql\nSELECT 1"
    asked, said = ("\n\n---\n\n**User**\n\n", "\n\n---\n\n**Cursor**\n\n")
    talk = read(f"# Tables\n_Exported on 10/7/2026 from Cursor (3.2.11)_{asked}Why?{said}{answer}")
    assert [turn.text for turn in talk.turns] == ["Why?", answer]
    talk = read(f"# Tables{asked}Why?{said}{answer}{asked}Thanks.{said}OK.")
    assert [turn.text for turn in talk.turns] == ["Why?", answer, "Thanks.", "OK."]


CLINE = """**User:**

<task>
Read a.py
</task>

---

**Assistant:**

Let me read.
[Tool Use: read_file]
Path: a.py

[Tool Use: list_files]
Path: .

---

**User:**

[Tool]
x = 1

[Tool (Error)]
no such folder

---

**Assistant:**

It is fine.
"""


def test_tools_in_exports_of_cline_are_calls_with_results(read: Read) -> None:
    talk = read(CLINE)
    assert [turn.role for turn in talk.turns] == ["user", "assistant", "tool", "tool", "assistant"]
    assert list(talk.turns[1].calls) == [
        Call("read_file", "Path: a.py", "x = 1"),
        Call("list_files", "Path: .", "no such folder", error=True),
    ]


def test_tools_in_exports_of_gemini_cli_are_calls_with_results(read: Read) -> None:
    asked = {"name": "run_shell_command", "args": {"command": "ls"}}
    answered = {"name": "run_shell_command", "response": {"output": "a\n## USER\nb"}}
    command, response = (json.dumps(each, indent=2) for each in (asked, answered))
    sections = (
        "## USER 🧑‍💻\n\nList it.",
        f"## MODEL ✨\n\nI'll look.**Tool Command**:\n```json\n{command}\n```",
        f"## USER 🧑‍💻\n\n**Tool Response**:\n```json\n{response}\n```",
        "## MODEL ✨\n\nTwo files.",
    )
    talk = read("\n\n---\n\n".join(sections))
    assert [turn.text for turn in talk.turns if turn.role != "tool"] == [
        "List it.",
        "I'll look.",
        "Two files.",
    ]
    (call,) = talk.turns[1].calls
    assert call == Call("run_shell_command", {"command": "ls"}, "a\n## USER\nb")


def test_block_that_a_tool_cut_ends_with_the_tool(read: Read) -> None:
    tool = '<tool-use data-tool-type="shell" data-tool-name="cat">\n<details>\n<summary>Tool use: '
    tool += "**cat** • Run command: cat log.md</summary>\n\n```\n_**User**_\n\nQuoted.\n\n```sh\n"
    ended = f"_**Agent**_\n\n{tool}</details>\n</tool-use>\n\n_**User**_\n\nB.\n\n_**Agent**_\n\nC."
    talk = read(f"_**User**_\n\nA.\n\n{ended}")
    assert [turn.text for turn in talk.turns if turn.text] == ["A.", "B.", "C."]
    (call,) = (call for turn in talk.turns for call in turn.calls)
    assert call.arguments == "Run command: cat log.md"


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
    said = aider(HEALTHY).decode().replace("####", "#### Look:  \n####", 1)
    stripped = said.replace("  \n", "\n")
    apart = stripped.replace("#### Look:\n", "#### Look:\n\n")
    kept, *others = (
        [(turn.role, " ".join(turn.text.split())) for turn in read(log).turns]
        for log in (said, stripped, apart)
    )
    assert others == [kept, kept]


def test_old_aider_says_what_an_answer_cost_before_it(read):
    said = """# aider chat started at 2024-05-01 10:00:00

> Aider v0.35.1-dev|

#### add a function|

> 1000 prompt tokens, 10 completion tokens, $1.000000 cost|

First answer, it adds a function.

> Add these files to the chat? yes|
> 1500 prompt tokens, 0 completion tokens, $0.500000 cost|
> 2000 prompt tokens, 20 completion tokens, $2.000000 cost|

Second answer, it writes a test.
"""
    log = said.replace("|\n", "  \n")
    answers = [turn for turn in read(log).turns if turn.role == "assistant"]
    assert [turn.cost for turn in answers] == [1.0, 2.5]  # a request had no answer
    assert [turn.tokens.input for turn in answers] == [1000, 3500]


def test_answer_in_a_history_of_aider_calls_no_tools(read):
    said = aider(HEALTHY).decode().replace("deleting it is safe", "done.\n\nAction: rm b.bin", 1)
    asked = said.replace("Thanks.", "Thanks. Action: what now?")
    assert not any(turn.calls for turn in read(asked).turns)


def test_screen_that_a_terminal_draws_again_is_read_once(tmp_path: Path) -> None:
    banner = "╭───╮\n│ ✻ Welcome to Claude Code! │\n╰───╯\n\n"
    first = "> Fix the parser\n\n⏺ I look at it first.\n\n⏺ Read(src/parser.py)\n\n"
    again = first.replace("src/", "/home/me/src/") + "⏺ The bracket is missing.\n"
    other = "> Now the tests\n\n⏺ I look at it first.\n\n⏺ They pass.\n\n"
    log = tmp_path / "terminal.txt"
    log.write_text(banner + other + banner + first + banner + again, encoding="utf-8")
    (talk,) = readers.read(log)
    said = [turn.text for turn in talk.turns if turn.text]
    assert said == [
        *("Now the tests", "I look at it first.", "They pass."),
        *("Fix the parser", "I look at it first.", "The bracket is missing."),
    ]
