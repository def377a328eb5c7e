"""A guard in async code: the event loop goes on while a message is judged."""

import asyncio
import threading
import time
from typing import Any

import numpy as np
import pytest

from chimeralab import Guard, InputError
from chimeralab.embedding.encoder import Encoded

AGAIN = "Let me try that again."


class SlowEncoder:
    """An encoder that takes its time, and remembers in which threads it was asked."""

    margin, precision = 0.0, "none"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.threads: set[int] = set()

    def encode(self, texts: list[str]) -> Encoded:
        self.threads.add(threading.get_ident())
        time.sleep(self.seconds)
        return Encoded(np.ones((len(texts), 4), dtype=np.float32), np.zeros(len(texts), dtype=bool))

    encode_exactly = encode


def slow_guard(seconds: float) -> tuple[Guard, SlowEncoder]:
    encoder = SlowEncoder(seconds)
    return Guard(encoder=encoder), encoder  # type: ignore[arg-type]


def test_the_event_loop_goes_on_while_a_message_is_encoded() -> None:
    guard, encoder = slow_guard(0.3)

    async def watch() -> int:
        judged = asyncio.create_task(guard.update_async(AGAIN))
        ticks = 0
        while not judged.done():
            await asyncio.sleep(0.001)
            ticks += 1
        return ticks

    # A loop that was held up would have got round once or twice.
    assert asyncio.run(watch()) > 10
    assert threading.get_ident() not in encoder.threads


def test_messages_are_judged_in_order_also_when_nobody_waits() -> None:
    guard, _ = slow_guard(0.002)

    async def hand_over() -> list[Any]:
        return await asyncio.gather(*(guard.update_async(f"{n} {AGAIN}") for n in range(8)))

    seen = asyncio.run(hand_over())
    assert [each.position for each in seen] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [each.turn for each in seen] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_async_and_plain_updates_say_the_same() -> None:
    plain, other = Guard(vectors=False), Guard(vectors=False)

    async def updates() -> list[Any]:
        return [await other.update_async(AGAIN) for _ in range(6)]

    assert asyncio.run(updates()) == [plain.update(AGAIN) for _ in range(6)]
    assert other.state() == plain.state()


def test_what_can_not_be_read_is_refused_before_anything_changes() -> None:
    guard = Guard(vectors=False)
    before = guard.state()
    with pytest.raises(InputError):
        asyncio.run(guard.update_async({"role": "user", "content": 5}))
    assert guard.state() == before


def test_a_message_that_is_changed_afterwards_was_taken_as_it_was() -> None:
    guard, _ = slow_guard(0.05)
    message = {"role": "assistant", "content": AGAIN}

    async def change() -> None:
        judged = [asyncio.create_task(guard.update_async(message)) for _ in range(2)]
        await asyncio.sleep(0)
        message["content"] = "Something else entirely."
        await asyncio.gather(*judged)

    asyncio.run(change())
    assert "Something else" not in str(guard.state())


def test_a_cancelled_update_ends_before_the_next_one_begins() -> None:
    guard, _ = slow_guard(0.05)

    async def cancel() -> Any:
        first = asyncio.create_task(guard.update_async(AGAIN))
        await asyncio.sleep(0.01)
        first.cancel()
        return await guard.update_async(AGAIN)

    assert asyncio.run(cancel()).position == 2


@pytest.mark.parametrize(
    "damage",
    [{"waiting": 5}, {"waiting": [[1]]}, {"told": []}, {"loops": {}}, {"loops": 3}, {"guard": 2}],
    ids=str,
)
def test_a_damaged_state_is_refused_and_changes_nothing(damage: dict[str, Any]) -> None:
    guard = Guard(vectors=False)
    guard.update(AGAIN)
    before = guard.state()
    with pytest.raises(InputError, match="this is not the state of a guard"):
        guard.restore({**before, **damage})
    assert guard.state() == before
