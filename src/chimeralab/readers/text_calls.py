"""Tool calls that agents write into their text, answered by the text of the next message.

Most published agent data look like this. A conversation counts as one only if its calls are
answered as calls, or if the agent writes them again and again: prose that shows an example of a
call stays prose. A log that has calls of its own is left alone.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from chimeralab.core.records import RESULT_ROLES, Call, Trajectory, Turn, role_of_turn
from chimeralab.readers.seam import CALLS_READ, first_present, try_json, try_literal


class WrittenCall(NamedTuple):
    """A call and the part of the text that it takes up."""

    start: int
    end: int
    call: Call


Find = Callable[[str], Iterator[WrittenCall]]

MAX_CALLS = 1000  # in one message
DECODER = json.JSONDecoder()
LINE = re.compile(r"^", re.MULTILINE)
FENCE = re.compile(r"^[ \t]*(```|~~~)", re.MULTILINE)
FUNCTION = re.compile(
    r"(?:<tool_call>\s*)?<function=([\w.:-]+)>(.*?)"
    r"(?:</function>(?:\s*</tool_call>)?|(?=<function=)|\Z)",
    re.DOTALL,
)
PARAMETER = re.compile(r"<parameter=([^>\s]+)>(.*?)(?:</parameter>|(?=<parameter=)|\Z)", re.DOTALL)
JSON_TAG = re.compile(r"<(tool_call|function_call|tool_use)>\s*(?=\{)|\[tool_use:([\w.:-]+) (?=\{)")
CODE_TAG = re.compile(r"<(execute(?:_bash|_ipython|_browse)?)>")
# Tools as elements with their parameters inside, such as those of Cline.
TOOL_TAG = re.compile(r"^<([a-z]\w*_\w+)>(?=\s*<\w+>)", re.MULTILINE)
TAG = re.compile(r"<(\w+)>")
BLOCK = re.compile(r"^[ \t]*```(\w*)[ \t]*$", re.MULTILINE)
CODE = frozenset({
    "", "bash", "sh", "shell", "zsh", "console", "python", "py", "sql", "powershell",
    "mswea_bash_command",
})  # fmt: skip
LABEL = re.compile(
    r"^[ \t]*(?:\*\*)?(THOUGHT|Thought|Think|THINK|ACTION|Action|Act|ACT|Action Input|ACTION INPUT"
    r"|OBSERVATION|Observation|Final Answer|FINAL ANSWER)(?:\*\*)?[ \t]*\d*[ \t]*:(?:\*\*)?[ \t]*",
    re.MULTILINE,
)
ACTIONS = ("action", "act")
INVOCATION = re.compile(r"([\w.-]+)\s*\((.*)\)\s*\Z", re.DOTALL)

# How programs begin the answer to a call.
ANSWER = re.compile(
    r"(?:observation\b[^\n]{0,20}:|execution results?\b[^\n]{0,60}:|command output:"
    r"|the output of the (?:os|command|code)\b|tool (?:result|output|response)\b[^\n]{0,40}:"
    r"|<(?:returncode|output|tool_response|tool_result|observation|function_results?|stdout)>"
    r"|\[[\w-]+(?: for [^\n]*)?\] result:|ran\b[^\n]{0,80}\bcommand:|exitcode: \d+ \(execution)",
    re.IGNORECASE,
)
SHELL_PROMPT = re.compile(r"\(Current directory: [^\n]*\)\s*(?:bash-\$)?\Z")
SURROUNDINGS = "<environment_details>"  # the state of the editor, with the time
TAIL = 400  # characters that are searched for the prompt of a shell
LAST_CALLS = frozenset({"finish", "submit", "answer", "attempt_completion", "exit", "done"})


def find_functions(text: str) -> Iterator[WrittenCall]:
    for found in FUNCTION.finditer(text):
        arguments = {name: value.strip("\n") for name, value in PARAMETER.findall(found[2])}
        yield WrittenCall(*found.span(), Call(found[1], arguments))


def find_json_calls(text: str) -> Iterator[WrittenCall]:
    unclosed = set[str]()
    for found in islice(JSON_TAG.finditer(text), MAX_CALLS):
        try:
            given, end = DECODER.raw_decode(text, found.end())
        except (ValueError, RecursionError):  # some print it as Python does
            end = -1 if found[1] in unclosed else text.find(f"</{found[1]}>", found.end())
            given = try_literal(text[found.end() : end]) if end >= 0 else None
            if end < 0:
                unclosed.add(found[1])
        if not isinstance(given, dict):
            continue
        closing = re.compile(rf"\s*</{found[1]}>" if found[1] else r"\]").match(text, end)
        end = closing.end() if closing else end
        if found[2]:
            yield WrittenCall(found.start(), end, Call(found[2], given))
        elif isinstance(given.get("name"), str):
            arguments = first_present(given, "arguments", "parameters", "input", "args")
            yield WrittenCall(found.start(), end, Call(given["name"], arguments))


def _elements(
    text: str, opening: re.Pattern[str], *, may_be_cut: bool = False
) -> Iterator[tuple[int, int, str, str]]:
    """Yield the elements that open and close: their start, end, name and content.

    A program may cut an agent off in its call; then the element goes to the end of the text.
    """
    end, unclosed = 0, set[str]()
    for found in opening.finditer(text):
        name = found[1]
        if found.start() < end or name in unclosed:
            continue
        closing = text.find(f"</{name}>", found.end())
        if closing < 0 and may_be_cut:
            yield found.start(), len(text), name, text[found.end() :]
            return
        if closing < 0:
            unclosed.add(name)
            continue
        end = closing + len(name) + 3
        yield found.start(), end, name, text[found.end() : closing]


def find_code_tags(text: str) -> Iterator[WrittenCall]:
    for start, end, name, code in _elements(text, CODE_TAG):
        yield WrittenCall(start, end, Call(name, code.strip()))


def find_elements(text: str) -> Iterator[WrittenCall]:
    for start, end, name, content in _elements(text, TOOL_TAG, may_be_cut=True):
        cut = end == len(text) and not text.endswith(f"</{name}>")
        parameters = _elements(content, TAG, may_be_cut=cut)
        inner = {key: value.strip("\n") for _, _, key, value in parameters}
        yield WrittenCall(start, end, Call(name, inner))


def find_actions(text: str) -> Iterator[WrittenCall]:
    """Find actions after a label, up to the next label; an observation may follow in the text."""
    labels = list(LABEL.finditer(text))
    ends = [label.start() for label in labels[1:]] + [len(text)]
    fields = [
        (label[1].lower(), label.start(), end, text[label.end() : end].strip())
        for label, end in zip(labels, ends, strict=False)
    ]
    for n, (name, start, stop, action) in enumerate(fields):
        if name not in ACTIONS or not action:
            continue
        end = stop
        after = {key: (given, last) for key, _, last, given in reversed(fields[n + 1 : n + 3])}
        first = action.split(maxsplit=1)[0].strip("`")
        blocks, made = list(find_code_block(action)), INVOCATION.match(action)
        if "action input" in after:
            given, end = after["action input"]
            call = Call(action.strip("`* "), try_json(given) or given)
        elif blocks:
            call = Call(first, blocks[-1].call.arguments)
        else:
            call = Call(made[1], made[2]) if made else Call(first, action)
        if "observation" in after:
            seen, end = after["observation"]
            call = replace(call, result=seen)
        yield WrittenCall(start, end, call)


def find_code_block(text: str) -> Iterator[WrittenCall]:
    """Find the last block of code in a text."""
    opening, last = None, None
    for line in BLOCK.finditer(text):
        if opening is None or line[1]:
            opening = line
        else:
            last, opening = (opening, line), None
    if last is not None and last[0][1] in CODE:
        first, closing = last
        code = text[first.end() : closing.start()].strip("\n")
        yield WrittenCall(first.start(), closing.end(), Call(first[1] or "bash", code))


TAGGED: tuple[tuple[Find, str], ...] = (
    (find_functions, "<function="),
    (find_json_calls, "<tool_call>"),
    (find_code_tags, "<execute"),
    (find_elements, "</"),
)
"""Dialects with a syntax of their own, and the mark by which instructions show it."""


def outside_code(text: str, calls: Iterator[WrittenCall]) -> list[WrittenCall]:
    """Return the calls that are not in a block of code, where they would be an example."""
    kept, at, in_code = [], 0, False
    for call in calls:
        in_code ^= len(FENCE.findall(text, at, call.start)) % 2 == 1
        at = call.end
        if not in_code:
            kept.append(call)
    return kept


def is_answer(text: str) -> bool:
    """Whether a message begins like the answer of a program.

    >>> is_answer("OBSERVATION:\\na.txt"), is_answer("Thanks, that worked.")
    (True, False)
    """
    return bool(ANSWER.match(text.lstrip()) or SHELL_PROMPT.search(text[-TAIL:].rstrip()))


def read_calls(trajectory: Trajectory) -> Trajectory:
    """Turn the calls that an agent wrote into its text, and their answers, into calls."""
    turns = trajectory.turns
    if any(turn.calls for turn in turns):
        return trajectory
    found = find_calls(turns)
    if not found:
        return trajectory
    changed = list(turns)
    # An environment answers nearly every call, with any text; a user answers few.
    is_environment = 2 * sum(_answer_at(turns, at) is not None for at in found) >= len(found)
    for at, calls in found.items():
        answer = _answer_at(turns, at)
        if answer is not None and answer.text.rstrip().endswith(SURROUNDINGS.replace("<", "</")):
            answer = replace(answer, text=answer.text.rpartition(SURROUNDINGS)[0].rstrip())
        any_text = is_environment and calls[-1].call.name not in LAST_CALLS
        if answer is not None and (any_text or is_answer(answer.text)):
            changed[at + 1] = replace(answer, role="tool", speaker="tool", spoken=False)
        else:
            answer = None
        made = list(split_answer([each.call for each in calls], answer))
        rest = "".join(
            turns[at].text[start:end]
            for start, end in zip(
                [0, *(call.end for call in calls)],
                [*(call.start for call in calls), len(turns[at].text)],
                strict=True,
            )
        ).strip()
        spoken = turns[at].spoken and bool(rest)
        changed[at] = replace(turns[at], text=rest, spoken=spoken, calls=tuple(made))
    total = sum(map(len, found.values()))
    metadata = {**trajectory.metadata, CALLS_READ: total}
    return replace(trajectory, turns=tuple(changed), metadata=metadata)


def _answer_at(turns: Sequence[Turn], at: int) -> Turn | None:
    """Return the message after an agent's, unless it is another of the agent's."""
    after = turns[at + 1] if at + 1 < len(turns) else None
    is_other = after is not None and role_of_turn(after) in {"user", "environment", *RESULT_ROLES}
    return after if is_other else None


def split_answer(calls: list[Call], answer: Turn | None) -> Iterator[Call]:
    """Give each call its part of an answer, or else all of it to the last."""
    results: list[str | None] = [None] * len(calls)
    if answer is not None:
        lines = LINE.finditer(answer.text) if len(calls) > 1 else ()
        starts = [line.start() for line in lines if ANSWER.match(answer.text, line.start())]
        if len(starts) == len(calls):
            ends = [*starts[1:], len(answer.text)]
            results = [answer.text[a:b].strip() for a, b in zip(starts, ends, strict=True)]
        else:
            results[-1] = answer.text
    for call, result in zip(calls, results, strict=True):
        yield call if result is None or call.result is not None else replace(call, result=result)


def find_calls(turns: Sequence[Turn]) -> dict[int, list[WrittenCall]]:
    """Find the calls of a conversation by the position of the turn that makes them."""
    agent = [n for n, turn in enumerate(turns) if _is_agent(turn)]
    others = [turn.text for turn in turns if not _is_agent(turn)]
    answered = {
        n for n in agent if (answer := _answer_at(turns, n)) is not None and is_answer(answer.text)
    }
    found: dict[int, list[WrittenCall]] = {}
    tagged: dict[int, list[WrittenCall]] = {}
    for find, mark in TAGGED:
        calls = {n: outside_code(turns[n].text, find(turns[n].text)) for n in agent}
        calls = {n: made for n, made in calls.items() if made and n not in tagged}
        tagged |= calls
        ending = [n for n, made in calls.items() if not turns[n].text[made[-1].end :].strip()]
        told = find is not find_elements and any(mark in text for text in others)
        if answered & calls.keys() or (told and ending) or _is_habit(ending, agent):
            found |= calls
    labelled = {n: list(find_actions(turns[n].text)) for n in agent if n not in found}
    labelled = {n: made for n, made in labelled.items() if made}
    told = any(label[1].lower() in ACTIONS for text in others for label in LABEL.finditer(text))
    many = 3 * len(labelled) >= len(agent)  # fewer are words of prose
    if answered & labelled.keys() or (told and many) or _is_habit(labelled, agent):
        found |= labelled
    fenced = {n: list(find_code_block(turns[n].text)) for n in agent if n not in found}
    fenced = {n: made for n, made in fenced.items() if made}
    run = {n: made for n, made in fenced.items() if n in answered}
    if run and 2 * len(run) >= len(fenced):  # the last block was to be run, too
        run |= {n: made for n, made in fenced.items() if n == agent[-1]}
    found |= run
    # Once an agent is known to write calls, a call that ends a message is one.
    return found | {n: made for n, made in tagged.items() if found and n not in found}


def _is_agent(turn: Turn) -> bool:
    """Whether a turn is the assistant's, or that of one of a team of agents."""
    return role_of_turn(turn) == "assistant" or (turn.agent is not None and turn.role is None)


def _is_habit(some: Sequence[int] | dict[int, Any], agent: list[int]) -> bool:
    """Whether at least two of an agent's messages, and half of them, make calls."""
    return len(some) > 1 and 2 * len(some) >= len(agent)
