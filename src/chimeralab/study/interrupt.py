"""Ctrl-C during a run: the first lets the requests in flight finish, the second cancels them."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from chimeralab.runner import Brake

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopped_by_signals(brake: Brake) -> Iterator[None]:
    """Inside, a signal to stop pulls the brake; a second one cancels the current task."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def stop(name: str) -> None:
        if brake.reason is None:
            brake.pull(f"stopped by {name}")
        else:
            task.cancel()

    # Not every system and no other thread can handle signals in a loop: there they act as ever.
    with suppress(NotImplementedError, RuntimeError, ValueError):
        for number in SIGNALS:
            loop.add_signal_handler(number, stop, number.name)
    try:
        yield
    except asyncio.CancelledError:
        if brake.reason is None:
            raise
    finally:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            for number in SIGNALS:
                loop.remove_signal_handler(number)
