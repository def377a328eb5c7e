"""The room that conversations are held in: the models, the journal, the brake, who looks on."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Annotated, Protocol

from pydantic import Field

from chimeralab.core.records import Record
from chimeralab.models.seam import Model, Reply
from chimeralab.runner.brake import Brake
from chimeralab.runner.journal import Journal, Subscriber

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


class Verdict(Protocol):
    """What is needed of a detector's signal."""

    @property
    def collapsed(self) -> bool: ...


class Guard(Protocol):
    """Judges one conversation turn by turn."""

    def update(self, text: str) -> Verdict: ...


@dataclass(frozen=True, slots=True)
class Room:
    """All that a conversation needs from outside. `watch` starts a guard for one conversation."""

    models: Mapping[str, Model]
    journal: Journal
    brake: Brake
    prices: Mapping[str, Price] = field(default_factory=dict)
    watch: Callable[[], Guard] | None = None
    judges: Executor | None = None
    retry_wait: float = 1.0
    publish: Subscriber = lambda news: None

    def cost(self, model: str, reply: Reply) -> float | None:
        """What a reply cost: as reported, else from the price in the plan, else unknown."""
        if reply.cost is not None:
            return reply.cost
        price = self.prices.get(model)
        return price.of(reply.prompt_tokens, reply.completion_tokens) if price else None

    async def judge(self, guard: Guard, text: str) -> bool:
        """Ask a guard without holding up the other conversations."""
        loop = asyncio.get_running_loop()
        verdict = await loop.run_in_executor(self.judges, guard.update, text)
        return verdict.collapsed
