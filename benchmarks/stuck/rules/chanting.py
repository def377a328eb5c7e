"""Chanting, as Gemini CLI and Qwen Code look for it: a piece of text over and over in one answer.

Their rule sees an answer as it streams in; here it comes line by line.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

CHUNK, TIMES = 50, 10
# Where Markdown begins another element, what came before no longer counts.
ELEMENT = re.compile(r"^\s*(?:\|.*\||[|+-]{3,}|\d+\.\s|>\s|#+\s)|```")


@dataclass(slots=True)
class Chant:
    """Whether 50 characters come 10 times, on average at most `distance` characters apart.

    `periods` is how many different texts may stand between them; None for any number.
    """

    history: int
    distance: float
    bullet: str
    periods: int | None = None
    _text: str = ""
    _start: int = 0
    _next: int = 0
    _in_code: bool = False
    _places: dict[str, list[int]] = field(default_factory=dict)

    def reset(self) -> None:
        self._text, self._start, self._next = "", 0, 0
        self._places.clear()

    def hears(self, message: str) -> bool:
        """Take in a message; whether it chants. A fence that it leaves open ends with it."""
        self._in_code = False
        return sum(self.add(line) for line in message.splitlines(keepends=True)) > 0

    def add(self, piece: str) -> bool:
        """Take in the next piece of an answer, such as a line."""
        fences = piece.count("```")
        is_ruler = bool(re.fullmatch(r"[-+_=*\u2500-\u257F]+", piece.strip()))
        if is_ruler or ELEMENT.search(piece) or re.match(rf"\s*[{self.bullet}]\s", piece):
            self.reset()
        was_code, self._in_code = self._in_code, self._in_code ^ (fences % 2 == 1)
        return not (was_code or self._in_code or is_ruler) and self._append(piece)

    def _append(self, piece: str) -> bool:
        self._text += piece
        if len(self._text) > self.history:
            cut = len(self._text) - self.history
            self._text, self._start = self._text[cut:], self._start + cut
            self._next = max(self._next, self._start)
        ends = range(self._next, self._start + len(self._text) - CHUNK + 1)
        self._next = max(self._next, ends.stop)
        return sum(self._repeats(at) for at in ends) > 0

    def _repeats(self, at: int) -> bool:
        place = at - self._start
        seen = self._places.setdefault(self._text[place : place + CHUNK], [])
        seen.append(at)
        last = seen[-TIMES:]
        if len(last) < TIMES or last[0] < self._start:
            return False
        if (last[-1] - last[0]) / (TIMES - 1) > self.distance:
            return False
        return self.periods is None or len(set(self._between(last))) <= self.periods

    def _between(self, places: Iterable[int]) -> Iterable[str]:
        start = self._start
        return (self._text[a - start : b - start] for a, b in pairwise(places))
