"""OpenClaw's detection of tool loops, which is off unless `tools.loopDetection.enabled` is set."""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from benchmarks.stuck.rules.seam import Event, Rule

Test = Callable[[Event], bool]
UNKNOWN = re.compile(
    r"unknown tool[:\s]+[\"']?[\w.-]+|tool\s+[\"']?[\w.-]+[\"']?\s+(?:not found|is not available)",
    re.IGNORECASE,
)


def polls(event: Event) -> bool:
    """Whether a call asks how something that runs is doing."""
    asks = event.argument("action") in ("poll", "log")
    return event.name == "command_status" or (event.name == "process" and asks)


@dataclass(frozen=True, slots=True)
class OpenClaw(Rule):
    """Among the last 30 calls of a run, before the next one: the same call 10 times (a poll only
    with the same result), two in turn for 10, a missing tool 10 times, or a few calls of one tool
    that bring nothing new for 30."""

    title = "OpenClaw"
    source = (
        "openclaw/openclaw: docs/tools/loop-detection.md, src/agents/tool-loop-detection.test.ts"
    )
    release = "0410b692512e3dc7f52a82e7a9ddb875b1548581"

    history: int = 30
    warning: int = 10
    unknown_tool: int = 10
    circuit_breaker: int = 30
    churn: int = 3  # times that a pattern of arguments comes to be one of a churn

    def verdicts(self, events: Iterator[Event]) -> Iterator[int | None]:
        history = deque[Event](maxlen=self.history)
        for event in events:
            if event.kind == "prompt":
                history.clear()
            if event.kind != "call":
                yield None
                continue
            yield self._judge(list(history), event)
            history.append(event)

    def _judge(self, history: Sequence[Event], event: Event) -> int | None:
        """What is known before a call is made: the calls before it, with their results."""
        failures = _tail(history, lambda each: each.name == event.name and _is_unknown(each))
        if len(failures) >= self.unknown_tool:
            return failures[0].position
        if churn := self._churns(history, event):
            return churn
        turns = _alternate(history, event)
        if turns and len(turns) + 1 >= self.warning:
            return turns[0].position
        same = [each for each in history if each.call == event.call]
        if same and polls(event):
            same = _tail(same, lambda each: each.result == same[-1].result)
        return same[0].position if len(same) >= self.warning else None

    def _churns(self, history: Sequence[Event], event: Event) -> int | None:
        """One tool, and hardly any arguments but a few that come again with the same results."""
        if len(history) < self.circuit_breaker or any(e.name != event.name for e in history):
            return None
        counts, results = Counter(each.call for each in history), defaultdict(set)
        for each in history:
            results[each.call].add(each.result)
        again = {call for call, n in counts.items() if n >= self.churn}
        others = sum(counts[call] for call in counts if call not in again)
        stable = all(len(results[call]) == 1 for call in again)
        return history[0].position if again and stable and others < self.churn else None


def _tail(history: Sequence[Event], test: Test) -> list[Event]:
    """The last events in a row that pass a test."""
    return list(takewhile(test, reversed(history)))[::-1]


def _is_unknown(event: Event) -> bool:
    return event.failed and bool(UNKNOWN.search(event.result))


def _alternate(history: Sequence[Event], event: Event) -> list[Event]:
    """The last calls that alternate between two, the next of which this one is."""
    found = list[Event]()
    for each in reversed(history):
        expected = (event.call, history[-1].call)[(len(found) + 1) % 2]
        if each.call != expected:
            break
        found.insert(0, each)
    return found if len(found) > 1 and event.call != history[-1].call else []
