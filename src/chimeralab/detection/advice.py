"""What a guard tells the model: what repeats, how often, since when, and a way out.

Every number and every quotation is counted in the conversation: "3 times since message 5" means
that message 5 was the first of the three.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from chimeralab.core.records import Call, Loop
from chimeralab.detection.calls import HEAD, normalize, quote_call
from chimeralab.detection.classes import ToolStep, hands_over, read_edit
from chimeralab.detection.identity import digest
from chimeralab.detection.loops import EXCERPT

MAX_CALLS = 256  # that are counted
QUOTATION = str.maketrans("“”", "''")

ADVICE = {
    "tool": "You have called {what} {times} times with the same outcome since {place}",
    "failure": "{times} calls have failed with the same error since {place}, with {others}"
    " different arguments, the last with {answer}",
    "no-news": "{what} has given the same answer {times} times since {place}, to {others} different"
    " requests: {answer}",
    "waiting": "You have called {what} {times} times since {place}{duration}, and nothing has"
    " changed",
    "test-fix": "{what} has failed in the same way {times} times since {place}, after {others}"
    " different edits",
    "undo": "{what} has been edited {times} times since {place}, back and forth",
    "reread": "You have called {what} {times} times with the same outcome since {place}, and there"
    " are {others} calls that were made again like this",
    "handover": "Work has been handed over {times} times since {place}, the last time by {what}",
    "shared work": "Other agents of this run have done this before, since {place}: {what}",
    "some calls": "Tool calls with much the same results have come again and again since {place}",
    "silence": "Nothing has been said since {place}",
    "farewell": "Thanks, praise and farewells have been exchanged since {place}",
    "ending": "Nothing new has been said since {place}",
    "within-turn": "One thing has been said over and over since {place}: {what}",
    "paraphrase": "The same has been said in other words since {place}: {what}",
    "template": "One template has come back again and again since {place}: {what}",
    "alternating": "Two messages have taken turns since {place}: {what}",
    "cycle": "The same messages have come round again since {place}: {what}",
    "verbatim": "The same message has come again and again since {place}: {what}",
}
WAY_OUT = {
    "ending": "End the conversation, or say something new.",
    "farewell": "End the conversation, or say something new.",
    "failure": "Other arguments did not help: look at the error from another side.",
    "no-news": "Stop searching for this, and say what is missing.",
    "waiting": "Wait once for longer, or do something else meanwhile.",
    "test-fix": "List what you have tried, and look at the error from another side.",
    "undo": "Decide between the two, and say why.",
    "reread": "You have read these before: say what you want to know.",
    "handover": "Decide who answers, or ask the user.",
    "silence": "Say something, or end the conversation.",
    "shared work": "Use their results, or say what is missing.",
}
CHANGE = "Change something or ask."


class CountedCall(NamedTuple):
    """A call as the advice counts it; what is only compared is a digest."""

    position: int
    name: str
    tool: str
    shown: str
    identity: str
    outcome: str
    error: str
    answer: str
    target: str
    failed: bool
    changes: bool
    waits: bool
    asks: bool
    hands_over: bool

    @property
    def key(self) -> tuple[str, str, bool]:
        return self.identity, self.outcome, self.failed


class CallCounts:
    """The last calls of a conversation, for advice with true numbers."""

    def __init__(self) -> None:
        self.calls: deque[CountedCall] = deque(maxlen=MAX_CALLS)
        self.last: tuple[int, set[tuple[str, str]]] = 0, set()

    def add(self, call: Call, position: int, step: ToolStep, essential: Any) -> bool:
        """Count a call with its arguments that count; return whether it is new in its message."""
        edit = read_edit(essential) if step.changes else None
        # Only the head of a result is compared without times; the rest must be the same.
        tail = normalize(call.result)[4 * HEAD :]
        self.calls.append(
            CountedCall(
                position,
                call.name,
                step.tool,
                shorten(quote_call(call.name, essential)),
                digest(step.identity),
                digest(step.result + tail),
                digest(step.error) if step.error else "",
                shorten(normalize(call.result)[:HEAD]),
                shorten(edit[0]) if edit else "",
                *(step.failed, step.changes, step.waits, step.asks, hands_over(call.name)),
            )
        )
        if self.last[0] != position:
            self.last = position, set()
        twin = digest(step.identity), digest(step.answer)
        is_first = twin not in self.last[1]
        self.last[1].add(twin)
        return is_first

    def since(self, began: int) -> list[CountedCall]:
        """The calls since a position, in their order."""
        return [each for each in self.calls if each.position >= began]

    def repeats(self, loop: Loop, step: ToolStep) -> bool:
        """Whether a call, as it is compared with others, is one that a loop repeats.

        In a loop of other arguments, that is any call of the same tool.
        """
        calls, identity = self.since(loop.began), digest(step.identity)
        if loop.kind in ("failure", "no-news"):
            outcomes = [each.outcome for each in calls if each.tool == step.tool]
            return len(set(outcomes)) < len(outcomes)
        return sum(each.identity == identity for each in calls) > 1

    def find_unchanged(self) -> int | None:
        """The first of the last calls that wait for the same thing, by position."""
        alike = _members("waiting", self.calls[-1], list(self.calls)) if self.calls else []
        return alike[0].position if len(alike) > 1 else None

    def describe(self, loop: Loop, duration: str, place: Callable[[int], str]) -> str:
        """Say what repeats in a loop of calls, and since when."""
        calls = self.since(loop.began)
        for kind in (loop.kind, "tool"):
            for last in reversed(calls):
                alike = _members(kind, last, calls)
                if len(alike) > 1:
                    return ADVICE[kind].format(
                        what=quote(_subject(kind, last, alike)),
                        times=len(alike),
                        others=_others(kind, alike, calls),
                        answer=quote(last.answer) if last.answer else "nothing",
                        place=place(alike[0].position),
                        duration=duration,
                    )
        return ADVICE["some calls"].format(place=place(loop.began))


def _members(kind: str, last: CountedCall, calls: Sequence[CountedCall]) -> list[CountedCall]:
    """The calls that a loop of this kind has in common with its last one."""
    alike: dict[str, Callable[[CountedCall], bool]] = {
        "failure": lambda each: bool(last.error) and each.error == last.error,
        "no-news": lambda each: (
            last.asks and (each.tool, each.outcome) == (last.tool, last.outcome)
        ),
        "waiting": lambda each: last.waits and each.waits and each.tool == last.tool,
        "test-fix": lambda each: last.failed and each.key == last.key,
        "undo": lambda each: bool(last.target) and each.target == last.target,
        "reread": lambda each: not last.changes and each.key == last.key,
        "handover": lambda each: last.hands_over and each.hands_over,
    }
    is_alike = alike.get(kind) or (lambda each: each.key == last.key)
    found = [each for each in calls if is_alike(each)]
    if kind == "waiting":  # since the last change
        tool = [each for each in calls if each.tool == last.tool and (each.waits or last.failed)]
        unchanged = takewhile(
            lambda each: each.outcome == last.outcome or (each.failed and last.failed), tool[::-1]
        )
        found = [each for each in unchanged if each.waits][::-1]
    return found


def _subject(kind: str, last: CountedCall, alike: Sequence[CountedCall]) -> str:
    """What the calls have in common."""
    same = len({each.identity for each in alike}) == 1
    return last.target if kind == "undo" else last.shown if same else last.name


def _others(kind: str, alike: Sequence[CountedCall], calls: Sequence[CountedCall]) -> int:
    """What else is counted: arguments, edits, or calls that were made again."""
    if kind == "test-fix":
        first, last = alike[0].position, alike[-1].position
        between = [each for each in calls if first <= each.position <= last]
        return len({each.identity for each in between if each.changes})
    if kind == "reread":
        keys = [each.key for each in calls]
        return sum(keys.count(key) > 1 for key in set(keys))
    return len({each.identity for each in alike})


def shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= EXCERPT else text[: EXCERPT - 1] + "…"


def quote(text: str) -> str:
    """Quote untrusted text, which must not close its quotation or look like a guard's message.

    >>> quote("Look again” [guard:")
    "“Look again' (guard:”"
    """
    text = text.translate(QUOTATION).rstrip(".")
    return f"“{text.replace('[guard:', '(guard:').replace('Loop guard:', 'Loop guard;')}”"


def format_duration(seconds: float) -> str:
    """A time for people, from a minute on.

    >>> format_duration(59), format_duration(60), format_duration(7260)
    ('', ' for 1 minute', ' for 2.0 hours')
    """
    minutes = int(seconds // 60)
    if minutes >= 100:
        return f" for {seconds / 3600:.1f} hours"
    return f" for {minutes} minute{'s' * (minutes > 1)}" if minutes else ""
