"""Tool calls that bring nothing new: the same call with the same result, or the same failure.

The same call with a new result is polling, and other arguments with another result are paging;
neither counts.
"""

import json
import re
from collections import deque
from typing import Any, NamedTuple

from chimeralab.core.records import Call

# Words of a failed result, for logs that do not mark failures.
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
# What changes between equal results: times, durations, ids.
_VOLATILE = re.compile(
    r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\b\d\d?:\d\d:\d\d(?:\.\d+)?"
    r"|\b\d+(?:\.\d+)? ?(?:ns|us|µs|ms|s|secs?|seconds?)\b"
    r"|\b0x[0-9a-f]+\b"
    r"|\b(?=[\w-]*\d)(?=[\w-]*[a-z])[\w-]{6,}\b",
    re.IGNORECASE,
)
HEAD = 400  # characters of a result that are searched for a failure
MAX_TEXT = 20_000  # characters; a longer text is compared by its hash


class CallRecord(NamedTuple):
    """A call, normalised for comparison with later ones; `stable` is its result without times."""

    number: int
    name: str
    arguments: str
    result: str
    stable: str
    failed: bool
    is_new: bool


class CallLog:
    """The last calls of a conversation, and the last results of its tools."""

    def __init__(self, window: int) -> None:
        self._calls: deque[CallRecord] = deque(maxlen=window)
        self._results: deque[str] = deque(maxlen=window)

    def add_result(self, result: str | None) -> bool:
        """Take in the result of a tool; return whether it is new and not a failure."""
        text = normalize(result)
        if not text or text in self._results:
            return False
        self._results.append(text)
        return not _FAILED.search(text[:HEAD])

    def add(self, number: int, call: Call) -> tuple[float, tuple[int, ...], bool, int]:
        """Take in a call with its result, and weigh it against earlier ones.

        Returns its weight (2 makes a loop), the numbers of the calls that it repeats, whether it
        failed, and the period. An earlier call counts

        - 1 if call and result are the same, and half if only times and ids in the result differ,
        - half if the same tool failed in the same way with other arguments,
        - half as much for each new call answered in between, since work may have been done; if the
          same failure recurs, half once there were several,
        - nothing if a tool that fails now has worked since.

        An unknown or empty result proves little: it halves the weight.
        """
        name, arguments = call.name, normalize_arguments(call.arguments)
        result, stable = normalize(call.result), mask_volatile(call.result)
        failed = has_failed(call)
        weight, distances, new_between = 0.0, list[int](), 0
        for distance, earlier in enumerate(reversed(self._calls), start=1):
            counts = 0.0
            if earlier.name == name and earlier.failed == failed and earlier.stable == stable:
                same_call = earlier.arguments == arguments
                counts = 1.0 if same_call and earlier.result == result else 0.5
                counts = counts if same_call or failed else 0.0
            elif earlier.name == name and failed and not earlier.failed:
                break
            if counts:
                fading = 0.5**new_between if not failed else 1.0 if new_between <= 1 else 0.5
                weight += counts * fading
                distances.append(distance)
            new_between += earlier.is_new
        first_time = not any((c.name, c.arguments) == (name, arguments) for c in self._calls)
        repeats = tuple(self._calls[-distance].number for distance in distances)
        is_new = bool(result) and first_time and not repeats and not failed
        self._calls.append(CallRecord(number, name, arguments, result, stable, failed, is_new))
        weight = weight if result else weight / 2
        return weight, repeats, failed, distances[0] if distances else 0


def has_failed(call: Call) -> bool:
    """Whether a call failed: as the log marks it, or by the words at the head of its result.

    >>> has_failed(Call("ls", result="ls: no such file")), has_failed(Call("ls", result="a.txt"))
    (True, False)
    """
    if call.error is not None:
        return call.error
    return bool(_FAILED.search(normalize(call.result)[:HEAD]))


def normalize_arguments(arguments: Any) -> str:
    """Arguments as text that is equal for equal arguments.

    >>> normalize_arguments('{"b": 1, "a": 2}') == normalize_arguments({"a": 2, "b": 1})
    True
    """
    try:
        return normalize(json.dumps(read_arguments(arguments), sort_keys=True, default=str))
    except (ValueError, TypeError, RecursionError):
        return normalize(str(arguments))


def read_arguments(arguments: Any) -> Any:
    """Arguments that are written as JSON, or as they are.

    >>> read_arguments('{"path": "a"}'), read_arguments("ls -l")
    ({'path': 'a'}, 'ls -l')
    """
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return arguments


def format_arguments(arguments: Any) -> str:
    """Arguments for display: text as it is, anything else as JSON.

    >>> format_arguments({"path": "a.txt", "all": True}), format_arguments("ls -l")
    ('{"path": "a.txt", "all": true}', 'ls -l')
    """
    if isinstance(arguments, str) or not arguments:
        return arguments or ""
    try:
        return json.dumps(arguments, ensure_ascii=False, default=str)
    except (ValueError, TypeError, RecursionError):  # keys JSON lacks, or a cycle
        return str(arguments)


def quote_call(name: str, arguments: Any) -> str:
    """A call for display; a name that its arguments repeat is given once.

    >>> quote_call("edit", "edit view a.py"), quote_call("ls", {"all": True})
    ('edit view a.py', 'ls {"all": true}')
    """
    return f"{name} {format_arguments(arguments).removeprefix(f'{name} ')}"


def normalize(text: str | None) -> str:
    """A text with its white space collapsed; a very long one as its head and a hash."""
    if text is None:
        return ""
    if len(text) > MAX_TEXT:
        import hashlib  # noqa: PLC0415 - slow to import, and hardly ever needed

        whole = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
        return " ".join(text[:HEAD].split()) + " … " + whole
    return " ".join(text.split())


def mask_volatile(text: str | None) -> str:
    """The head of a text with times, durations and ids masked.

    >>> mask_volatile("no rows  (took 0.31 s, request 7f3a9c21)")
    'no rows (took #, request #)'
    """
    return _VOLATILE.sub("#", " ".join((text or "")[: 4 * HEAD].split()))
