"""OpenLIT: the badge of traces in which an agent loops."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.stuck.rules.seam import Event, Rule


@dataclass(frozen=True, slots=True)
class OpenLit(Rule):
    """The same tool with the same arguments, but for white space, 3 times anywhere in a
    conversation; calls without arguments do not count."""

    title = "OpenLIT"
    source = "openlit/openlit: pull request 1494, agent-loop/classify.test.ts"
    release = "1a18fd1e715a0a811f09e4b62f055f9b9f6f8a87"

    threshold: int = 3

    def verdicts(self, events: Iterator[Event]) -> Iterator[int | None]:
        counts, first = Counter[tuple[str, str]](), dict[tuple[str, str], int]()
        for event in events:
            given = event.arguments
            text = given if isinstance(given, str) else json.dumps(given, default=str)
            key = event.name, " ".join(text.split())
            known = event.kind == "call" and given is not None and key[1] != ""
            if known:
                counts[key] += 1
                first.setdefault(key, event.position)
            yield first[key] if known and counts[key] >= self.threshold else None
