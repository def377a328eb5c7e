"""What makes two tool calls the same: the tool, and its arguments without cosmetic ones.

An argument is cosmetic by its name, such as `description`; or because it differs in every call
while the result depends on the others alone, which is learnt per tool. A tool may also declare the
arguments that count.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from zlib import crc32

from chimeralab.core.records import Call
from chimeralab.detection.calls import normalize_arguments, read_arguments

# Arguments that explain a call or name it, and do not change what it does.
COSMETIC = {
    *("description", "reason", "reasoning", "explanation", "explain", "thought", "thoughts"),
    *("thinking", "rationale", "justification", "intent", "call_id", "tool_call_id", "request_id"),
    *("trace_id", "timestamp", "security_risk", "task_progress"),
}
# Arguments that say what a call is about; these are never learnt to be cosmetic.
TOPICS = {
    *("command", "cmd", "script", "code", "path", "file_path", "filepath", "filename", "file"),
    *("target", "url", "query", "q", "pattern", "question", "prompt", "input", "text", "content"),
    *("name", "id", "key", "value", "page", "offset", "limit", "start", "end", "line", "cursor"),
}
COMMANDS = {"command", "cmd", "script", "code"}
VALUES = 3  # of an argument, with the same other arguments and the same result, before it is learnt
MAX_TOOLS, MAX_GROUPS = 64, 32  # remembered of a conversation, and of an argument


class Identities:
    """Which arguments of each tool count, as declared or as learnt in one conversation."""

    def __init__(self, declared: Mapping[str, Iterable[str]] | None = None) -> None:
        self._declared = {tool: tuple(names) for tool, names in (declared or {}).items()}
        self._learnt: dict[str, set[str]] = {}
        # By tool and argument: by the other arguments, the result and the values seen with it.
        self._seen: dict[str, dict[str, dict[str, tuple[str, list[str]]]]] = {}
        self._never: dict[str, set[str]] = {}

    def identify(self, call: Call) -> str:
        """A call by its name and the arguments that make it what it is.

        >>> Identities().identify(Call("bash", {"command": "ls", "description": "List the files"}))
        'bash {"command": "ls"}'
        >>> Identities({"open": ["path"]}).identify(Call("open", {"path": "a", "mode": "r"}))
        'open {"path": "a"}'
        """
        return f"{call.name} {normalize_arguments(self.essential(call))}"

    def essential(self, call: Call) -> Any:
        """The arguments of a call that count; all of them if none would be left."""
        arguments = read_arguments(call.arguments)
        if not isinstance(arguments, Mapping):
            return arguments
        if call.name in self._declared:
            names = self._declared[call.name]
            return {name: arguments[name] for name in names if name in arguments}
        cosmetic = COSMETIC | self._learnt.get(call.name, set())
        return {key: each for key, each in arguments.items() if key not in cosmetic} or arguments

    def learn(self, call: Call, result: str, *, is_query: bool) -> None:
        """Take in a call and its result without what always changes.

        Different questions may well have the same answer. So an argument is learnt only if the
        results depend on the others, or if these are a command that is run again.
        """
        arguments = self.essential(call)
        if not isinstance(arguments, Mapping) or len(arguments) < 2 or call.name in self._declared:
            return
        by_argument = self._seen.setdefault(call.name, {})
        never = self._never.setdefault(call.name, set())
        for name, value in arguments.items():
            if name in never or name in TOPICS or len(by_argument) > MAX_GROUPS:
                continue
            others = normalize_arguments({k: v for k, v in arguments.items() if k != name})
            groups = by_argument.setdefault(name, {})
            known, values = groups.setdefault(digest(others), (digest(result), []))
            if known != digest(result):
                never.add(name)
                by_argument.pop(name)
                continue
            if (given := digest(normalize_arguments(value))) not in values:
                values.append(given)
            runs = bool(COMMANDS & arguments.keys() and result) and not is_query
            if is_cosmetic(groups.values(), runs=runs):
                self._learnt.setdefault(call.name, set()).add(name)
                by_argument.pop(name)
            elif len(groups) > MAX_GROUPS:
                groups.pop(next(iter(groups)))
        if len(self._seen) > MAX_TOOLS:
            self._never.pop(next(iter(self._seen)), None)
            self._seen.pop(next(iter(self._seen)))


def is_cosmetic(groups: Iterable[tuple[str, list[str]]], *, runs: bool) -> bool:
    """Whether an argument changes nothing, by the results and the values seen with them.

    >>> is_cosmetic([("a", ["1", "2"]), ("b", ["3", "4"])], runs=False)
    True
    >>> is_cosmetic([("a", ["1", "2", "3", "4"])], runs=False)
    False
    """
    varied = [(result, values) for result, values in groups if len(values) > 1]
    if len({result for result, _ in varied}) > 1:
        return True
    return runs and any(len(values) >= VALUES for _, values in varied)


def digest(text: str) -> str:
    """A short text that stands for a long one in comparisons."""
    return f"{crc32(text.encode('utf-8', 'replace')):08x}{len(text):x}"
