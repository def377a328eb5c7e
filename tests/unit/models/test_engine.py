"""The engine's loop, with a pipeline that needs no weights."""

import io
import json
from threading import Semaphore
from typing import Any

import pytest

from chimeralab.models.engine import serve


class Countdown:
    """An engine that answers after the requested number of steps, `capacity` questions at once."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.live: dict[int, int] = {}
        self.most = 0

    def has_capacity(self) -> bool:
        return len(self.live) < self.capacity

    def is_busy(self) -> bool:
        return bool(self.live)

    def start(self, ask: dict[str, Any]) -> dict[str, Any] | None:
        if ask["steps"] > 100:
            return {"id": ask["id"], "failure": "overflow", "message": "too long"}
        self.live[ask["id"]] = 10 // (10 - ask["steps"])  # ten steps can't be counted down
        self.most = max(self.most, len(self.live))
        return None

    def step(self) -> list[dict[str, Any]]:
        self.live = {number: left - 1 for number, left in self.live.items()}
        done = [number for number, left in self.live.items() if left <= 0]
        for number in done:
            del self.live[number]
        return [{"id": number, "text": "done"} for number in done]


class Answers(io.StringIO):
    """An output stream that tests can wait on, line by line."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = Semaphore(0)

    def write(self, text: str) -> int:
        written = super().write(text)
        for _ in range(text.count("\n")):
            self.lines.release()
        return written


def served(asks: list[dict[str, Any]], capacity: int) -> tuple[dict[int, dict[str, Any]], int]:
    engine, out = Countdown(capacity), Answers()

    def lines() -> Any:
        """Live callers keep the input open until they have their answers."""
        for ask in asks:
            yield json.dumps(ask)
        for _ in asks:
            out.lines.acquire()

    serve(engine, lines(), out)  # type: ignore[arg-type]
    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    return {answer["id"]: answer for answer in answers}, engine.most


@pytest.mark.parametrize("capacity", [1, 3, 99])
def test_every_question_is_answered_once_within_capacity(capacity: int) -> None:
    asks = [{"id": n, "steps": n % 9 + 1} for n in range(20)]
    answers, most = served(asks, capacity)
    assert sorted(answers) == list(range(20))
    assert most <= capacity


def test_question_that_breaks_the_engine_fails_alone() -> None:
    answers, _ = served([{"id": n, "steps": steps} for n, steps in enumerate([1, 10, 200, 2])], 9)
    failures = [answers[n].get("failure") for n in range(4)]
    assert failures == [None, "server", "overflow", None]


def test_engine_ends_with_its_input() -> None:
    assert served([], 1) == ({}, 0)
