"""Counts of a log's raw text, taken by other means than the readers: plain JSON or a regex.

A counter returns how many user messages, assistant messages with text, calls and results a file
has; None is not counted. `NOT_LOGS` are files of the index that are to be passed over.
"""

import json
import re
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple


class Counts(NamedTuple):
    """What is in a log; None for what was not counted."""

    user: int | None = None
    assistant: int | None = None
    calls: int | None = None
    results: int | None = None
    turns: int | None = None
    """All turns, for logs without a user and an assistant."""


NOT_LOGS = {
    "conversations.json",  # a word list
    "sessions/bugfix-3.json",  # a summary
    "sessions/bugfix-5.json",
    "claude-harness/session.jsonl",  # a program's own log
    "sonnet4_sonnet4_dreamsim_self_curated_20250925_143016.txt",  # it ended before it began
    "feedback-app/.aider.chat.history.md",  # a heading, and nothing below it
    "gemini-summary-day-014-015.md",
    "gemini-summary-day-020-021.md",
    "langgraph-human-feedback/checkpoints.sqlite",  # states of a graph without messages
}


def lines_of(path: Path) -> list[Any]:
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def value_of(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def has_text(content: Any) -> bool:
    """Whether content is text, or parts of which one has text."""
    if isinstance(content, str):
        return bool(re.sub(r"<think(ing)?>.*?</think(ing)?>", "", content, flags=re.S).strip())
    parts = content if isinstance(content, list) else []
    return any(
        str(p.get("text") or "").strip() for p in parts if p.get("type", "text") != "thinking"
    )


def parts_of(content: Any, *kinds: str) -> list[Any]:
    parts = content if isinstance(content, list) else []
    return [p for p in parts if isinstance(p, dict) and p.get("type") in kinds]


def chat(path: Path) -> Counts:
    """A list of messages, or objects with one, with `tool_calls` or parts."""
    value = value_of(path)
    talks = value if isinstance(value, list) else [value]
    listed = [talk.get("messages") or talk.get("conversations") or [] for talk in talks]
    messages = [message for talk in listed for message in talk]
    said = [m for m in messages if m["role"] == "assistant" and has_text(m.get("content"))]
    calls = {
        call.get("id") or (n, k)
        for n, message in enumerate(messages)
        for k, call in enumerate(message.get("tool_calls") or [])
    }
    old = sum(bool(message.get("function_call")) for message in messages)
    results = [m for m in messages if m["role"] in ("tool", "function")]
    users = sum(m["role"] == "user" for m in messages)
    return Counts(users, len(said), len(calls) + old, len(results))


# How each set writes a call, and how it begins an answer.
WRITTEN = {
    "swe-smith": (r"<function=", r"(?!<uploaded_files>)"),
    "swe-play": (r"<function=", r"EXECUTION RESULT of \["),
    "mini-coder": (r"```bash|<function=", r"<returncode>"),
    "alfworld": (r"(?m)^\s*ACTION:", None),
    "agenttuning_kg": (r"(?m)^Action:", None),
    "agenttuning_db": (r"(?m)^Action:", None),
    "agenttuning_os": (r"(?m)^Act:", r"The output of the OS"),
    "codeactinstruct": (r"<execute>", None),
}


def written(path: Path) -> Counts:
    """Agent data with calls in the text, by set."""
    marks = next((marks for name, marks in WRITTEN.items() if name in str(path)), None)
    if marks is None:
        if "webarena" in str(path):
            steps = [step for talk in value_of(path) for step in talk["trajectory"]]
            return Counts(user=3, calls=sum("action" in step for step in steps))
        return Counts() if "code_feedback" in str(path) else chat(path)
    call, answer = marks
    calls = results = 0
    for talk in value_of(path):
        for message in talk.get("messages") or talk.get("conversations"):
            text = message["content"]
            calls += len(re.findall(call, text)) if message["role"] == "assistant" else 0
            results += bool(answer and message["role"] == "user" and re.match(answer, text))
    return Counts(calls=calls, results=results if answer else None)


def claude_code(path: Path) -> Counts:
    lines = lines_of(path)
    users = assistants = 0
    seen, calls, results = set(), set(), set()
    for line in lines:
        if line.get("type") == "message":  # a session that was cleaned by hand
            users += line["role"] == "user"
            made = re.match(r"\[tool_use:", line["text"])
            assistants += line["role"] == "assistant" and not made
            calls |= {line["timestamp"]} if made else set()
            continue
        attachment = line.get("attachment") or {}
        users += attachment.get("type") == "queued_command"
        if line.get("type") not in ("user", "assistant"):
            continue
        content = line["message"]["content"]
        calls |= {p["id"] for p in parts_of(content, "tool_use")}
        results |= {p["tool_use_id"] for p in parts_of(content, "tool_result")}
        if line["type"] == "user":
            # Of two prompts after one message, the first was taken back.
            again = any(
                other.get("type") == "user" and other.get("parentUuid") == line["parentUuid"]
                for other in lines[lines.index(line) + 1 :]
            )
            users += not parts_of(content, "tool_result") and not again
        elif has_text(content):
            seen.add(line["message"].get("id") or line["uuid"])
    return Counts(users, assistants + len(seen), len(calls), len(results))


def codex(path: Path) -> Counts:
    items = [x["payload"] for x in lines_of(path) if x.get("type") == "response_item"]
    kinds = [item["type"] for item in items]
    said = [item.get("role") for item in items if item["type"] == "message"]
    calls = sum(kind.endswith("_call") for kind in kinds)
    results = sum(kind.endswith("_call_output") for kind in kinds)
    return Counts(said.count("user"), said.count("assistant"), calls, results)


def managed_agent(path: Path) -> Counts:
    kinds = [(line["role"], line["kind"]) for line in lines_of(path)]
    users = kinds.count(("user", "define_outcome")) + kinds.count(("user", "message"))
    said, calls, results = (
        kinds.count(("agent", kind)) for kind in ("message", "tool_use", "tool_result")
    )
    return Counts(users, said, calls, results)


def stream_json(path: Path) -> Counts:
    lines = lines_of(path)
    kinds = [line["type"] for line in lines]
    users = {line["content"] for line in lines if line.get("role") == "user"}
    starts = [
        line
        for before, line in zip([None, *lines], lines, strict=False)
        if line.get("role") == "assistant"
        and not (line.get("delta") and before and before.get("delta"))
    ]
    return Counts(len(users), len(starts), kinds.count("tool_use"), kinds.count("tool_result"))


def swe_agent(path: Path) -> Counts:
    value = value_of(path)
    if "trajectory" not in value:
        return chat_history(value["history"])
    steps = value["trajectory"]
    actions = [step for step in steps if (step.get("action") or "").strip()]
    return Counts(calls=len(actions), results=len(actions))


def chat_history(history: list[Any]) -> Counts:
    calls = sum(len(message.get("tool_calls") or []) for message in history)
    return Counts(calls=calls, results=sum(m["role"] == "tool" for m in history))


def inspect(path: Path) -> Counts:
    messages: list[Any] = []
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.startswith("samples/"):
                messages += json.loads(archive.read(name))["messages"]
    calls = sum(len(m.get("tool_calls") or []) for m in messages)
    results = sum(m["role"] == "tool" for m in messages)
    return Counts(sum(m["role"] == "user" for m in messages), None, calls, results)


def sessions(path: Path) -> Counts:
    lines = lines_of(path)
    if lines and "role" in lines[-1]:
        calls = sum(len(parts_of(line["content"], "tool_use")) for line in lines)
        results = sum(len(parts_of(line["content"], "tool_result")) for line in lines)
        users = sum(line["role"] == "user" for line in lines) - results
        said = sum(line["role"] == "assistant" and has_text(line["content"]) for line in lines)
        return Counts(users, said, calls, results)
    messages = [line["message"] for line in lines if line.get("type") == "message"]
    calls = sum(len(parts_of(m["content"], "toolCall")) for m in messages)
    roles = [m["role"] for m in messages]
    said = sum(m["role"] == "assistant" and has_text(m["content"]) for m in messages)
    return Counts(roles.count("user"), said, calls, roles.count("toolResult"))


def cline(path: Path) -> Counts:
    entries = value_of(path)
    kinds = [entry.get("say") or entry.get("ask") for entry in entries]
    asked = sum(e.get("ask") == "followup" and '"question":""' not in e["text"] for e in entries)
    said = [e for e in entries[1:] if (e.get("say") in ("text", "completion_result")) and e["text"]]
    planned = kinds.count("plan_mode_respond")
    calls = sum(kinds.count(kind) for kind in ("tool", "command", "use_mcp_server"))
    return Counts(1 + kinds.count("user_feedback"), len(said) + planned + asked, calls)


def copilot(path: Path) -> Counts:
    requests = value_of(path)["requests"]
    parts = [part for request in requests for part in request["response"]]
    calls = sum(part.get("kind") == "toolInvocationSerialized" for part in parts)
    return Counts(len(requests), None, calls)


def opencode(path: Path) -> Counts:
    messages = value_of(path)["messages"]
    parts = [(m["info"]["role"], part) for m in messages for part in m["parts"]]
    tools = [part["state"] for _, part in parts if part["type"] == "tool"]
    filled = [[p for p in m["parts"] if p["type"] == "text" and p["text"]] for m in messages]
    users = sum(m["info"]["role"] == "user" for m in messages)
    results = sum("output" in state or "error" in state for state in tools)
    said = [m for m, texts in zip(messages, filled, strict=True) if texts]
    texts = sum(m["info"]["role"] == "assistant" for m in said)
    return Counts(users, texts, len(tools), results)


def aider(path: Path) -> Counts:
    """Blocks of lines that begin with #### and end in two spaces; what is left is the answers."""
    kept = re.sub(r"(?m)^#### .*  $(?:\n^####.*  $)*", "\x01", path.read_text(encoding="utf-8"))
    kept = re.sub(r"(?m)^(?:>.*  |# aider chat started at .*)$", "\x02", kept)
    said = [part for part in re.split("[\x01\x02]", kept) if part.strip()]
    return Counts(kept.count("\x01"), len(said), 0, 0)


def grep(**patterns: str) -> Callable[[Path], Counts]:
    """Count the matches of a pattern for each kind of thing."""

    def count(path: Path) -> Counts:
        text = path.read_text(encoding="utf-8", errors="replace")
        return Counts(**{kind: len(re.findall(p, text)) for kind, p in patterns.items()})

    return count


def hyperagent(path: Path) -> Counts:
    """An intern's last message goes to the planner once more, with a call that is not run again."""
    text = path.read_text(encoding="utf-8")
    entry = r"(?m)^HyperAgent_\S+ - \w+ - "
    said = [each for each in re.split(entry, text) if not re.match(r"[\w -]+->[\w -]+: ", each)]
    calls = sum(len(re.findall(r"(?m)(?:^|Response: )Action:\s*```\w+\n", s)) for s in said)
    return Counts(calls=calls)


def once_drawn(text: str) -> str:
    """Without the parts of a terminal after whose next banner all prompts so far come again."""
    parts = text.split("✻ Welcome")
    asked = [re.findall(r"(?m)^[>❯] [^/].{,60}", part) for part in parts]
    again = (
        any(here and later[: len(here)] == here for later in asked[n + 1 :])
        for n, here in enumerate(asked)
    )
    return "".join(part for part, drawn in zip(parts, again, strict=True) if not drawn)


def markdown(path: Path) -> Counts:
    """Headings of exports, or the signs of a terminal."""
    text = path.read_text(encoding="utf-8")
    if re.search(r"(?m)^[⏺✦] ", text):
        text = once_drawn(text)
        calls = re.findall(
            r"(?m)^⏺ (?:[A-Z]\w*|[\w-]+ - \w+ \(MCP\))\(|(?<=╮\n) │ [✔x?-] +\w+ ", text
        )
        said = len(re.findall(r"(?m)^[⏺✦] ", text)) - sum(call[0] == "⏺" for call in calls)
        return Counts(len(re.findall(r"(?m)^(?:[>❯] |│  > )", text)), said, len(calls))
    users = re.findall(r"(?m)^#{2,4} (?:👤 )?User(?: Prompt)?$", text)
    said = re.findall(
        r"(?m)^#{2,4} (?:🤖 |💬 )?(?:Assistant.*|Claude|Copilot|gpt-\S+ \(.*\))$", text
    )
    calls = re.findall(r"(?m)^(?:### (?:✅|❌) `.*`|#### Tool: .*|\*\*Tool: .*\*\*)$", text)
    # A message of opencode may be nothing but calls.
    return Counts(len(users), None if "_Thinking:_" in text else len(said), len(calls))


def who_and_when(path: Path) -> Counts:
    """Messages, and answers of a terminal to a block of code in the message before."""
    history = value_of(path)["history"]
    texts = [message["content"] for message in history]
    results = sum(
        after.startswith("exitcode: ") and bool(re.search(r"(?m)^ *```\w* *$", before))
        for before, after in pairwise(texts)
    )
    return Counts(results=results, turns=len(history))


def agentrx(path: Path) -> Counts:
    value = value_of(path)
    return Counts(turns=len(value)) if isinstance(value, list) else chat_history(value["traj"])


def trail(path: Path) -> Counts:
    """The last call of the model has all messages; the SDK drops attributes beyond 128 of them."""
    spans, waiting = [], value_of(path)["spans"]
    while waiting:
        spans.append(waiting.pop())
        waiting += spans[-1]["child_spans"]
    called = [s for s in spans if s["span_attributes"].get("openinference.span.kind") == "LLM"]
    seen = {}
    for span in called:
        for key, value in span["span_attributes"].items():
            if found := re.match(r"llm\.input_messages\.(\d+)\.message\.content", key):
                seen[int(found[1])] = value
    last = max(called, key=lambda span: span["timestamp"])["span_attributes"]
    answers = "llm.output_messages.0.message.role" in last
    calls = [set(re.findall(r"'id': '(call_\d+)', 'type'", text)) for text in seen.values()]
    results = {text.split("\n")[0] for text in seen.values() if text.startswith("Call id: call_")}
    return Counts(1, None, len(set().union(*calls)), len(results), max(seen) + 1 + answers)


def select(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as store:
        return store.execute(query).fetchall()


def checkpoints(path: Path) -> Counts:
    """The names of classes, and of the type of a call, in the last state of each thread."""
    last = (
        "SELECT checkpoint, max(checkpoint_id) FROM checkpoints GROUP BY thread_id, checkpoint_ns"
    )
    raw = b"".join(row[0].rpartition(b"channel_versions")[0] for row in select(path, last))
    kinds = re.findall(rb"langchain_core\.messages\.\w+[\xa0-\xbf](\w+?)Message", raw)
    calls = len(re.findall(rb"\xa4type\xa9tool_call", raw))
    users, results = kinds.count(b"Human"), kinds.count(b"Tool")
    return Counts(users, None, calls, results, len(kinds))


def stored_items(path: Path) -> Counts:
    items = [
        json.loads(data) for (data,) in select(path, "SELECT message_data FROM agent_messages")
    ]
    kinds = [item.get("type", "message") for item in items]
    roles = [item.get("role") for item in items]
    calls = sum(kind.endswith("_call") for kind in kinds)
    results = sum(kind.endswith("_call_output") for kind in kinds)
    return Counts(roles.count("user"), roles.count("assistant"), calls, results)


COUNTERS: dict[str, Callable[[Path], Counts]] = {
    "adp-raw": written,
    "agentrx": agentrx,
    "aider-history": aider,
    "aider-swe-bench": aider,
    "mast-ag2": lambda path: Counts(turns=len(value_of(path)["trajectory"])),
    "mast-chatdev": grep(
        user=r"(?m)^\[20.*INFO\] [\w ]+: \*\*\[Start Chat\]",
        assistant=r"(?m)^\[20.*INFO\] [\w ]+: \*\*[^*]+<->.* turn \d+\*\*",
    ),
    "mast-hyperagent": hyperagent,
    "mast-magentic": grep(user=r"-{10} user -{10}", assistant=r"(?m)^-{10} (?!user)\S+ -{10}$"),
    "mast-metagpt": grep(user=r"FROM: Human", assistant=r"NEW MESSAGES:"),
    "mast-openmanus": grep(
        user=r"Read prompt from",
        assistant=r"'s thoughts: ?\S",
        calls="Activating tool:",
        results="completed its mission!",
    ),
    "claude-code": claude_code,
    "cline": cline,
    "codex": codex,
    "copilot-vscode": copilot,
    "gemini-cli-figma": stream_json,
    "inspect-eval": inspect,
    "langgraph": checkpoints,
    "md-exports": markdown,
    "multi-swe-bench": swe_agent,
    "opencode": opencode,
    "opencode-md": markdown,
    "universal-backrooms": grep(turns=r"(?m)^### (?!Backrooms Run)[^#\n]+ ###$"),
    "open-hai": managed_agent,
    "openai-sessions": stored_items,
    "session-jsonl": sessions,
    "swe-agent-demos": swe_agent,
    "trail": trail,
    "trajectory-json": chat,
    "who-and-when": who_and_when,
}


def is_log(path: Path) -> bool:
    return not any(str(path).endswith(name) for name in NOT_LOGS)
