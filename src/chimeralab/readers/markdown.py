"""Sessions of assistants as Markdown or as copies of a terminal.

Exports put each message below a heading that names its side; a copy of a terminal marks the lines
of each side with a sign.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from chimeralab.core.records import Call, Trajectory
from chimeralab.readers.chat import (
    ChatMessage,
    Content,
    annotate,
    make_message,
    make_result,
    make_thought,
    make_trajectory,
)
from chimeralab.readers.consoles import as_text
from chimeralab.readers.seam import COMMON, NO_OBJECTS, Place, Reader, Text, try_json

# A heading such as `## User`, `### 👤 User`, `_**Assistant (model)**_` or `**Tool: bash**`.
HEADING = re.compile(
    r"^(?:#{1,4} +|_\*\*|\*\*(?=Tool: )|(?P<bold>\*\*))"
    r"(?P<sign>[^\w\s`*_\[(<]+\s+)?(?P<title>[^\n]{1,120}?)"
    r"(?:\*\*_|\*\*)?:?[ \t]*$"
)
TITLES = {
    "user": re.compile(r"(?:user(?: prompt| message)?|human|you|me)(?: ?\(.*\))?", re.I),
    "assistant": re.compile(
        r"(?:assistant|ai|agent|claude(?: code)?|(?:github )?copilot|codex|chatgpt|gemini|cursor"
        r"|bot|model|opencode|cline)(?: ?[-(·].*)?",
        re.I,
    ),
    "reasoning": re.compile(r"(?:reasoning|thinking|thoughts?)(?: ?\(.*\))?", re.I),
    "tool": re.compile(r"(?:tool(?: call| use)?: *)`?([^`\n]+?)`?|`([^`\n]+)`", re.I),
    "system": re.compile(r"(?:info|system|error|warning|notification|metadata|summary)", re.I),
}
SYMBOLS = re.compile(r"\s+[^\w\s(`]+\Z")
SIDE_SIGNS = {"user": ("👤", "🧑", "🙋"), "assistant": ("🤖", "💬")}
USER_MARKS = ("ser", "SER", "uman", "You", *SIDE_SIGNS["user"])  # one is in every such text
RESULT_SIGNS = ("✅", "❌", "🔧", "⚙")
FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
FENCE_LINE = re.compile(r"^ {0,3}(?:`{3,}|~{3,})", re.MULTILINE)
COMMAND = re.compile(r"^\$ (.*)$", re.MULTILINE)
ASKED = re.compile(r"Arguments</summary>|\*\*Input:\*\*|^```(?:sh|bash|json)", re.MULTILINE)
RULE = re.compile(r"\n+---\s*(?:\n+<sub>[^\n]*</sub>\s*)?\Z|\A(?:\s*- Time: [^\n]*\n)+")
TIME = re.compile(r"\A\s*- Time: (\S+)|\(.*?(\d{4}-\d\d-\d\d[T ][\d:.]+Z?)\)")
SPECSTORY_TOOL = re.compile(
    r'<tool-use data-tool-type="[^"]*" data-tool-name="([^"]*)">(.*?)</tool-use>', re.DOTALL
)
# Earlier versions of SpecStory: `Tool use: **Name** what`, up to a rule, or else to the next one.
TOOL_LINE = re.compile(r"^Tool use: \*\*([\w.-]+)\*\*[ \t]*([^\n]*)$", re.MULTILINE)
TOOLS_USED = re.compile(r"^_Tools used: ([\w.:, -]+)_$", re.MULTILINE)
# Exports of Cline and its kin, and those of Gemini CLI.
USED = re.compile(r"^\[Tool Use: ([\w.-]+)\][ \t]*\n?(.*?)(?=^\[Tool Use: |\Z)", re.M | re.S)
GAVE = re.compile(
    r"^\[Tool( \(Error\))?\][ \t]*\n(.*?)(?=^\[Tool(?: \(Error\))?\]|\Z)", re.M | re.S
)
SENT = re.compile(
    r"\*\*Tool (Command|Response)\*\*:\s*```json\n(.*?)\n```[ \t]*(?=\n|\Z)", re.DOTALL
)
SUMMARY = re.compile(r"<summary>\s*(?:Tool use: \*\*[^*]*\*\*)?([^<]*)</summary>")
PARAMETERS = re.compile(r"^\*Parameters\*:(.*?)^\*Result\*:(.*?)(?:</details>|\Z)", re.M | re.S)
RULES = re.compile(r"\A(?:\s*---[ \t]*(?:\n|\Z))+|(?:\n\s*---[ \t]*)+\s*\Z")
TASK_LIST = "**Agent task list:**"
# Exports of Cursor fold what its tools did, and list its plan again and again.
FOLDED = re.compile(r"<details>\s*<summary>([^<\n]*)</summary>(.*?)</details>", re.DOTALL)
TOOL_SUMMARY = re.compile(
    r"(?:edit|read|list|search|ran\b|run|mcp|tool|grep|creat|delet|fetch|termin|todo|web|code|find"
    r"|found|view|wrote|updat|look)\w*",
    re.I,
)
TODO_LIST = re.compile(
    r"(?:^---\s*\n)*^## Todo List\s*\n(?:[ \t]*(?:- \[.\][^\n]*)?(?:\n|\Z))+", re.M
)
THOUGHT = re.compile(
    r"<think><details>\s*<summary>[^<]*</summary>(.*?)</details></think>"
    r"|\A\s*_Thinking:_\n(.*?)(?=\n\*\*Tool: |\Z)",
    re.DOTALL,
)


def heading_kind(line: str) -> tuple[str, str] | None:
    """Return whose a heading is and its title; None for a heading inside a message.

    >>> heading_kind("### 👤 User"), heading_kind("## Steps")
    (('user', 'User'), None)
    """
    found = HEADING.match(line)
    if found is None:
        return None
    title, sign = found["title"].strip("*_ "), (found["sign"] or "").strip()
    title = SYMBOLS.sub("", title).removesuffix(":") or title
    kind = next((kind for kind, known in TITLES.items() if known.fullmatch(title)), None)
    is_tool = sign.startswith(RESULT_SIGNS) or title.lower().startswith("tool")
    if (kind == "tool" and not is_tool) or (kind == "system" and not sign):
        return None
    if found["bold"] is not None and kind not in ("user", "assistant"):
        return None
    if kind is None and not line.startswith("# "):
        kind = next((side for side, known in SIDE_SIGNS.items() if sign.startswith(known)), None)
    return (kind, title) if kind else None


def sections_of(text: str) -> list[tuple[str, str, str]]:
    """Split an export into sections: kind, heading and text. Headings in code are not counted."""
    for respect_code in (True, False):
        sections: list[tuple[str, str, list[str]]] = []
        fence, in_tool, below_rule = "", False, True
        for line in text.splitlines():
            in_tool = respect_code and (in_tool or line.startswith("<tool-use "))
            mark = FENCE.match(line) if respect_code and not in_tool else None
            # Only a side below a rule is a heading in bold. A block of code may have been cut.
            in_bold = line.startswith("**") and below_rule and heading_kind(line) is not None
            if (in_bold or line.startswith(("_**User", "_**A"))) and not in_tool:
                fence = ""
            below_rule = line.strip() == "---" or (below_rule and not line.strip())
            if mark and not fence:
                fence = mark[1]
            elif mark and mark[1].startswith(fence) and not line.strip().strip("`~"):
                fence = ""
            known = None if fence or in_tool else heading_kind(line)
            if line.startswith("**") and not in_bold and known and known[0] != "tool":
                known = None
            if known:
                sections.append((*known, [line]))
            elif sections:
                sections[-1][2].append(line)
            in_tool = in_tool and "</tool-use>" not in line
        if not (fence or in_tool):  # an export that cuts a block of code never closes it
            break
    return [(kind, title, "\n".join(lines)) for kind, title, lines in sections]


class MarkdownChat(Reader):
    """Exports with a heading for each message: of SpecStory, Cursor, Cline, opencode and others."""

    name = "markdown"
    keys = NO_OBJECTS
    recognised = "a text with headings like '## User' and '## Assistant', '_**User**_', '**User**'"
    turns = "the text below a heading; a tool's section is a call, with its output as the result"
    left_out = "text above the first message"

    def matches(self, value: Any) -> bool:
        if not isinstance(value, Text) or not any(sign in value for sign in USER_MARKS):
            return False
        kinds = [kind for kind, _, _ in sections_of(value)]
        return "user" in kinds and "assistant" in kinds

    def sureness(self, value: Any) -> float:
        return COMMON if self.matches(value) else 0.0

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        messages: list[ChatMessage] = []
        for kind, title, body in sections_of(as_text(value, "an export as Markdown")):
            messages += _section_messages(kind, title, body.partition("\n")[2])
        yield make_trajectory(place, place.stem, messages, {})


def _section_messages(kind: str, title: str, body: str) -> Iterator[ChatMessage]:
    at = TIME.search(body[:200]) or TIME.search(title)
    about = {"timestamp": at[1] or at[2]} if at else {}
    body = RULE.sub("", RULE.sub("", body)).strip()
    if kind == "tool":
        named = TITLES["tool"].fullmatch(title)
        name = (named[1] or named[2]) if named else title
        yield annotate(tool_message(name, body), about)
        return
    if kind == "reasoning":
        yield make_thought(body)
        return
    thoughts = "\n".join((found[1] or found[2] or "").strip() for found in THOUGHT.finditer(body))
    body = THOUGHT.sub("", body) if thoughts else body
    tools = [tool_message(found[1], found[2]) for found in SPECSTORY_TOOL.finditer(body)]
    text = SPECSTORY_TOOL.sub("", body).strip()
    if kind == "assistant" and TOOL_LINE.search(text):
        text, used = split_tool_uses(text)
        tools += [tool_use(*each) for each in used]
    elif kind == "assistant" and (named := TOOLS_USED.search(text)):
        tools += [tool_use(name.strip(), "", "") for name in named[1].split(",")]
        text = TOOLS_USED.sub("", text).strip()
    elif kind == "assistant" and text.startswith(TASK_LIST):
        tools.append(tool_use("task_list", text.removeprefix(TASK_LIST), ""))
        text = ""
    text, folded = unfold(text) if kind == "assistant" else (text, ())
    if kind == "user" and text.startswith("```") and len(typed := blocks_of(text)) == 1:
        text = typed[0]
    if thoughts:
        yield make_thought(thoughts)
    text, sent, given = take_sent(text)
    if text or folded or sent:
        calls = tuple((None, call) for call in sent)
        turn, content = make_message(Content(text, bool(folded or sent), calls), kind)
        turn = replace(turn, calls=(*folded, *turn.calls))
        yield annotate(ChatMessage(turn, content), about)
    yield from given
    yield from tools


def take_sent(text: str) -> tuple[str, list[Call], list[ChatMessage]]:
    """Take the calls and the results out of a message, if an export marks them.

    >>> take_sent("Look.\\n[Tool Use: read_file]\\nPath: a.py")[:2]
    ('Look.', [Call(name='read_file', arguments='Path: a.py', result=None, error=None)])
    """
    if "[Tool" not in text and "**Tool " not in text:
        return text, [], []
    calls = [Call(found[1], found[2].strip() or None) for found in USED.finditer(text)]
    given = [make_result(f[2].strip(), None, bool(f[1]) or None) for f in GAVE.finditer(text)]
    for kind, told in SENT.findall(text):
        fields = try_json(told)
        fields = fields if isinstance(fields, dict) else {"name": "", "args": told}
        if kind == "Command":
            calls.append(Call(str(fields.get("name")), fields.get("args")))
        else:
            answer = fields.get("response", fields.get("args"))
            answer = answer if isinstance(answer, dict) else {"output": answer}
            error = answer.get("error")
            given.append(make_result(error or answer.get("output"), None, bool(error) or None))
    for pattern in (SENT, USED, GAVE):
        text = pattern.sub("", text)
    return text.strip(), calls, given


def split_tool_uses(text: str) -> tuple[str, list[tuple[str, str, str]]]:
    """Split a message into what it says, and the tools that it used: name, what for, and the rest.

    >>> split_tool_uses("Look.\\n---\\nTool use: **grep** x\\nFound.\\n\\n---\\n\\nDone.")
    ('Look.\\n\\nDone.', [('grep', 'x', 'Found.\\n')])
    """
    said: list[list[str]] = [[]]
    used: list[tuple[str, str, list[str]]] = []
    fence, depth = "", 0
    lines = said[-1]
    for line in text.splitlines():
        mark = FENCE.match(line)
        if named := TOOL_LINE.match(line):
            lines = []
            used.append((named[1], named[2], lines))
            fence, depth = "", 0
            continue
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not line.strip().strip("`~"):
            fence = ""
        if not fence:
            depth = max(0, depth + line.count("<details") - line.count("</details>"))
        if line.strip() == "---" and not (fence or depth) and lines is not said[-1]:
            lines = []
            said.append(lines)
        else:
            lines.append(line)
    texts = (RULES.sub("", "\n".join(each)).strip() for each in said)
    return "\n\n".join(filter(None, texts)), [(n, a, "\n".join(rest)) for n, a, rest in used]


def unfold(text: str) -> tuple[str, tuple[Call, ...]]:
    """Take what tools did out of a message.

    >>> unfold("Look.\\n<details><summary>Read file: a.py</summary>x = 1</details>")
    ('Look.', (Call(name='Read file', arguments='a.py', result='x = 1', error=None),))
    """
    calls = list[Call]()

    def take(found: re.Match[str]) -> str:
        summary = re.sub(r"[*`]", "", found[1]).strip()
        if not TOOL_SUMMARY.match(summary):
            return found[0]
        name, _, asked = summary.partition(":")
        name = " ".join(name.split()[:3])
        result = found[2].strip() or None
        calls.append(Call(name, asked.strip() or (summary if result else None), result))
        return ""

    def take_plan(found: re.Match[str]) -> str:
        calls.append(Call("task_list", found[0].strip()))
        return ""

    text = TODO_LIST.sub(take_plan, FOLDED.sub(take, text) if "<details>" in text else text)
    return text.strip() if calls else text, tuple(calls)


def blocks_of(text: str) -> list[str]:
    """List the blocks of code in a text.

    >>> blocks_of("Run:\\n```sh\\nls\\n```\\nOutput:\\n````text\\n```\\n````")
    ['ls', '```']
    """
    blocks: list[str] = []
    fence, lines = "", list[str]()
    for line in text.splitlines():
        mark = FENCE.match(line)
        if fence and mark and mark[1].startswith(fence) and not line.strip().strip("`~"):
            blocks.append("\n".join(lines))
            fence = ""
        elif fence:
            lines.append(line)
        elif mark:
            fence, lines = mark[1], []
    return [*blocks, "\n".join(lines)] if fence else blocks


def tool_message(name: str, body: str) -> ChatMessage:
    """Read a call from its section: the first block is what was asked, the last what came back."""
    blocks = blocks_of(body)
    command, listed, found = COMMAND.search(body), PARAMETERS.search(body), SUMMARY.search(body)
    title = found[1].strip(" •\n") if found else ""
    # Some exports say what was asked in a line above the output.
    above = re.split(FENCE_LINE, SUMMARY.sub("", body))[0]
    above = re.sub(r"<summary>.*?</summary>|</?\w+>", "", above).strip()
    asked: Any = command[1] if command else None
    result = blocks[-1] if blocks else None
    if listed:
        asked, result = listed[1].strip(), listed[2].strip()
    elif not command and blocks and (len(blocks) > 1 or ASKED.search(body[: first_end(body)])):
        asked = try_json(blocks[0]) or blocks[0]
        result = blocks[-1] if len(blocks) > 1 else None
    elif title and not title.endswith(("Arguments", "Output")):
        asked = f"{title}\n{above}".strip() if blocks else title
        result = result or above
    return call_message(Call(name, asked or above or None, result or None))


def first_end(body: str) -> int:
    """Return where the line that opens the first block ends."""
    found = FENCE_LINE.search(body)
    return body.find("\n", found.end()) + 1 if found else 0


def tool_use(name: str, asked: str, body: str) -> ChatMessage:
    """Read a call whose arguments may be a line, with `Result:` or `Error:` above a block."""
    if not asked and body.strip() and not body.lstrip().startswith(("Result:", "Error:")):
        return tool_message(name, body)
    blocks, failed = blocks_of(body), body.lstrip().startswith("Error:")
    result = blocks[-1] if blocks else body.strip() or None
    return call_message(Call(name, asked.strip("` ") or None, result, error=failed or None))


def call_message(call: Call) -> ChatMessage:
    turn, content = make_message(Content("", tools=True), "assistant")
    return ChatMessage(replace(turn, calls=(call,)), content)


# The signs of Claude Code (⏺) and Gemini CLI (✦), and of their boxes.
TYPED = re.compile(r"(?:[>❯] |│  > )(.*)")  # with one space, the field in which one types
SAID = re.compile(r"[⏺●✦] ?(.*)")
CALLED = re.compile(r"([A-Z]\w*|[\w-]+ - \w+ \(MCP\))\((.*)", re.DOTALL)
RETURNED = re.compile(r"\s+⎿ +(.*)")
THOUGHT_SIGN = re.compile(r"[✻✽∴*] ?Thinking")
BOXED_CALL = re.compile(r"\s*│ [✔✓✗x⊷o?-] +(\w+) (.*?)\s*│?$")  # in the first line of a box
BOX = re.compile(r"\s*[╭╰]")
SCREEN = re.compile(r"^(?=╭─*╮\n│ ✻ Welcome)", re.MULTILINE)
SENTENCE = re.compile(r"^(?:[>❯] (?!/)|[⏺✦](?! ?\w+\()).*\S", re.MULTILINE)  # no call, no command


class Terminal(Reader):
    """A copy of the terminal of Claude Code or Gemini CLI."""

    name = "terminal"
    keys = NO_OBJECTS
    recognised = "a text with lines that begin with > or ❯, and with ⏺ or ✦"
    turns = "lines after such a sign; ⏺ Name(…) and a box with a tool are calls, with their output"
    left_out = "the banner, what the terminal had folded away, screens that were drawn again later"

    def matches(self, value: Any) -> bool:
        if not isinstance(value, Text) or not ("⏺" in value or "✦" in value):
            return False
        lines = value.splitlines()
        return any(map(SAID.match, lines)) and any(map(TYPED.match, lines))

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        text = drop_redrawn(as_text(value, "a copy of a terminal"))
        messages: list[ChatMessage] = []
        for kind, lines in terminal_blocks(text):
            body = "\n".join(line.removeprefix("  ").rstrip(" │") for line in lines).strip()
            call = CALLED.match(body) if kind == "assistant" else None
            if kind == "call" or call:
                name, asked, *output = call.groups() if call else lines
                made = Call(name, asked.strip().removesuffix(")"), "\n".join(output) or None)
                calls = ((None, made),) if call else ()
                turn, content = make_message(Content("", tools=True, calls=calls), "assistant")
                messages.append(ChatMessage(replace(turn, calls=(made,)), content))
            elif kind == "result":
                if messages and messages[-1].turn.calls:
                    messages.append(make_result(body))
            elif kind == "banner":
                continue
            elif kind == "thought":
                messages.append(make_thought(body.partition("\n")[2].strip()))
            elif body:
                messages.append(make_message(body, kind))
        yield make_trajectory(place, place.stem, messages, {})


def drop_redrawn(text: str) -> str:
    """Drop each screen that a later one shows again: resuming prints the past below a banner."""
    screens = SCREEN.split(text)
    # A window of another width breaks lines elsewhere.
    said = [[line[:60].rstrip() for line in SENTENCE.findall(screen)] for screen in screens]
    last = len(screens) - 1
    return "".join(
        screen
        for at, screen in enumerate(screens)
        if at == last
        or len(said[at]) < 2
        or not any(is_within(said[at], later) for later in said[at + 1 :])
    )


def is_within(part: list[str], whole: list[str]) -> bool:
    """Whether the lines occur in the other list in the same order."""
    rest = iter(whole)
    return all(line in rest for line in part)


def terminal_blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the blocks of a terminal, of which the sign of the first line tells the kind."""
    block: tuple[str, list[str]] = ("banner", [])
    signs = (("user", TYPED), ("result", RETURNED), ("thought", THOUGHT_SIGN), ("assistant", SAID))
    opened = False
    for line in text.splitlines():
        boxed = BOXED_CALL.match(line) if opened else None
        opened = line.lstrip().startswith("╭")
        known = next(((kind, m) for kind, sign in signs if (m := sign.match(line))), None)
        if boxed:
            yield block
            block = ("call", [boxed[1], boxed[2]])
        elif known and not (block[0] == "call" and line.lstrip().startswith("│")):
            yield block
            kind, found = known
            block = (kind, [found[1] if found.groups() else line])
        elif BOX.match(line):
            if block[0] in ("call", "banner") or "╭" in line:
                yield block
                block = ("banner", [])
        elif block[0] == "call":
            block[1].append(line.strip().removeprefix("│").rstrip("│ "))
        else:
            block[1].append(line.lstrip("│") if line.startswith("│") else line)
    yield block
