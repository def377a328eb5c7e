"""A guard in async code does not block the event loop while it judges a message."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from chimeralab import Guard, InputError
from chimeralab.embedding.encoder import Embeddings, Encoder

AGAIN = "Let me try that again."


class SlowEncoder(Encoder):
    """An encoder that waits for the test, and refuses to work in the test's thread."""

    margin, precision = 0.0, "none"

    def __init__(self) -> None:
        self.asked_in = threading.get_ident()
        self.begun = threading.Event()
        self.let_go = threading.Event()

    def encode(self, texts: Sequence[str]) -> Embeddings:
        assert threading.get_ident() != self.asked_in
        self.begun.set()
        self.let_go.wait()
        return Embeddings(
            np.ones((len(texts), 4), dtype=np.float32), np.zeros(len(texts), dtype=bool)
        )

    encode_exactly = encode


def slow_guard() -> tuple[Guard, SlowEncoder]:
    encoder = SlowEncoder()
    return Guard(encoder=encoder), encoder


def test_event_loop_is_not_blocked_while_a_message_is_encoded() -> None:
    guard, encoder = slow_guard()

    async def watch() -> Any:
        judged = asyncio.create_task(guard.update_async(AGAIN))
        await asyncio.to_thread(encoder.begun.wait)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not judged.done()
        encoder.let_go.set()
        return await judged

    assert asyncio.run(watch()).position == 1


def test_messages_are_judged_in_order_even_if_not_awaited() -> None:
    guard, encoder = slow_guard()

    async def hand_over() -> list[Any]:
        handed = [asyncio.create_task(guard.update_async(f"{n} {AGAIN}")) for n in range(8)]
        await asyncio.to_thread(encoder.begun.wait)
        encoder.let_go.set()
        return await asyncio.gather(*handed)

    seen = asyncio.run(hand_over())
    assert [each.position for each in seen] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [each.turn for each in seen] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_async_and_sync_updates_give_the_same_signals() -> None:
    plain, other = Guard(vectors=False), Guard(vectors=False)

    async def updates() -> list[Any]:
        return [await other.update_async(AGAIN) for _ in range(6)]

    assert asyncio.run(updates()) == [plain.update(AGAIN) for _ in range(6)]
    assert other.state() == plain.state()


def test_unreadable_message_is_rejected_before_anything_changes() -> None:
    guard = Guard(vectors=False)
    before = guard.state()
    with pytest.raises(InputError):
        asyncio.run(guard.update_async({"role": "user", "content": 5}))
    assert guard.state() == before


def test_message_changed_after_the_call_does_not_change_the_verdict() -> None:
    guard, encoder = slow_guard()
    message = {"role": "assistant", "content": AGAIN}

    async def change() -> None:
        judged = [asyncio.create_task(guard.update_async(message)) for _ in range(2)]
        await asyncio.to_thread(encoder.begun.wait)
        message["content"] = "Something else entirely."
        encoder.let_go.set()
        await asyncio.gather(*judged)

    asyncio.run(change())
    assert "Something else" not in str(guard.state())


def test_cancelled_update_finishes_before_the_next_one_starts() -> None:
    guard, encoder = slow_guard()

    async def cancel() -> Any:
        first = asyncio.create_task(guard.update_async(AGAIN))
        await asyncio.to_thread(encoder.begun.wait)
        first.cancel()
        second = asyncio.create_task(guard.update_async(AGAIN))
        await asyncio.sleep(0)
        encoder.let_go.set()
        return await second

    assert asyncio.run(cancel()).position == 2


@pytest.mark.parametrize(
    "damage",
    [{"waiting": 5}, {"waiting": [[1]]}, {"told": []}, {"loops": {}}, {"loops": 3}, {"guard": 1}],
    ids=str,
)
def test_damaged_state_is_rejected_and_changes_nothing(damage: dict[str, Any]) -> None:
    guard = Guard(vectors=False)
    guard.update(AGAIN)
    before = guard.state()
    with pytest.raises(InputError, match="this is not the state of a guard"):
        guard.restore({**before, **damage})
    assert guard.state() == before
