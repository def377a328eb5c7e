"""Gemini CLI: calls in cycles, and chanting. Its check by a model is left out."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.stuck.rules.chanting import Chant
from benchmarks.stuck.rules.seam import Event, Rule


@dataclass(frozen=True, slots=True)
class GeminiCli(Rule):
    """A cycle of 1 to 5 calls 5 times in a row since the prompt, whatever they return; or 50
    characters 10 times in one answer, at most 250 apart, with at most 5 texts between them."""

    title = "gemini-cli"
    source = "google-gemini/gemini-cli: packages/core/src/services/loopDetectionService.test.ts"
    release = "5411f113cafae26161b4969b0237b8e1e024e2c2"

    calls: int = 5
    cycle: int = 5
    history: int = 5_000
    distance: float = 250
    periods: int = 5

    def verdicts(self, events: Iterator[Event]) -> Iterator[int | None]:
        recent = deque[Event](maxlen=self.calls * self.cycle)
        chant = Chant(self.history, self.distance, bullet="*+", periods=self.periods)
        for event in events:
            began = None
            if event.kind == "prompt":
                recent.clear()
            if event.kind in ("prompt", "call"):
                chant.reset()
            if event.kind == "call":
                recent.append(event)
                began = self._cycle(list(recent))
            elif event.kind == "text" and chant.hears(event.text):
                began = event.position
            yield began

    def _cycle(self, recent: list[Event]) -> int | None:
        for period in range(1, self.cycle + 1):
            last = recent[-period * self.calls :]
            keys = [each.call for each in last]
            if len(last) == period * self.calls and keys[period:] == keys[:-period]:
                return last[0].position
        return None
