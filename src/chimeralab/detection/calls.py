"""Tool calls that bring nothing new: the same call with the same result, or the same failure."""

import json
import re
from collections import deque
from typing import Any, NamedTuple

from chimeralab.core.records import Call

# A result whose head says one of these failed, where the format of the log does not tell.
_FAILED = re.compile(
    r"\b(?:\w*errors?|\w*exception|traceback|fail(?:ed|ure|s)?|not found|no such|cannot|"
    r"can't|unable|"
    r"invalid|unexpected|denied|forbidden|refused|rejected|unauthori[sz]ed|not allowed|"
    r"not permitted"
    r"|expired|unavailable|unreachable|too many requests|rate limit(?:ed)?|quota|"
    r"not respond(?:ing)?|timed out|timeout|"
    r"fatal|abort(?:ed)?|panic(?:ked)?|crash(?:ed)?|do(?:es)?(?: not|n't) exist|bad request)\b"
    r"|^\W*[45]\d\d\b|\b(?:http|status|code)\W{1,4}[45]\d\d\b",
    re.IGNORECASE,
)
# What changes from one answer to the next without any news: times, durations, ids.
_VOLATILE = re.compile(
    r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\b\d\d?:\d\d:\d\d(?:\.\d+)?"
    r"|\b\d+(?:\.\d+)? ?(?:ns|us|µs|ms|s|secs?|seconds?)\b"
    r"|\b0x[0-9a-f]+\b"
    r"|\b(?=[\w-]*\d)(?=[\w-]*[a-z])[\w-]{6,}\b",
    re.IGNORECASE,
)
HEAD = 400  # characters of a result in which a failure is looked for, and compared
LONGEST = 20_000  # characters; what is longer is compared by its hash


class Made(NamedTuple):
    """A call as it is compared with later ones."""

    number: int
    name: str
    arguments: str
    result: str
    steady: str
    failed: bool
    is_new: bool


class CallLog:
    """The last calls of a conversation, and the last results of its tools."""

    def __init__(self, window: int) -> None:
        self._made: deque[Made] = deque(maxlen=window)
        self._results: deque[str] = deque(maxlen=window)

    def heard(self, result: str | None) -> bool:
        """Take in a tool's result; whether it is something new, and not a failure."""
        text = same_text(result)
        if not text or text in self._results:
            return False
        self._results.append(text)
        return not _FAILED.search(text[:HEAD])

    def add(self, number: int, call: Call) -> tuple[float, tuple[int, ...], bool, int]:
        """Take in a call and its result, and say how much it repeats: 2 is enough for a loop.

        Then come the numbers of the calls that it repeats, whether it failed, and the period.

        The same call with the same result counts 1, and half where only times and ids differ; the
        same failure of the same tool with other arguments counts half. What lies behind a new call
        that was answered counts less, since work may have been done between: by half for each, or
        once by half behind several where the same thing fails again. A tool that has worked since
        starts again. A result that is unknown or empty proves little and halves the whole. The
        same call with a new result is polling, and other arguments with another result are paging.
        """
        name, arguments = call.name, same_arguments(call.arguments)
        result, steady = same_text(call.result), steady_text(call.result)
        failed = has_failed(call)
        weight, alike, new_between = 0.0, list[int](), 0
        for distance, made in enumerate(reversed(self._made), start=1):
            counts = 0.0
            if made.name == name and made.failed == failed and made.steady == steady:
                same_call = made.arguments == arguments
                counts = 1.0 if same_call and made.result == result else 0.5
                counts = counts if same_call or failed else 0.0
            elif made.name == name and failed and not made.failed:
                break
            if counts:
                fading = 0.5**new_between if not failed else 1.0 if new_between <= 1 else 0.5
                weight += counts * fading
                alike.append(distance)
            new_between += made.is_new
        first_time = not any((m.name, m.arguments) == (name, arguments) for m in self._made)
        of = tuple(self._made[-distance].number for distance in alike)
        is_new = bool(result) and first_time and not alike and not failed
        self._made.append(Made(number, name, arguments, result, steady, failed, is_new))
        weight = weight if result else weight / 2
        return weight, of, failed, alike[0] if alike else 0


def has_failed(call: Call) -> bool:
    """Whether a call failed: as the log says, or else by the words at the head of its result.

    >>> has_failed(Call("ls", result="ls: no such file")), has_failed(Call("ls", result="a.txt"))
    (True, False)
    """
    if call.error is not None:
        return call.error
    return bool(_FAILED.search(same_text(call.result)[:HEAD]))


def same_arguments(arguments: Any) -> str:
    """Arguments as text that is equal where they mean the same.

    >>> same_arguments('{"b": 1, "a": 2}') == same_arguments({"a": 2, "b": 1})
    True
    """
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
        return same_text(json.dumps(value, sort_keys=True, default=str))
    except (ValueError, RecursionError):
        return same_text(str(arguments))


def as_told(arguments: Any) -> str:
    """Arguments as a person is shown them: a text as it is, anything else as JSON.

    >>> as_told({"path": "a.txt", "all": True}), as_told("ls -l"), as_told(None)
    ('{"path": "a.txt", "all": true}', 'ls -l', '')
    """
    if isinstance(arguments, str) or not arguments:
        return arguments or ""
    try:
        return json.dumps(arguments, ensure_ascii=False, default=str)
    except (ValueError, TypeError, RecursionError):  # keys that JSON has not, or a ring
        return str(arguments)


def same_text(text: str | None) -> str:
    """A text without its white space, or the hash of a very long one."""
    if text is None:
        return ""
    if len(text) > LONGEST:
        import hashlib  # noqa: PLC0415 - slow to import, and hardly ever needed

        whole = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
        return " ".join(text[:HEAD].split()) + " … " + whole
    return " ".join(text.split())


def steady_text(text: str | None) -> str:
    """The head of a text without its white space, times and ids.

    >>> steady_text("no rows  (took 0.31 s, request 7f3a9c21)")
    'no rows (took #, request #)'
    """
    return _VOLATILE.sub("#", " ".join((text or "")[: 4 * HEAD].split()))
