"""The room that conversations take place in: the models, the journal, the brake, who watches."""

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Annotated, Protocol

from pydantic import Field

from chimeralab.core.records import Record, Turn
from chimeralab.models.seam import Model, Reply
from chimeralab.runner.journal import Journal, News, Subscriber

Amount = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Price(Record):
    """What a million tokens cost."""

    input: Amount = 0.0
    output: Amount = 0.0

    def of(self, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """The cost of one reply; None when its tokens are unknown and not free.

        >>> Price(input=1, output=4).of(1_000, 500)
        0.003
        """
        if not (self.input or self.output):
            return 0.0
        if prompt_tokens is None or completion_tokens is None:
            return None
        return (prompt_tokens * self.input + completion_tokens * self.output) / 1e6


@dataclass(frozen=True, slots=True)
class Limits(Record):
    """What one study may cost and how long one run may take; None is no limit."""

    max_cost: Annotated[float, Field(ge=0)] | None = None
    max_hours: Annotated[float, Field(gt=0)] | None = None


class Brake:
    """Stops a run between turns: by hand, at its cost or time limit, or when no model answers.

    Whoever holds it looks at `reason` before asking anything.
    """

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
            self.pull("a reply came without token counts, so max_cost can't be enforced")
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


class Judgement(Protocol):
    """What is needed of a detector's signal."""

    @property
    def collapsed(self) -> bool: ...


class TurnJudge(Protocol):
    """Judges one conversation turn by turn."""

    def update(self, turn: Turn) -> Judgement: ...


def nobody(news: News) -> None:
    """The subscriber of a room that nobody watches."""


@dataclass(frozen=True, slots=True)
class Room:
    """All that a conversation needs from outside. `watch` starts a judge of one conversation."""

    models: Mapping[str, Model]
    journal: Journal
    brake: Brake
    prices: Mapping[str, Price] = field(default_factory=dict)
    watch: Callable[[], TurnJudge] | None = None
    judges: Executor | None = None
    retry_wait: float = 1.0
    publish: Subscriber = nobody

    def cost(self, model: str, reply: Reply) -> float | None:
        """What a reply cost: as reported, else from the price in the plan, else unknown."""
        if reply.cost is not None:
            return reply.cost
        price = self.prices.get(model)
        return price.of(reply.prompt_tokens, reply.completion_tokens) if price else None

    async def judge(self, judge: TurnJudge, turn: Turn) -> bool:
        """Ask a judge without holding up the other conversations."""
        loop = asyncio.get_running_loop()
        return (await loop.run_in_executor(self.judges, judge.update, turn)).collapsed
