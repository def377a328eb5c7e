"""Journals: the same in memory as on disk, with every try of a client library once."""

import asyncio
from typing import Any

import pytest

from chimeralab.models.seam import ModelFailure, Reply, Try
from chimeralab.runner import (
    Brake,
    Journal,
    MemoryJournal,
    Price,
    RetryLog,
    RunContext,
    converse,
)


def test_memory_journal_matches_the_store(stage, make_talk) -> None:
    def answer(request):
        if request.turn == 2:
            return "" if not request.messages[-1].content.endswith("!") else "never"
        if request.turn == 3 and len(failures) < 2:
            failures.append(request)
            return ModelFailure("server", "busy")
        return Reply(f"turn {request.turn}!", "stop", 1, 1)

    def outcome_of(journal: Journal, run: RunContext):
        ended = asyncio.run(converse(talk, run))
        return ended, list(journal.history(talk.id)), dict(journal.count_rejections(talk.id, 2))

    talk = make_talk(turns=4, on_empty="retry 2 then record", on_failure="retry 3 then stop")
    failures: list[object] = []
    on_disk = stage(talk, answer)
    expected = outcome_of(on_disk.store, on_disk.run)
    failures.clear()
    journal = MemoryJournal()
    assert (
        outcome_of(journal, RunContext(on_disk.run.models, journal, Brake(), retry_wait=0.0))
        == expected
    )
    assert expected[0].outcome == "completed"


class Library:
    """A model whose client retries by itself, and reports it."""

    on_attempt: Any = None

    def __init__(self, *outcomes):
        self.outcomes = outcomes

    async def reply(self, request):
        for number, outcome in enumerate(self.outcomes, start=1):
            self.on_attempt(Try(request.conversation, request.turn, number, outcome, 0.5))
        if self.outcomes[-1] != "ok":
            raise ModelFailure(self.outcomes[-1], "gave up")
        return Reply("words", prompt_tokens=0, completion_tokens=0)


def run(stage, talk, library, **options):
    held = stage(talk, None, models={"m": library}, **options)
    RetryLog(held.store, brake=held.run.brake).attach(library)
    asyncio.run(converse(talk, held.run))
    return held.attempts()


def test_failed_tries_before_an_answer_are_attempts(stage, make_talk):
    library = Library("rate_limit", "server", "ok")
    attempts = run(stage, make_talk(turns=1), library)
    assert sorted(outcome for _, outcome in attempts) == ["answered", "rate_limit", "server"]


def test_the_last_failed_try_is_the_attempt_itself(stage, make_talk):
    library = Library("rate_limit", "connection")
    attempts = run(stage, make_talk(turns=1, on_failure="retry 1 then stop"), library)
    assert sorted(attempts) == [(1, "connection")] * 2 + [(1, "rate_limit")] * 2


def test_a_try_that_timed_out_may_have_been_billed(stage, make_talk, store):
    """The server may have answered in full by then; one that refuses a request charges nothing."""
    prices, limit = {"m": Price(output=100)}, Brake(max_cost=0.006)
    library = Library("timeout", "rate_limit", "timeout", "ok")
    attempts = run(stage, make_talk(turns=9), library, brake=limit, prices=prices)
    each = 100 * make_talk().speakers[0].sampling.max_tokens / 1e6
    # Two turns with two such tries each.
    assert 2 * each < 0.006 < 4 * each
    assert attempts.count((1, "timeout")) == attempts.count((2, "timeout")) == 2
    assert store.total_cost() == pytest.approx(4 * each)
    assert len(attempts) == 8


def test_model_without_on_attempt_is_left_alone(store):
    class Silent:
        async def reply(self, request):
            return Reply("words")

    silent = Silent()
    RetryLog(store).attach(silent)
    assert not hasattr(silent, "on_attempt")
