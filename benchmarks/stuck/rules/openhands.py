"""OpenHands: the stuck detector of its SDK."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.stuck.rules.seam import Event, Rule


@dataclass(frozen=True, slots=True)
class OpenHands(Rule):
    """One action with one result 4 times, one action with an error 3 times, 3 messages in a row, or
    two actions with their results in turn 6 times, in the last 20 events since the user spoke."""

    title = "OpenHands"
    source = "OpenHands/software-agent-sdk: stuck_detector.py, tests/cross/test_stuck_detector.py"
    release = "611629e6999ad398dc49c761721eefe18d5e6bd9"

    action_observation: int = 4
    action_error: int = 3
    monologue: int = 3
    alternating_pattern: int = 6
    events: int = 20

    def verdicts(self, events: Iterator[Event]) -> Iterator[int | None]:
        recent = deque[Event]()
        for event in events:
            if event.kind == "prompt":
                recent.clear()
            elif event.kind != "thought":
                recent.append(event)
                # An action and what it returns are two events there.
                while sum(1 + (each.kind == "call") for each in recent) > self.events:
                    recent.popleft()
            yield self._judge(list(recent))

    def _judge(self, recent: Sequence[Event]) -> int | None:
        calls = [each for each in recent if each.kind == "call"]
        if calls and recent[-1].kind == "call":
            pairs = [(each.call, each.text, each.result) for each in calls]
            last = pairs[-self.action_observation :]
            if len(last) == self.action_observation and len(set(last)) == 1:
                return calls[-self.action_observation].position
            tail = calls[-self.action_error :]
            same = len({(each.call, each.text) for each in tail}) == 1
            if len(tail) == self.action_error and same and all(each.failed for each in tail):
                return tail[0].position
            last = pairs[-self.alternating_pattern :]
            if len(last) == self.alternating_pattern and last[2:] == last[:-2]:
                return calls[-self.alternating_pattern].position
        said = recent[-self.monologue :]
        if len(said) == self.monologue and all(each.kind == "text" for each in said):
            return said[0].position
        return None
