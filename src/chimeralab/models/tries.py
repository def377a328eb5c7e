"""Every single try of the openai SDK made visible: it retries on its own, and says so to nobody."""

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

import openai

from chimeralab.models.failures import kind_of
from chimeralab.models.seam import FailureKind, Request


class Try(NamedTuple):
    """One question on the wire. `outcome` is "ok" or the kind of the failure; numbers go from 1."""

    conversation: str
    turn: int
    number: int
    outcome: str
    seconds: float


OnAttempt = Callable[[Try], None]


@dataclass(slots=True)
class Tries:
    """The tries for one request. The last one is told by its reader, who knows if it was usable."""

    request: Request
    tell: OnAttempt | None
    number: int = 0
    started: float = 0.0

    def begin(self) -> None:
        self.number += 1
        self.started = time.perf_counter()

    def end(self, outcome: FailureKind | str) -> None:
        if self.tell is not None:
            seconds = time.perf_counter() - self.started
            place = self.request.conversation, self.request.turn
            self.tell(Try(*place, self.number, outcome, seconds))


current: ContextVar[Tries] = ContextVar("tries")


class WatchedClient(openai.DefaultAsyncHttpxClient):
    """The SDK's HTTP client, which tells of every try that ends without an answer."""

    async def send(self, request: Any, **options: Any) -> Any:
        tries = current.get()
        tries.begin()
        try:
            response = await super().send(request, **options)
        except Exception as error:
            # By name, because the SDK stands on httpx or on httpx2, whichever is installed.
            tries.end("timeout" if "Timeout" in type(error).__name__ else "connection")
            raise
        if response.status_code >= 400:
            tries.end(kind_of(response.status_code, response.text))
        return response
