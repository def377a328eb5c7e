"""Tries that a client library makes on its own are written down, each once."""

import asyncio
from typing import NamedTuple

from chimeralab.models.seam import ModelFailure, Reply
from chimeralab.runner import RetryLog, converse


class Try(NamedTuple):
    conversation: str
    turn: int
    number: int
    outcome: str
    seconds: float = 0.5


class Library:
    """A model whose client asks again by itself, and tells of it."""

    on_attempt = None

    def __init__(self, *outcomes):
        self.outcomes = outcomes

    async def reply(self, request):
        for number, outcome in enumerate(self.outcomes, start=1):
            self.on_attempt(Try(request.conversation, request.turn, number, outcome))
        if self.outcomes[-1] != "ok":
            raise ModelFailure(self.outcomes[-1], "gave up")
        return Reply("words")


def run(stage, talk, library):
    held = stage(talk, None, models={"m": library})
    RetryLog(held.store).listen(library)
    asyncio.run(converse(talk, held.room))
    return held.attempts()


def test_failed_tries_before_an_answer_are_attempts(stage, make_talk):
    library = Library("rate_limit", "server", "ok")
    attempts = run(stage, make_talk(turns=1), library)
    assert sorted(outcome for _, outcome in attempts) == ["answered", "rate_limit", "server"]


def test_the_last_failed_try_is_the_attempt_itself(stage, make_talk):
    library = Library("rate_limit", "connection")
    attempts = run(stage, make_talk(turns=1, on_failure="retry 1 then stop"), library)
    assert sorted(attempts) == [(1, "connection")] * 2 + [(1, "rate_limit")] * 2


def test_a_model_that_tells_nothing_is_left_alone(store):
    class Silent:
        pass

    silent = Silent()
    RetryLog(store).listen(silent)
    assert not hasattr(silent, "on_attempt")
