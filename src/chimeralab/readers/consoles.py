"""Logs that programs print: histories of aider, and consoles of teams of agents.

A log is a text as a whole. Each reader splits it at the lines by which its program begins an entry.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from chimeralab.core.records import Call, Trajectory, Turn, normalize_role
from chimeralab.readers.chat import (
    ChatMessage,
    Content,
    annotate,
    make_message,
    make_result,
    make_thought,
    make_trajectory,
    mark_unspoken,
)
from chimeralab.readers.seam import COMMON, NO_OBJECTS, Place, Reader, Text, Unreadable, try_json

Entry = tuple[re.Match[str], str]
"""The line that begins an entry, and the text up to the next one."""


def entries_of(text: str, beginning: re.Pattern[str]) -> list[Entry]:
    """Split a text at the matches of a pattern.

    >>> [(m[1], body) for m, body in entries_of("a: 1\\nb: 2\\n3", re.compile("^(.): ", re.M))]
    [('a', '1\\n'), ('b', '2\\n3')]
    """
    found = list(beginning.finditer(text))
    ends = [*(match.start() for match in found), len(text)][1:]
    return [(match, text[match.end() : end]) for match, end in zip(found, ends, strict=False)]


def as_text(value: Any, what: str) -> str:
    if isinstance(value, Text):
        return value
    raise Unreadable(f"not {what}")


def agent_message(text: str, name: str, **about: Any) -> ChatMessage:
    """Make a message of one of several agents; a user is told by the name."""
    role = "user" if normalize_role(name) == "user" else "assistant"
    known = {"agent": name} if role == "assistant" else {}
    return annotate(make_message(text.strip(), role, name), known | about)


SESSION = re.compile(r"^# aider chat started at (.+?)\s*$", re.MULTILINE)
# Aider ends the lines that it writes itself with two spaces, as Markdown asks for.
TYPED = re.compile(r"####(?: .*)?  $")
BETWEEN = re.compile(r"^(####.*)\n{2,}(?=####)", re.MULTILINE)
PRINTED = re.compile(r">(?: .*)?  $")
NUMBER = r"(\d{1,30}(?:\.\d{1,30})?)"
COUNT = r"(\d[\d,]{0,30}(?:\.\d{1,30})?k?)"
SPENT = re.compile(
    rf"> (?:Tokens: )?{COUNT} (sent|prompt tokens)\b.*?\b{COUNT} "
    rf"(?:received|completion tokens)(?:.*?\${NUMBER})?"
)


class Aider(Reader):
    """The chat history of aider: what was typed, what aider printed, and answers."""

    name = "aider"
    keys = NO_OBJECTS
    recognised = "a text with lines like '# aider chat started at 2025-01-31 12:00:00'"
    turns = "lines typed by the user, and text in between; each start of aider is a conversation"
    left_out = "nothing; what aider prints is not judged"

    def matches(self, value: Any) -> bool:
        return isinstance(value, Text) and SESSION.search(value) is not None

    def is_exact(self, value: Any) -> bool:
        return True  # aider's models edit files, and call no tools

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        talked = 0
        for begun, body in entries_of(as_text(value, "a history of aider"), SESSION):
            messages = list(_aider_messages(body))
            if any(message.turn.role != "system" for message in messages):
                talked += 1
                name = f"{place.stem}#{talked}"
                yield make_trajectory(place, name, messages, {"started": begun[1]})


def _aider_messages(text: str) -> Iterator[ChatMessage]:
    blocks: list[tuple[str, list[str]]] = []
    all_lines = text.splitlines()
    if not any(map(TYPED.match, all_lines)):
        # An editor may have removed the spaces, and put blank lines between what was typed.
        all_lines = BETWEEN.sub(r"\1\n", text).splitlines()
        all_lines = [f"{line}  " if line[:1] in {"#", ">"} else line for line in all_lines]
    for line in all_lines:
        role = "user" if TYPED.match(line) else "system" if PRINTED.match(line) else "assistant"
        if not blocks or blocks[-1][0] != role:
            blocks.append((role, []))
        blocks[-1][1].append(line)
    waiting: dict[str, Any] = {}
    messages: list[ChatMessage] = []
    for role, lines in blocks:
        mark = {"user": "#### ", "system": "> "}.get(role, "")
        said = "\n".join(line.removeprefix(mark) for line in lines)
        if not said.strip():
            continue
        message = make_message(said.strip(), role, "aider" if role == "system" else None)
        if role == "assistant":
            message, waiting = annotate(message, waiting), {}
        messages.append(message)
        spent = [found for line in lines if role == "system" and (found := SPENT.match(line))]
        for found in spent:
            # In older versions the line stands before its answer, which may be empty.
            before = found[2] != "sent"
            sent, received = (_thousands(found[n]) for n in (1, 3))
            cost = {"cost": float(found[4])} if found[4] else {}
            about = {"usage": {"input": sent, "output": received}} | cost
            if not before and len(messages) > 1 and messages[-2].turn.role == "assistant":
                messages[-2] = annotate(messages[-2], about)
            else:
                waiting = _add_spent(waiting, about)
    if waiting and messages:
        messages[-1] = annotate(messages[-1], waiting)
    yield from messages


def _add_spent(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """What two requests spent, of which the first had no answer."""
    if not one:
        return other
    usage = {key: one["usage"][key] + other["usage"][key] for key in one["usage"]}
    cost = [each["cost"] for each in (one, other) if "cost" in each]
    return {"usage": usage} | ({"cost": sum(cost)} if cost else {})


def _thousands(number: str) -> int:
    digits = number.replace(",", "")
    return int(float(digits.removesuffix("k")) * (1000 if digits.endswith("k") else 1))


HEADED = re.compile(
    r"^(?:### (?P<a>[^#\n]{1,60}?) ###|-{8,} (?P<b>[^-\n][^\n]{0,60}?) -{8,})[ \t]*$", re.M
)
ROUND = re.compile(r"^### Round \d+/\d+[ \t]*$", re.MULTILINE)
EVENT = re.compile(r"(\w+(?:Message|Event)) \(([^)]+)\)")
FUNCTION_CALL = re.compile(r"FunctionCall\(id='([^']*)', arguments='(.*?)', name='([^']*)'\)")
EXECUTED = re.compile(
    r"FunctionExecutionResult\(content=(['\"])(.*?)\1, .*?call_id='([^']*)'", re.S
)
END = re.compile(r"^SCENARIO\.PY (?:COMPLETE|EXITED)", re.MULTILINE)


class HeadedText(Reader):
    """A text in which each message is below its speaker: `### Name ###`, or AutoGen's console."""

    name = "headed"
    keys = NO_OBJECTS
    recognised = "a text with lines like '### Name ###' or '---------- Name ----------'"
    turns = "the text below such a line; a name that recurs, or a user, is a speaker"
    left_out = "text above the first speaker, headings of rounds"

    def matches(self, value: Any) -> bool:
        return isinstance(value, Text) and bool(_speakers(value))

    def sureness(self, value: Any) -> float:
        return COMMON if self.matches(value) else 0.0

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        text = as_text(value, "a text with speakers")
        speakers = _speakers(text)
        text = ROUND.sub("", END.split(text)[0])
        messages: list[ChatMessage] = []
        for heading, body in entries_of(text, HEADED):
            if (title := _title(heading)) not in speakers:
                continue
            event = EVENT.fullmatch(title)
            if event:
                messages += _console_events(event[1], event[2], body)
            elif any(normalize_role(name) == "user" for name in speakers):
                messages.append(agent_message(body, title))
            else:
                messages.append(ChatMessage(Turn(body.strip(), title), Content(body)))
        yield make_trajectory(place, place.stem, messages, {})


def _title(heading: re.Match[str]) -> str:
    return str(heading["a"] or heading["b"]).strip()


def _speakers(text: str) -> set[str]:
    counted = Counter(map(_title, HEADED.finditer(text)))
    counted.pop("Backrooms Run", None)
    headed = text.lstrip().startswith("### ")
    if headed or any(normalize_role(name) == "user" for name in counted):
        return set(counted)
    return {name for name, n in counted.items() if n > 1 or EVENT.match(name)}


def _console_events(kind: str, source: str, body: str) -> Iterator[ChatMessage]:
    """Parse an event as AutoGen prints it."""
    made = FUNCTION_CALL.findall(body) if kind == "ToolCallRequestEvent" else []
    done = EXECUTED.findall(body) if kind == "ToolCallExecutionEvent" else []
    if made:
        calls = tuple((name, Call(tool, try_json(given) or given)) for name, given, tool in made)
        yield make_message(Content("", tools=True, calls=calls), "assistant", source)
    elif done:
        yield from (make_result(given, name) for _, given, name in done)
    elif kind == "ThoughtEvent":
        yield make_thought(body.strip())
    else:
        yield agent_message(body, source)


STAMPED = re.compile(r"^(\d{4}-\d\d-\d\d [\d:.]+) \| (\w+) +\| ([\w.]+):(\w+):\d+ - ", re.MULTILINE)
THOUGHTS = re.compile(r"\W*(\w+)'s thoughts: ?(.*)", re.DOTALL)
PROMPT = re.compile(r"(?:Read prompt from [^:]*|Enter your prompt): (.*)", re.DOTALL)
ARGUMENTS = re.compile(r"\W*Tool arguments: (.*)", re.DOTALL)
ACTIVATED = re.compile(r"\W*Activating tool: '([^']*)'")
COMPLETED = re.compile(r"\W*Tool '([^']*)' completed its mission! Result: ?(.*)", re.DOTALL)
COUNTED = re.compile(r"Token usage: Input=(\d{1,30}), Completion=(\d{1,30})\b")


class OpenManus(Reader):
    """The console of OpenManus: thoughts, tools that are activated, and their results."""

    name = "openmanus"
    keys = NO_OBJECTS
    recognised = "a text with lines of app.agent that activate tools"
    turns = "a thought of an agent; a tool that it activates is a call, with its result"
    left_out = "plans, steps and other lines of the console"

    def matches(self, value: Any) -> bool:
        return isinstance(value, Text) and "app.agent." in value and "'s thoughts:" in value

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        messages: list[ChatMessage] = []
        agent, arguments, calls, usage = "agent", None, 0, {}
        for entry, body in entries_of(as_text(value, "a console of OpenManus"), STAMPED):
            at, text = {"timestamp": entry[1]}, body.strip()
            if found := COUNTED.match(text):
                usage = {"usage": {"input": int(found[1]), "output": int(found[2])}}
            elif found := PROMPT.match(text):
                messages.append(annotate(make_message(found[1], "user"), at))
            elif found := THOUGHTS.match(text):
                agent, arguments = found[1], None
                if found[2].strip():
                    messages.append(agent_message(found[2], agent, **at, **usage))
                    usage = {}
            elif found := ARGUMENTS.match(text):
                arguments = try_json(found[1]) or found[1]
            elif found := ACTIVATED.match(text):
                calls += 1
                call = (f"{found[1]}/{calls}", Call(found[1], arguments))
                message = make_message(Content("", True, (call,)), "assistant", agent)
                messages.append(annotate(message, {"agent": agent} | at | usage))
                usage = {}
            elif found := COMPLETED.match(text):
                messages.append(annotate(make_result(found[2]), at))
        yield make_trajectory(place, place.stem, messages, {})


HYPERAGENT = re.compile(r"^HyperAgent_(\S+) - \w+ - ", re.MULTILINE)
RESPONSE = re.compile(r"([\w -]{1,40}?)(?:('s Response)|->[\w -]+): ?(.*)", re.DOTALL)
OBSERVED = re.compile(r"\s*Observation: (.*?)(?=\n\s*Thought:|\Z)", re.DOTALL)
ACTED = re.compile(r"^Action:\s*```(\w+)\n(.*?)(?:^```|\Z)\s*(?:Observation:?\s*\Z)?", re.M | re.S)


class HyperAgent(Reader):
    """The log of HyperAgent: a planner and its interns."""

    name = "hyperagent"
    keys = NO_OBJECTS
    recognised = "a text with lines like 'HyperAgent_django-1 - INFO - Planner's Response: …'"
    turns = (
        "a response of an agent; its block of code is a call, the observation after it the result"
    )
    left_out = "lines about the start of a run, calls that a report to the planner repeats"

    def matches(self, value: Any) -> bool:
        return isinstance(value, Text) and HYPERAGENT.search(value) is not None

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        runs: list[list[ChatMessage]] = [[]]
        for _, body in entries_of(as_text(value, "a log of HyperAgent"), HYPERAGENT):
            found = RESPONSE.match(body)
            if found and found[2]:
                runs[-1] += _intern_messages(found[1], found[3])
            elif found:  # a report to the planner, which may quote calls
                runs[-1].append(agent_message(found[3], found[1]))
            elif body.startswith("Initialized HyperAgent") and runs[-1]:
                runs.append([])
        for number, messages in enumerate(filter(None, runs), 1):
            name = place.stem if number == 1 else f"{place.stem}#{number}"
            yield make_trajectory(place, name, messages, {})


def _intern_messages(name: str, text: str) -> Iterator[ChatMessage]:
    """Split a response into the observation that it begins with, its text and its action."""
    seen = OBSERVED.match(text)
    if seen and seen[1].strip():
        yield make_result(seen[1].strip())
    text = text[seen.end() :] if seen else text
    calls = tuple((None, Call(name, code.rstrip())) for name, code in ACTED.findall(text))
    rest = ACTED.sub("", text).strip()
    if rest or calls:
        message = make_message(Content(rest, bool(calls), calls), "assistant", name)
        yield annotate(message, {"agent": name})


CHATDEV = re.compile(r"^\[(\d{4}-\d\d-\d\d [\d:]+) \w+\] ", re.MULTILINE)
TURN_OF = re.compile(r"([\w ]+): \*\*[^*\n]+<->[^*\n]+ on : (\w+), turn \d+\*\*\s*(.*)", re.DOTALL)
STARTED = re.compile(r"([\w ]+): \*\*\[Start Chat\]\*\*\s*(.*)", re.DOTALL)
# The instructions of the one who is spoken to, in brackets, before what is said.
BRIEFED = re.compile(r"\[[^\]]*(?:\][^\n]*\n(?!\n)[^\]]*)*\]\s*\n", re.DOTALL)
BILLED = re.compile(r"\*\*\[OpenAI_Usage_Info Receive\]\*\*\s*(.*)", re.DOTALL)
FIGURE = re.compile(rf"^(\w+): \$?{NUMBER}$", re.MULTILINE)


class ChatDev(Reader):
    """The log of ChatDev: agents of a software company that talk in pairs, phase by phase."""

    name = "chatdev"
    keys = NO_OBJECTS
    recognised = "a text with lines like '[2025-29-03 23:28:44 INFO] Programmer: **…<->… on : …**'"
    turns = "what an agent says; the prompt that starts a chat is not judged"
    left_out = "settings, code that was updated, conclusions that repeat what was said"

    def matches(self, value: Any) -> bool:
        return isinstance(value, Text) and "ChatDev" in value[:4000] and "<->" in value

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        messages: list[ChatMessage] = []
        usage: dict[str, Any] = {}
        for entry, body in entries_of(as_text(value, "a log of ChatDev"), CHATDEV):
            at = {"timestamp": entry[1]}
            if found := BILLED.match(body):
                usage = {"usage": {key: float(n) for key, n in FIGURE.findall(found[1])}}
            elif found := TURN_OF.match(body):
                said = BRIEFED.sub("", found[3], count=1) if found[3].startswith("[") else found[3]
                messages.append(agent_message(said, found[1], **at, **usage))
                usage = {}
            elif found := STARTED.match(body):
                prompt = annotate(make_message(found[2].strip(), "user", found[1]), at)
                messages.append(mark_unspoken(prompt))
        yield make_trajectory(place, place.stem, messages, {})


METAGPT = re.compile(
    r"^\[(\d{4}-\d\d-\d\d [\d:]+)\] (?:FROM: (\w+) TO: .*|NEW MESSAGES:)\n", re.MULTILINE
)
RULE = re.compile(r"^-{40,}\s*$|^=== ", re.MULTILINE)
SENT = re.compile(r"(?:ACTION: .*\n)?CONTENT:\n")
NAMED = re.compile(r"^([A-Z]\w*): ?", re.MULTILINE)


class MetaGPT(Reader):
    """The communication log of MetaGPT."""

    name = "metagpt"
    keys = NO_OBJECTS
    recognised = "a text with 'MetaGPT Agent Communication Log'"
    turns = "a message of the human or of a role"
    left_out = "nothing"

    def matches(self, value: Any) -> bool:
        return isinstance(value, Text) and "MetaGPT Agent Communication Log" in value[:4000]

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        messages = []
        for entry, body in entries_of(as_text(value, "a log of MetaGPT"), METAGPT):
            text = RULE.split(body)[0].strip()
            name = entry[2] or ""
            if name:
                text = SENT.sub("", text, count=1)
            elif found := NAMED.match(text):
                name, text = found[1], text[found.end() :]
            messages.append(agent_message(text, name or "agent", timestamp=entry[1]))
        yield make_trajectory(place, place.stem, messages, {})
