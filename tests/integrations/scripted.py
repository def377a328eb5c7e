"""Scripted agents for every host, which loop, poll, page or recover."""

from collections.abc import Callable
from typing import NamedTuple

from chimeralab.integrations.watch import MARK

STEPS = 9


class Step(NamedTuple):
    """A call of the tool `look`, and what it gives back."""

    page: int
    result: str


SCRIPTS: dict[str, Callable[[int, bool], Step]] = {
    "repeats": lambda n, told: Step(1, "no rows"),
    "polls": lambda n, told: Step(1, f"{n}0 % done"),
    "pages": lambda n, told: Step(n, f"rows {n}0 to {n}9"),
    "recovers": lambda n, told: Step(n, f"row {n}") if told else Step(1, "no rows"),
}


class Script:
    """What a scripted model does next, and what became of it.

    The model says how many results it sees in its prompt by calling `next`; the tool is `look`.
    """

    def __init__(self, kind: str) -> None:
        self._kind = SCRIPTS[kind]
        self.calls: list[int] = []
        self.nudged_after: int | None = None
        self.ended = False

    def next(self, prompt: object) -> int | None:
        """The page to ask for, or None when the work is done; `prompt` is all the model sees."""
        if self.nudged_after is None and f"{MARK}You have called" in str(prompt):
            self.nudged_after = len(self.calls)
        if len(self.calls) == STEPS:
            self.ended = True
            return None
        return self._step().page

    def look(self, page: int) -> str:
        """Look at a page."""
        assert page == self._step().page
        result = self._step().result
        self.calls.append(page)
        return result

    def _step(self) -> Step:
        return self._kind(len(self.calls) + 1, self.nudged_after is not None)
