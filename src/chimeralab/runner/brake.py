"""When a run has to stop: by hand, at its cost or time limit, or when no model can be reached."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from chimeralab.core.records import Record


@dataclass(frozen=True, slots=True)
class Limits(Record):
    """What one study may cost and how long one run may take; None is no limit."""

    max_cost: Annotated[float, Field(ge=0)] | None = None
    max_hours: Annotated[float, Field(gt=0)] | None = None


class Brake:
    """Stops a run between turns: whoever holds it looks at `reason` before asking anything."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        spent: float = 0.0,
        patience: int = 3,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits or Limits()
        self._spent = spent
        self._patience = patience
        self._stumbles = 0
        self._clock = clock
        self._started = clock()
        self._pulled = asyncio.Event()
        self._reason: str | None = None
        self.spend(0.0)

    @property
    def reason(self) -> str | None:
        """Why the run has to stop; None while it may go on."""
        hours = self._limits.max_hours
        if hours is not None and self._clock() - self._started >= hours * 3600:
            self.pull(f"max_hours = {hours:g} is used up")
        return self._reason

    def pull(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._pulled.set()

    def spend(self, cost: float | None) -> None:
        """Count what a reply cost. With a limit, an unknown cost stops the run."""
        limit = self._limits.max_cost
        if cost is None and limit is not None:
            self.pull("a reply came without token counts, so max_cost can't be held")
        self._spent += cost or 0.0
        if limit is not None and self._spent >= limit:
            self.pull(f"max_cost = {limit:g} is used up ({self._spent:.4f} spent)")

    def stumble(self, reason: str) -> None:
        """A conversation could not go on. Too many in a row mean that none can."""
        self._stumbles += 1
        if self._stumbles >= self._patience:
            self.pull(f"{self._stumbles} conversations in a row could not go on, last: {reason}")

    def move(self) -> None:
        """A turn was stored: the models are within reach."""
        self._stumbles = 0

    async def wait(self, seconds: float) -> None:
        """Sleep, but not past the moment when the run has to stop."""
        try:
            await asyncio.wait_for(self._pulled.wait(), timeout=seconds)
        except TimeoutError:
            return
