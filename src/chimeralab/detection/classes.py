"""Classes of repetition among tool calls, each with its own evidence and patience.

The same call with the same result is a loop at the third time; waiting for a job is none at all.
Calls are compared by identity: the tool and its arguments without those that only explain. Results
are compared without what always changes: times, durations, ids, temporary paths.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from zlib import crc32

from chimeralab.core.records import Call
from chimeralab.detection.calls import (
    HEAD,
    has_failed,
    mask_volatile,
    normalize,
    normalize_arguments,
    read_arguments,
)
from chimeralab.detection.identity import Identities


class Patience(NamedTuple):
    """After how many repetitions a class is worth a notice, is a loop, and has to be stopped.

    None is never.
    """

    notice: int
    verdict: int | None
    stop: int | None


PATIENCE = {
    "tool": Patience(2, 3, 5),
    "failure": Patience(3, 5, 8),
    "no-news": Patience(4, 6, 10),
    "waiting": Patience(5, None, None),
    "test-fix": Patience(4, 6, 10),
    "undo": Patience(2, 3, 5),
    "reread": Patience(2, 3, None),
    "handover": Patience(2, 3, 5),
    "silence": Patience(3, 4, 8),
}
"""The classes by kind. One that comes earlier explains those after it."""
ADVISED = {"waiting": 10}  # repetitions after which a live guard advises without a verdict

WINDOW = 48  # calls that are compared
QUIET = 4  # calls without a repetition after which a loop has ended
MAX_READ = 512  # calls that are remembered for re-reading
MAX_STATES = 8  # of a file or value that are remembered
ROUND = 8  # calls: re-reading is judged over as many
MIN_REREAD = 6  # of a round
ALIKE = 0.7  # of the words of two commands or pieces of code that print nothing
NEWS = 3  # calls with news after which a search starts over
MAX_COMMAND = 4_000  # characters
SHORT_ANSWER = 200  # characters: an answer of more is not that nothing was found
MIN_ERROR_WORDS = 2  # fewer do not say what went wrong

_TARGETS = ("file_path", "path", "filepath", "filename", "file", "target_file", "notebook_path",
            "absolute_path", "target", "key", "name", "field", "url", "id")  # fmt: skip
_OLD = ("old_string", "old_str", "old_text", "old", "search", "from")
_NEW = ("new_string", "new_str", "new_text", "new", "replace", "content", "file_text", "value",
        "contents", "code", "text", "to")  # fmt: skip
_COMMANDS = ("command", "cmd", "script", "code")

_CHANGES = re.compile(
    r"edit|write|replace|patch|insert|create|update|delete|remove|move|rename|set|add|save|append"
    r"|submit|send|post|put|book|cancel|fill|click|type|press|select|apply|undo|install|open_new",
    re.IGNORECASE,
)
_CHANGING_COMMAND = re.compile(
    r"\bsed -i|>{1,2} ?(?!/dev/null)[\w./~$\"'-]|\btee\b|\bapply_patch\b|str_replace|\.write"
    r"|\bgit (?:apply|checkout|commit|stash|reset|add|merge)"
    r"|(?<![-\w])(?:mv|cp|rm|mkdir|touch|chmod|patch)\b"
    r"|\b(?:pip|npm|apt\S*|cargo|go) (?:install|i|add|get)\b",
)
_CHANGING_CODE = re.compile(
    r"\.write|\bopen\(|\b(?:os|shutil|subprocess|requests)\.|\.(?:save|to_)"
)
_WAITS = re.compile(
    r"status|wait|sleep|poll|progress|(?:^|_)(?:logs?|tail)(?:$|_)|bash_?output|scroll|health|heartbeat"
    r"|monitor|watch|await|queue|(?:^|_)jobs?(?:$|_)|\bping",
    re.IGNORECASE,
)
_WAITING_COMMAND = re.compile(
    r"\bsleep [\d.$]|\bkubectl (?:get|logs|rollout)|\bdocker (?:ps|logs)|\bgh (?:run|pr checks)"
    r"|\bsqueue\b|\bnvidia-smi\b|\btail -|\bwait\b|\bsystemctl status|\bps (?:aux|-)|\btimeout \d"
)
_ASKS = re.compile(
    r"search|find|grep|glob|query|look_?up|fetch|get|list|read|browse|retriev|ask|view|recall"
    r"|select|check|visit|navigate|open|cat\b|\brg\b|\bls\b",
    re.IGNORECASE,
)
_ASKING_COMMAND = re.compile(
    r"^\s*(?:cd [^&;]+(?:&&|;) *)?(?:grep|rg|find|ls|cat|git (?:log|grep))"
)
_SEARCHING = re.compile(r"search|find|grep|glob|query|\brg\b", re.IGNORECASE)
_PLANS = re.compile(r"todo|plan|task_?list", re.IGNORECASE)
_HANDS_OVER = re.compile(
    r"transfer|hand_?off|hand_?over|delegate|route_to|pass_to|escalate", re.IGNORECASE
)
_NOTHING_FOUND = re.compile(
    r"^\W*(?:(?:there (?:are|were) )?(?:no|zero|0)\b[\w\s'\"]{0,40}"
    r"\b(?:results?|match\w*|files?|entries|data|records?|hits|rows|documents?|items?|content)\b"
    r"|(?:found 0|nothing|none|null|empty|not found|no output|undefined)\b)"
    r"|^[\[\]{}()\s]*$",
    re.IGNORECASE,
)
_INFRASTRUCTURE = re.compile(
    r"\b(?:429|50[0234])\b|too many requests|rate.?limit|quota|time[d ]?.?out|overloaded"
    r"|connection (?:refused|reset|aborted|error)|temporarily unavailable|service unavailable"
    r"|bad gateway|econnre|etimedout|try again later|network is unreachable",
    re.IGNORECASE,
)
# A page without the element that a click waits for will not have it later.
_MISSING = re.compile(r"wait(?:ing|ed)? for (?:the )?(?:element|selector|locator|button)", re.I)
_NO_FAILURE = re.compile(
    r"\b(?:no|0|zero|without(?: any)?) (?:[\w-]+ (?:or |and )?){0,3}?"
    r"(?:errors?|failures?|failed|exceptions?|problems?)\b",
    re.IGNORECASE,
)
_DIFF = re.compile(r"^(?:```diff|@@ -\d)", re.MULTILINE)  # of which the words are not its outcome
# What differs between two accounts of one error: what is quoted, where it is, and numbers.
_PARTICULARS = re.compile(
    r"\"[^\"\n]{1,200}\"|'[^'\n]{1,200}'|`[^`\n]{1,200}`|[\w.~-]*[/\\][\w./\\~-]+|\b\w+\.\w{1,5}\b"
    r"|\b\w*\d\w*\b"
)
# How a command is run and how its output is shown, which changes nothing of what it does.
_REDIRECTION = re.compile(r"(?:\d|&)?>{1,2} ?&?[\w./~$-]+|<\s*/dev/null")
_PLUMBING = re.compile(
    r"(?:cd|echo|export|set|source|printf|true|head|tail|cat|tee|less|more|wc|sleep)\b[^\n]*"
    r"|\S*\$\?\S*"
)
_WRAPPED = re.compile(r"^(?:(?:\w+=\S+|exec|time|nohup|sudo|timeout(?: -\S+)* \S+) +)+")
_SHOWS_OUTPUT = re.compile(r"2>&1|\| *(?:tail|head|cat|tee|wc|less)\b|\$\?|; *(?:cat|tail)\b")
_EXIT_STATUS = re.compile(
    r"^\W*\w*(?:\b|_)(?:rc|exit|status|code|returncode|exit_?code|exit_?status)\W*\d+\W*(?:\w+\W*)?$"
    r"|^\s*</?\w+>\s*$|^\W*$",
    re.IGNORECASE | re.MULTILINE,
)
_TIMES_SEEN = re.compile(r"\b\d+ ?(?:×|x|times?)\b|/tmp/[\w./-]+|\bline \d+\b|:\d+(?::\d+)?\b")


class ToolStep(NamedTuple):
    """A tool call as later ones are compared with it.

    `result` is without what changes each time; `answer` is as it was given. A command has a `core`,
    and is `silent` if it was to show its output and there was none.
    """

    number: int
    tool: str
    identity: str
    result: str
    answer: str
    failed: bool
    error: str
    changes: bool
    waits: bool
    asks: bool
    is_new: bool
    core: str
    silent: bool


class Repetition(NamedTuple):
    """How often a class has been seen up to this call, since which, and which it repeats."""

    kind: str
    times: float
    first: int
    near: tuple[int, ...]
    period: int = 1


class StepLog:
    """The last calls of a conversation, compared by every class."""

    def __init__(self, declared: Mapping[str, Iterable[str]] | None = None) -> None:
        self.identities = Identities(declared)
        self._described: tuple[Call, ToolStep] | None = None
        self._steps: deque[ToolStep] = deque(maxlen=WINDOW)
        self._read: dict[str, list[Any]] = {}  # identity: result, times, number of the first
        self._round: deque[tuple[str, int, int]] = deque(maxlen=ROUND)
        self._edits: dict[str, tuple[list[str], list[int]]] = {}  # target: states, returns
        self._handed: list[tuple[int, str]] = []

    def add(self, number: int, call: Call) -> list[Repetition]:
        """Take in a call with its result; return what it repeats, by class.

        Nothing can be said of a change whose arguments the log does not have.
        """
        unknown = call.result is None or _CHANGES.search(call.name)
        if call.arguments is None and call.error is None and unknown:
            self._steps.append(unknown_step(number, call.name))
            return []
        step, hands_on = self.describe(number, call), hands_over(call.name)
        found = [
            *(self._find_waiting(step) if step.waits else () if hands_on else self._compare(step)),
            *self._find_undo(step, call),
            *self._find_rereading(step),
            *(self._find_handover(step, call) if hands_on else ()),
        ]
        if step.is_new and not hands_on:
            self._handed.clear()
        self._steps.append(step)
        self._described = None
        if not (step.changes or step.waits):
            self.identities.learn(call, step.result, is_query=step.asks)
        return sorted(found, key=lambda each: tuple(PATIENCE).index(each.kind))

    def record_news(self) -> None:
        """Record that somebody said something new: what was handed over has been worked on."""
        self._handed.clear()

    def describe(self, number: int, call: Call) -> ToolStep:
        """A call as later ones are compared with it; that before `add` is kept for it."""
        if self._described and self._described[0] is call:
            return self._described[1]
        arguments = read_arguments(call.arguments)
        action, command = action_of(arguments), command_of(arguments)
        tool = name_of_tool(call.name, action or command)
        result, answer = stable(call.result), normalize(call.result)
        nothing = 0 < len(result) <= SHORT_ANSWER and bool(_NOTHING_FOUND.search(result))
        shown = _DIFF.split((call.result or "")[:MAX_COMMAND], maxsplit=1)[0]
        told = _NO_FAILURE.sub("", shown)
        failed = has_failed(Call("", None, told, call.error)) and not (
            nothing and call.error is not True
        )
        error = _PARTICULARS.sub("#", result[:HEAD].replace(call.name, "#")) if failed else ""
        broken = failed and bool(_INFRASTRUCTURE.search(result[:HEAD]))
        broken = broken and not _MISSING.search(result[:HEAD])
        verb, ran = action or call.name, command and not action
        is_code = isinstance(arguments, Mapping) and "code" in arguments
        changing = _CHANGING_CODE if is_code else _CHANGING_COMMAND
        changes = bool(changing.search(command) if ran else _CHANGES.search(verb))
        waits = bool(_WAITING_COMMAND.search(command) if ran else _WAITS.search(verb)) or broken
        asks = bool(_ASKING_COMMAND.search(command) if ran else _ASKS.search(verb))
        searches = bool(_SEARCHING.search(command if ran else verb))
        if _PLANS.search(call.name) and isinstance(arguments, Mapping):
            result = answer = progress_of(arguments)
            changes, waits, asks, failed = False, False, True, False
        identity = self.identities.identify(call)
        known = any(each.identity == identity for each in self._steps)
        seen = not changes and any(each.result == result for each in self._steps)
        is_new = bool(result) and not failed and not known and not seen and not nothing
        asks = asks and (bool(result) or (searches and call.result is not None))
        core = core_of(command) if ran else ""
        core = "" if changing.search(core) else core
        said = _EXIT_STATUS.sub("", (call.result or "")[:HEAD]).strip()
        is_new = is_new and bool(said)
        shows = _SHOWS_OUTPUT.search(command) or ("\n" in command and not changes)
        silent = bool(core and shows) and not (said or failed or call.result is None)
        step = ToolStep(
            *(number, tool, identity, result, answer, failed, error),
            *(changes, waits, asks or nothing, is_new, core, silent),
        )
        self._described = call, step
        return step

    def _compare(self, step: ToolStep) -> Iterator[Repetition]:
        yield from self._find_same_call(step)
        if step.failed and len(step.error.replace("#", " ").split()) >= MIN_ERROR_WORDS:
            yield from self._find_same_failure(step)
        if step.asks and not step.failed and not step.changes:
            yield from self._find_same_answer(step)

    def _find_same_call(self, step: ToolStep) -> Iterator[Repetition]:
        """The same call with the same result, or the same failing check after different edits."""
        same, checks = list[int](), list[int]()
        weight, news, changed = 0.0, 0, False
        between = set[str]()
        edits = Counter(each.identity for each in self._steps if each.changes)
        for earlier in reversed(self._steps):
            if not _is_same_call(earlier, step):
                between.add(earlier.identity)
            elif len(between) > ROUND:  # a set that is read again, which is another class
                break
            else:
                between.clear()
                silent = earlier.silent and step.silent
                if not silent and (earlier.result, earlier.failed) != (step.result, step.failed):
                    break
                if changed and not (step.failed or silent):
                    break  # what worked is checked again after an edit
                if step.failed and (changed or checks):
                    if (checks or [step.number])[-1] - earlier.number > 2 * ROUND:
                        break  # other work was done in between
                    checks.append(earlier.number)
                else:
                    failed = step.failed or silent
                    weight += 0.5**news if not failed else 1.0 if news <= 1 else 0.5
                    same.append(earlier.number)
                changed = False
                continue
            again = not step.failed and edits[earlier.identity] > 1
            changed = changed or (earlier.changes and not (earlier.failed or again))
            news += earlier.is_new
        if same:
            # An unknown or empty result proves little, unless output was asked for.
            weight = weight if step.result or step.silent else weight / 2
            period = step.number - same[0]
            yield Repetition("tool", 1 + weight, same[-1], tuple(same[:2]), period)
        if checks:
            yield Repetition("test-fix", 1 + len(checks), checks[-1], tuple(checks[:2]))

    def _find_same_failure(self, step: ToolStep) -> Iterator[Repetition]:
        """The same error after calls with other arguments; the tool has not worked in between."""
        failures = list[ToolStep]()
        for earlier in reversed(self._steps):
            last = failures[-1].number if failures else step.number
            worked = earlier.tool == step.tool and not earlier.failed
            if worked or last - earlier.number > ROUND:
                break
            if earlier.failed and earlier.error == step.error:
                failures.append(earlier)
        if any(each.identity != step.identity for each in failures):
            numbers = [each.number for each in failures]
            yield Repetition("failure", 1 + len(numbers), numbers[-1], tuple(numbers[:2]))

    def _find_same_answer(self, step: ToolStep) -> Iterator[Repetition]:
        """The same answer to other questions."""
        answers, news = list[int](), 0
        for earlier in reversed(self._steps):
            news += earlier.is_new
            if news >= NEWS or (earlier.tool == step.tool and earlier.answer != step.answer):
                break
            if earlier.tool == step.tool and earlier.identity != step.identity:
                answers.append(earlier.number)
        if answers:
            yield Repetition("no-news", 1 + len(answers), answers[-1], tuple(answers[:2]))

    def _find_waiting(self, step: ToolStep) -> Iterator[Repetition]:
        """The same state again, or the same trouble with a server, which has not worked since."""
        near = []
        for earlier in reversed(self._steps):
            if earlier.tool != step.tool:
                continue
            if not earlier.waits:
                if step.failed and not earlier.failed:
                    break
                continue
            if earlier.result != step.result and not (step.failed and earlier.failed):
                break
            near.append(earlier.number)
        if near:
            yield Repetition("waiting", 1 + len(near), near[-1], tuple(near[:2]))

    def _find_undo(self, step: ToolStep, call: Call) -> Iterator[Repetition]:
        """An edit that restores what an earlier one had changed."""
        edit = read_edit(read_arguments(call.arguments)) if step.changes else None
        if edit is None:
            return
        target, old, new = edit
        states, returns = self._edits.pop(f"{call.name} {target}", ([], []))
        state, opposite = _digest(f"{old}\0{new}"), _digest(f"{new}\0{old}")
        if not states or states[-1] != state:  # else the same edit again, which is another class
            known = [each for each in (state, opposite) if each in states]
            returns = [*returns, step.number] if known else []
            states = [*states, state][-MAX_STATES:]
        self._edits[f"{call.name} {target}"] = states, returns
        if len(self._edits) > WINDOW:
            self._edits.pop(next(iter(self._edits)))
        if returns and returns[-1] == step.number:
            near = tuple(returns[-2:-1])
            yield Repetition("undo", len(returns), returns[0], near, 2)

    def _find_rereading(self, step: ToolStep) -> Iterator[Repetition]:
        """A set of files or queries that is read again as a whole."""
        if step.changes or step.waits or step.failed or not step.result:
            return
        result = _digest(step.answer)
        known = self._read.pop(step.identity, None)
        if known is None or known[0] != result:
            known = [result, 0, step.number]
        known[1] += 1
        self._read[step.identity] = known
        if len(self._read) > MAX_READ:
            self._read.pop(next(iter(self._read)))
        if any(identity == step.identity for identity, *_ in self._round):
            return
        self._round.append((step.identity, known[1], known[2]))
        times = sorted((seen for _, seen, _ in self._round), reverse=True)
        if len(times) >= MIN_REREAD and times[MIN_REREAD - 1] >= 2:
            again = [first for _, seen, first in self._round if seen >= times[MIN_REREAD - 1]]
            near = (known[2],) if known[2] < step.number else ()
            yield Repetition("reread", times[MIN_REREAD - 1], min(again), near)

    def _find_handover(self, step: ToolStep, call: Call) -> Iterator[Repetition]:
        """The same agents that pass work to each other, with nothing done in between."""
        arguments = read_arguments(call.arguments)
        keys = ("to", "agent", "agent_name", "recipient", "target", "assignee", "coworker")
        named = arguments if isinstance(arguments, Mapping) else {}
        target = next((str(named[key]) for key in keys if key in named), "")
        self._handed.append((step.number, f"{call.name} {target}"))
        del self._handed[:-WINDOW]
        targets = [each for _, each in self._handed]
        for period in (2, 3):
            alike = 0
            while alike + period < len(targets) and (
                targets[-1 - alike] == targets[-1 - alike - period]
            ):
                alike += 1
            rounds = (alike + period) // period
            if rounds >= 2 and len(set(targets[-period:])) == period:
                first = self._handed[-alike - period][0]
                near = (self._handed[-1 - period][0],)
                yield Repetition("handover", rounds, first, near, period)
                return


def hands_over(tool: str) -> bool:
    """Whether a tool passes work to another agent, by its name."""
    return bool(_HANDS_OVER.search(tool))


def unknown_step(number: int, tool: str) -> ToolStep:
    """A change of which the log does not have the arguments: work, and unlike any other."""
    return ToolStep(
        *(number, tool, f"{tool} {number}?", "", "", False, ""),
        *(True, False, False, True, "", False),
    )


def _is_same_call(earlier: ToolStep, step: ToolStep) -> bool:
    """Whether two calls do the same; the output of a command may be shown in another way.

    Where both said nothing, most of the words are enough.
    """
    if not step.core or earlier.tool != step.tool:
        return earlier.identity == step.identity
    if not (earlier.silent and step.silent):
        return earlier.core == step.core
    one, other = set(earlier.core.split()), set(step.core.split())
    return len(one & other) >= ALIKE * max(len(one), len(other))


def name_of_tool(name: str, command: str) -> str:
    """The tool; for a shell with its program, so that `ls` does not stand for `pytest`.

    >>> name_of_tool("bash", "cd /repo && python -m pytest -q"), name_of_tool("search", "")
    ('bash python -m pytest', 'search')
    """
    words = re.sub(r"^\s*(?:cd [^&;]*(?:&&|;)|\w+=\S+)\s*", "", command).split()
    if not words:
        return name
    head = words[:3] if words[0].startswith("python") and "-m" in words[1:2] else words[:1]
    return f"{name} {' '.join(head)}"


def action_of(arguments: Any) -> str:
    """What a tool of many uses is asked to do, or nothing.

    >>> action_of({"action": "scroll_down", "amount": 500}), action_of({"command": "ls -l"})
    ('scroll_down', '')
    """
    if not isinstance(arguments, Mapping):
        return ""
    named = (arguments.get(key) for key in ("action", "command", "operation", "method"))
    return next((each for each in named if isinstance(each, str) and each.isidentifier()), "")


def command_of(arguments: Any) -> str:
    """The command that a shell or interpreter is given, or nothing."""
    if isinstance(arguments, str):
        return arguments
    if isinstance(arguments, Mapping):
        found = next((arguments[key] for key in _COMMANDS if key in arguments), "")
        return " ".join(map(str, found)) if isinstance(found, list) else str(found or "")
    return ""


def core_of(command: str) -> str:
    """What a command does, without how it is run and how its output is shown.

    >>> core_of('cd /src && JDK=17 mvn test > out.txt 2>&1; echo "EXIT=$?"; tail -50 out.txt')
    'mvn test'
    >>> core_of("docker run img -c 'cd /w; mvn test' | head"), core_of("cat a.txt | head")
    ('docker run img -c; mvn test', '')
    """
    if "<<" in command:  # a file that is written
        return ""
    parts = re.split(r"&&|\|\|?|;|'|\"|\n", _REDIRECTION.sub(" ", command[:MAX_COMMAND]))
    kept = (_WRAPPED.sub("", " ".join(part.split())) for part in parts)
    return "; ".join(part for part in kept if part and not _PLUMBING.fullmatch(part))


def read_edit(arguments: Any) -> tuple[str, str | None, str] | None:
    """What an edit changes, from what to what; None for arguments that do not say so.

    >>> read_edit({"path": "a.py", "old_str": "x = 1", "new_str": "x = 2"})
    ('a.py', 'x = 1', 'x = 2')
    """
    if not isinstance(arguments, Mapping):
        return None
    target = next((str(arguments[key]) for key in _TARGETS if arguments.get(key)), None)
    new = next((normalize(str(arguments[key])) for key in _NEW if key in arguments), None)
    old = next((normalize(str(arguments[key])) for key in _OLD if key in arguments), None)
    return (target, old, new) if target and new is not None and new != old else None


def progress_of(arguments: Mapping[str, Any]) -> str:
    """How far a plan has come: the states of its items.

    >>> progress_of({"todos": [{"content": "Read", "status": "done"}, {"content": "Write"}]})
    'plan: done, ?'
    """
    items = next((value for value in arguments.values() if isinstance(value, list)), [])
    states = [str(each.get("status", "?")) if isinstance(each, Mapping) else "?" for each in items]
    return f"plan: {', '.join(states)}" if states else f"plan: {normalize_arguments(arguments)}"


def stable(result: str | None) -> str:
    """A result without what changes each time.

    >>> stable("a.py:12: failed in 0.31 s (read 7x this session)")
    'a.py#: failed in # (read # this session)'
    """
    return _TIMES_SEEN.sub("#", mask_volatile(result))


def _digest(text: str) -> str:
    return f"{crc32(text.encode('utf-8', 'replace')):08x}{len(text):x}"
