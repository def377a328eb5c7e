"""Qwen Code: what is always on, and what `model.skipLoopDetection: false` adds."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks.stuck.rules.chanting import Chant
from benchmarks.stuck.rules.seam import Event, Rule

OVERVIEW = re.compile(r"git(?:\s+(?:-C\s+\S+|--no-pager))*\s+(status|diff|ls-files)\b(.*)", re.I)
REVISION = re.compile(r"-.*|HEAD|@|(?:HEAD|@)(?:[~^]\d*)+|[0-9a-f]{7,40}|\S+\.{2,3}\S+", re.I)


def inspects(event: Event) -> bool:
    """Whether a call does nothing but give an overview of a repository.

    >>> command = {"command": "git status --short && git diff --stat"}
    >>> inspects(Event("call", 1, name="run_shell_command", arguments=command))
    True
    """
    command = event.argument("command")
    if event.name != "run_shell_command" or not isinstance(command, str):
        return False
    parts = [part.strip() for part in re.split(r"&&|\|\||[;&|\n]", command) if part.strip()]
    found = [OVERVIEW.match(part) for part in parts]
    return bool(found) and all(
        each and (each[1].lower() != "diff" or all(map(REVISION.fullmatch, each[2].split())))
        for each in found
    )


def reads(event: Event) -> bool:
    return event.name == "zoom_image" or event.name.startswith(("read_", "list_"))


@dataclass(slots=True)
class Turn:
    """What happened since the prompt."""

    calls: list[Event] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    firsts: dict[str, int] = field(default_factory=dict)
    thoughts: list[Event] = field(default_factory=list)

    def run(self, test: str) -> int:
        """How many calls in a row, up to the last, are alike."""
        key = getattr(self.calls[-1], test)
        return next(
            (n for n, each in enumerate(reversed(self.calls)) if getattr(each, test) != key),
            len(self.calls),
        )


@dataclass(frozen=True, slots=True)
class QwenCode(Rule):
    """The same call 5 times in a row, 8 overviews of a repository in a row, or more than 100 calls
    since the prompt of which one came 6 times. With all checks also one call 6 times, two in turn 3
    times, 8 of 15 calls that read after one that did not, 8 calls of one tool in a row, the same
    thought 3 times, or chanting."""

    title = "qwen-code"
    source = "QwenLM/qwen-code: docs/users/configuration/settings.md, loopDetectionService.test.ts"
    release = "db0519563db2c11b33c132e3ac248dbf032a70b9"

    heuristics: bool = False
    identical: int = 5
    inspections: int = 8
    cap: int = 100
    hard_cap: int = 1_000
    duplicates: int = 6
    cycles: int = 3
    readings: int = 8
    reading_window: int = 15
    stagnation: int = 8
    thoughts: int = 3
    history: int = 1_000
    distance: float = 75

    def verdicts(self, events: Iterator[Event]) -> Iterator[int | None]:
        turn, chant = Turn(), Chant(self.history, self.distance, bullet="-*+")
        for event in events:
            began = None
            if event.kind == "prompt":
                turn = Turn()
            if event.kind in ("prompt", "call"):
                chant.reset()
            if event.kind == "call":
                began = self._add(turn, event)
            elif self.heuristics and event.kind == "thought":
                turn.thoughts.append(event)
                last = turn.thoughts[-self.thoughts :]
                texts = {each.text.strip().lower()[:200] for each in last}
                began = last[0].position if (len(last), len(texts)) == (self.thoughts, 1) else None
            elif self.heuristics and event.kind == "text" and chant.hears(event.text):
                began = event.position
            yield began

    def _add(self, turn: Turn, event: Event) -> int | None:
        calls, counts = turn.calls, turn.counts
        calls.append(event)
        turn.thoughts.clear()
        counts[event.call] += 1
        turn.firsts.setdefault(event.call, event.position)
        if turn.run("call") >= self.identical:
            return calls[-self.identical].position
        overviews = calls[-self.inspections :]
        if len(overviews) == self.inspections and all(map(inspects, overviews)):
            return overviews[0].position
        [(most, times)] = counts.most_common(1)
        if len(calls) > self.hard_cap or (len(calls) > self.cap and times >= self.duplicates):
            return turn.firsts[most]
        return self._try_heuristics(turn, event) if self.heuristics else None

    def _try_heuristics(self, turn: Turn, event: Event) -> int | None:
        calls = turn.calls
        if turn.counts[event.call] >= self.duplicates:
            return turn.firsts[event.call]
        keys = [each.call for each in calls[-2 * self.cycles :]]
        if len(keys) == 2 * self.cycles and keys[0] != keys[1] and keys[2:] == keys[:-2]:
            return calls[-2 * self.cycles].position
        window = calls[-self.reading_window :]
        read = [each for each in window if reads(each)]
        if len(read) >= self.readings and not all(map(reads, calls)):
            return read[0].position
        if turn.run("name") >= self.stagnation:
            return calls[-self.stagnation].position
        return None
