"""What a run works with: its journal, the news it publishes, its limits, and its context.

The store of a study is a `Journal` on disk; `MemoryJournal` serves simulations.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, Protocol

from pydantic import Field

from chimeralab.core.errors import ChimeraError
from chimeralab.core.records import Record, Turn
from chimeralab.models.seam import Model, Reply, Request, Try
from chimeralab.runner.talk import Talk, TurnRecord


@dataclass(frozen=True, slots=True)
class Event(Record):
    """Something done to a conversation at a turn."""

    turn: int
    kind: str
    detail: Mapping[str, Any] = field(default_factory=dict)


class Answer(NamedTuple):
    """The result of an attempt; `outcome` is `answered` for a reply that became a turn.

    `billed` has the token counts of an answer that can't be used.
    """

    outcome: str
    reason: str | None
    reply: Reply | None
    cost: float | None
    seconds: float
    billed: Reply | None = None


class Journal(Protocol):
    """Where a run is recorded. Writes are durable once `flush` returns."""

    def history(self, talk: str) -> Sequence[TurnRecord]: ...

    def events(self, talk: str) -> Sequence[Event]: ...

    def count_rejections(self, talk: str, turn: int, probe: str = "") -> Mapping[str, int]:
        """Count the replies to a turn that the rules have rejected so far, by reason."""

    def open_attempt(self, model: str, request: Request, estimate: float | None = None) -> int:
        """Record a request before it is sent, with what it may cost at most."""

    def close_attempt(self, attempt: int, answer: Answer) -> None: ...

    def add_try(self, talk: str, turn: int, outcome: str, seconds: float) -> float | None:
        """Record a failed try that a client library made within the open attempt.

        Returns what it may have cost: a server that was too slow may charge for its answer.
        """

    def add_turn(self, attempt: int, talk: Talk, turn: TurnRecord, answer: Answer) -> None:
        """Close the attempt and store its reply as a turn, atomically."""

    def add_probe(
        self, attempt: int, talk: str, probe: str, turn: TurnRecord, answer: Answer
    ) -> None:
        """Close the attempt and store its reply as that to a probe, atomically."""

    def probe_replies(self, talk: str, turn: int) -> Mapping[str, str]:
        """The replies to the probes of a turn, by probe."""

    def is_scored(self, talk: str, trial: int) -> bool: ...

    def add_trial(self, talk: str, row: Any) -> None: ...

    def add_event(self, talk: str, event: Event) -> None: ...

    def finish(self, talk: str, outcome: str, reason: str | None) -> None: ...

    async def flush(self) -> None:
        """Wait until all writes are durable: before a model is asked, and before news of them."""


class MemoryJournal:
    """A journal in memory, for simulations, where the disk would dominate the time."""

    def __init__(self) -> None:
        self.rows: defaultdict[str, list[Any]] = defaultdict(list)
        self.outcomes: dict[str, str] = {}
        self._history: defaultdict[str, list[TurnRecord]] = defaultdict(list)
        self._events: defaultdict[str, list[Event]] = defaultdict(list)
        self._probe_replies: defaultdict[tuple[str, int], dict[str, str]] = defaultdict(dict)
        self._rejections: defaultdict[tuple[str, int, str], Counter[str]] = defaultdict(Counter)
        self._open: dict[int, tuple[str, int, str]] = {}
        self._attempts = 0

    def history(self, talk: str) -> Sequence[TurnRecord]:
        return self._history[talk]

    def events(self, talk: str) -> Sequence[Event]:
        return self._events[talk]

    def count_rejections(self, talk: str, turn: int, probe: str = "") -> Mapping[str, int]:
        return self._rejections[talk, turn, probe]

    def open_attempt(self, model: str, request: Request, estimate: float | None = None) -> int:
        self._attempts += 1
        self._open[self._attempts] = (request.conversation, request.turn, request.probe)
        return self._attempts

    def close_attempt(self, attempt: int, answer: Answer) -> None:
        place = self._open.pop(attempt)
        if answer.outcome in ("empty", "refusal"):
            self._rejections[place][answer.outcome] += 1

    def add_try(self, talk: str, turn: int, outcome: str, seconds: float) -> float | None:
        """Nothing reads these, and nothing costs money."""

    def add_turn(self, attempt: int, talk: Talk, turn: TurnRecord, answer: Answer) -> None:
        self.close_attempt(attempt, answer)
        self._history[talk.id].append(turn)

    def add_probe(
        self, attempt: int, talk: str, probe: str, turn: TurnRecord, answer: Answer
    ) -> None:
        self.close_attempt(attempt, answer)
        self._probe_replies[talk, turn.turn][probe] = turn.text

    def probe_replies(self, talk: str, turn: int) -> Mapping[str, str]:
        return self._probe_replies[talk, turn]

    def is_scored(self, talk: str, trial: int) -> bool:
        return trial <= len(self.rows[talk])

    def add_trial(self, talk: str, row: Any) -> None:
        self.rows[talk].append(row)

    def add_event(self, talk: str, event: Event) -> None:
        self._events[talk].append(event)

    def finish(self, talk: str, outcome: str, reason: str | None) -> None:
        self.outcomes[talk] = outcome

    async def flush(self) -> None:
        """Memory needs no flush."""


class RetryLog:
    """Records the tries of client libraries, except the last, which is the attempt itself.

    `talks` maps the opaque ids that tested models see back to conversations.
    """

    def __init__(
        self, journal: Journal, talks: Iterable[Talk] = (), brake: "Brake | None" = None
    ) -> None:
        self._journal = journal
        self._brake = brake
        self._names = {talk.session: talk.id for talk in talks}
        self._last: dict[tuple[str, int], Try] = {}

    def attach(self, model: Model) -> None:
        """Record the tries of a model that reports them."""
        if hasattr(model, "on_attempt"):
            model.on_attempt = self.record

    def record(self, attempt: Try) -> None:
        place = self._names.get(attempt.conversation, attempt.conversation), attempt.turn
        earlier = self._last.pop(place, None)
        if earlier is not None and attempt.number > earlier.number and attempt.conversation:
            cost = self._journal.add_try(*place, earlier.outcome, earlier.seconds)
            if cost and self._brake:
                self._brake.spend(cost)
        if attempt.outcome != "ok":
            self._last[place] = attempt


class RunStarted(NamedTuple):
    """What is planned, what earlier runs have done, and what is missing."""

    talks: int
    talks_ended: int
    turns_each: int
    turns_stored: int
    turns_missing: int
    spent: float


class TurnStored(NamedTuple):
    """A turn is on disk; `collapsed` is None if no detector is watching."""

    talk: str
    turn: int
    model: str
    tokens: int | None
    cost: float | None
    seconds: float
    collapsed: bool | None


class AttemptFailed(NamedTuple):
    """A request got no usable reply; it may be retried."""

    talk: str
    turn: int
    model: str
    outcome: str
    reason: str


class Intervention(NamedTuple):
    """A countermeasure, stressor or trim changed a conversation."""

    talk: str
    event: Event


class TalkEnded(NamedTuple):
    """A conversation has ended, or is `paused` until the next run."""

    talk: str
    outcome: str
    turns: int
    reason: str | None


class RevisionChanged(NamedTuple):
    """A model told another revision than before, or than its plan declares."""

    model: str
    told: Mapping[str, str]
    sentence: str


# What a run publishes; a kind of study may add its own.
News = RunStarted | TurnStored | AttemptFailed | Intervention | TalkEnded | Any
Subscriber = Callable[[News], None]


# English has four, other scripts three or fewer: an estimate must not be too low.
BYTES_PER_TOKEN = 3
Amount = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Price(Record):
    """The price of a million tokens."""

    input: Amount = 0.0
    output: Amount = 0.0

    def of(self, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """The cost of one reply; None if its tokens are unknown and not free.

        >>> Price(input=1, output=4).of(1_000, 500)
        0.003
        """
        if not (self.input or self.output):
            return 0.0
        if prompt_tokens is None or completion_tokens is None:
            return None
        return (prompt_tokens * self.input + completion_tokens * self.output) / 1e6

    def of_failure(self, request: Request, billed: Reply) -> float | None:
        """The cost of an answer that can't be used, estimated from above if not reported."""
        cost = self.of(billed.prompt_tokens, billed.completion_tokens)
        if cost is None:
            sent = sum(len(message.content.encode()) for message in request.messages)
            cost = self.of(sent // BYTES_PER_TOKEN + 1, request.sampling.max_tokens)
        return cost


class LimitReached(ChimeraError):
    """A question was not asked, since a limit of the plan is reached."""


class Brake:
    """Stops a run between turns: on a signal, at its cost or time limit, or if no model answers.

    Check `reason` before asking a model. `max_cost` covers the whole study, `max_hours` one run;
    None means no limit.
    """

    def __init__(
        self,
        *,
        max_cost: float | None = None,
        max_hours: float | None = None,
        spent: float = 0.0,
        patience: int = 3,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_cost, self._max_hours = max_cost, max_hours
        self._spent = spent
        self._patience = patience
        self._pauses = 0
        self._clock = clock
        self._started = clock()
        self._stopped = asyncio.Event()
        self._reason: str | None = None
        self.spend(0.0)

    @property
    def reason(self) -> str | None:
        """Why the run must stop; None while it may continue."""
        hours = self._max_hours
        if hours is not None and self._clock() - self._started >= hours * 3600:
            self.stop(f"max_hours = {hours:g} is used up")
        return self._reason

    def stop(self, reason: str) -> None:
        """Stop the run before its next turn; the first reason is kept."""
        self._reason = self._reason or reason
        self._stopped.set()

    def spend(self, cost: float | None) -> None:
        """Count what a reply cost. With a limit, an unknown cost stops the run."""
        limit = self._max_cost
        if cost is None and limit is not None:
            self.stop("a reply came without token counts, so max_cost can't be enforced")
        self._spent += cost or 0.0
        if limit is not None and self._spent >= limit:
            self.stop(f"max_cost = {limit:g} is used up ({self._spent:.4f} spent)")

    def note_pause(self, reason: str) -> None:
        """Count a conversation that could not continue; too many in a row stop the run."""
        self._pauses += 1
        if self._pauses >= self._patience:
            self.stop(f"{self._pauses} conversations in a row could not continue, last: {reason}")

    def note_progress(self) -> None:
        """Reset the count: a turn was stored, so models are reachable."""
        self._pauses = 0

    async def wait(self, seconds: float) -> None:
        """Sleep until the time is up or the run must stop."""
        try:
            await asyncio.wait_for(self._stopped.wait(), timeout=seconds)
        except TimeoutError:
            return


class Judgement(Protocol):
    """A detector's verdict on the last turn."""

    @property
    def collapsed(self) -> bool: ...


class TurnJudge(Protocol):
    """Judges one conversation turn by turn."""

    def update(self, turn: Turn) -> Judgement: ...


def ignore_news(news: News) -> None:
    """The default subscriber."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """Everything a conversation needs from its run. `watch` starts a judge of one conversation."""

    models: Mapping[str, Model]
    journal: Journal
    brake: Brake
    prices: Mapping[str, Price] = field(default_factory=dict)
    watch: Callable[[], TurnJudge] | None = None
    judges: Executor | None = None
    retry_wait: float = 1.0
    publish: Subscriber = ignore_news
    on_identity: Callable[[str, Mapping[str, str]], None] = lambda model, told: None

    def cost(self, model: str, reply: Reply) -> float | None:
        """The cost of a reply: as reported, else from the price in the plan, else unknown."""
        if reply.cost is not None:
            return reply.cost
        price = self.prices.get(model)
        return price.of(reply.prompt_tokens, reply.completion_tokens) if price else None

    def cost_of_failure(self, model: str, request: Request, billed: Reply) -> float | None:
        """The cost of an answer that can't be used, or of any of which nothing is known yet."""
        price = self.prices.get(model)
        return price.of_failure(request, billed) if price and billed.cost is None else billed.cost

    async def judge(self, judge: TurnJudge, turn: Turn) -> bool:
        """Judge a turn in an executor, so that other conversations are not blocked."""
        loop = asyncio.get_running_loop()
        return (await loop.run_in_executor(self.judges, judge.update, turn)).collapsed
