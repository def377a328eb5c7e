"""Deadlines that pass when a test says so, however fast or busy the machine is."""

import asyncio
from contextlib import suppress


class Deadlines:
    """Stands in for `asyncio.timeout`: its limits hold until `pass_now`, whatever they say."""

    def __init__(self) -> None:
        self._limits: list[asyncio.Timeout] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def __call__(self, _: float | None) -> asyncio.Timeout:
        self._loop = asyncio.get_running_loop()
        self._limits.append(asyncio.timeout(None))
        return self._limits[-1]

    def pass_now(self) -> None:
        """Let the time of everyone who waits run out. May be called from any thread."""
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._pass)

    def _pass(self) -> None:
        for limit in self._limits:
            with suppress(RuntimeError):  # whoever it was for has an answer
                limit.reschedule(asyncio.get_running_loop().time())
