"""opencode: the permission `doom_loop`, which asks the user by default."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.stuck.rules.seam import Event, Rule


@dataclass(frozen=True, slots=True)
class OpenCode(Rule):
    """The same tool call with the same input 3 times in a row since the prompt."""

    title = "opencode"
    source = "anomalyco/opencode: packages/web/src/content/docs/permissions.mdx"
    release = "d545d8fba57283528db69281f59c803c646eb7e9"

    times: int = 3

    def verdicts(self, events: Iterator[Event]) -> Iterator[int | None]:
        recent = deque[Event](maxlen=self.times)
        for event in events:
            if event.kind == "prompt":
                recent.clear()
            elif event.kind == "call":
                recent.append(event)
            same = len(recent) == self.times and len({each.call for each in recent}) == 1
            yield recent[0].position if same and event.kind == "call" else None
