"""What a run needs and keeps: models, prices and the brake; a journal on disk; news for watching.

The store of a study is a `Journal` on disk; `MemoryJournal` is one for a simulation.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, Protocol

from pydantic import Field

from chimeralab.core.records import Record, Turn
from chimeralab.models.seam import Model, Reply, Request, Try
from chimeralab.runner.talk import Said, Talk


@dataclass(frozen=True, slots=True)
class Event(Record):
    """Something that was done to a conversation, at a turn."""

    turn: int
    kind: str
    detail: Mapping[str, Any] = field(default_factory=dict)


class Answer(NamedTuple):
    """How an attempt ended. `outcome` is `answered` for a reply that became a turn."""

    outcome: str
    reason: str | None
    reply: Reply | None
    cost: float | None
    seconds: float


class Journal(Protocol):
    """Where a run is written down. What the methods wrote is durable when `settled` returns."""

    def said(self, talk: str) -> Sequence[Said]: ...

    def events(self, talk: str) -> Sequence[Event]: ...

    def turned_down(self, talk: str, turn: int, probe: str = "") -> Mapping[str, int]:
        """How many replies to a turn the rules have turned down so far, by their lapse."""

    def open_attempt(self, model: str, request: Request) -> int: ...

    def close_attempt(self, attempt: int, answer: Answer) -> None: ...

    def add_try(self, talk: str, turn: int, outcome: str, seconds: float) -> None:
        """Enter a failed try that a client library made within the attempt that is open."""

    def add_turn(self, attempt: int, talk: Talk, said: Said, answer: Answer) -> None:
        """Close the attempt and keep its reply as a turn, in one step."""

    def add_probe(self, attempt: int, talk: str, probe: str, said: Said, answer: Answer) -> None:
        """Close the attempt and keep its reply beside the conversation, in one step."""

    def probed(self, talk: str, turn: int) -> Mapping[str, str]:
        """The replies to the probes of a turn, by probe."""

    def is_scored(self, talk: str, trial: int) -> bool: ...

    def add_trial(self, talk: str, row: Any) -> None: ...

    def add_event(self, talk: str, event: Event) -> None: ...

    def finish(self, talk: str, outcome: str, reason: str | None) -> None: ...

    async def settled(self) -> None:
        """Wait until what was written is durable: before a question, and before it is told."""


class MemoryJournal:
    """A journal that is gone with the process: for simulations, where a disk would be the work."""

    def __init__(self) -> None:
        self.rows: defaultdict[str, list[Any]] = defaultdict(list)
        self.outcomes: dict[str, str] = {}
        self._said: defaultdict[str, list[Said]] = defaultdict(list)
        self._events: defaultdict[str, list[Event]] = defaultdict(list)
        self._probed: defaultdict[tuple[str, int], dict[str, str]] = defaultdict(dict)
        self._turned_down: defaultdict[tuple[str, int, str], Counter[str]] = defaultdict(Counter)
        self._open: dict[int, tuple[str, int, str]] = {}
        self._attempts = 0

    def said(self, talk: str) -> Sequence[Said]:
        return self._said[talk]

    def events(self, talk: str) -> Sequence[Event]:
        return self._events[talk]

    def turned_down(self, talk: str, turn: int, probe: str = "") -> Mapping[str, int]:
        return self._turned_down[talk, turn, probe]

    def open_attempt(self, model: str, request: Request) -> int:
        self._attempts += 1
        self._open[self._attempts] = (request.conversation, request.turn, request.probe)
        return self._attempts

    def close_attempt(self, attempt: int, answer: Answer) -> None:
        place = self._open.pop(attempt)
        if answer.outcome in ("empty", "refusal"):
            self._turned_down[place][answer.outcome] += 1

    def add_try(self, talk: str, turn: int, outcome: str, seconds: float) -> None:
        """Nothing is read from it again."""

    def add_turn(self, attempt: int, talk: Talk, said: Said, answer: Answer) -> None:
        self.close_attempt(attempt, answer)
        self._said[talk.id].append(said)

    def add_probe(self, attempt: int, talk: str, probe: str, said: Said, answer: Answer) -> None:
        self.close_attempt(attempt, answer)
        self._probed[talk, said.turn][probe] = said.text

    def probed(self, talk: str, turn: int) -> Mapping[str, str]:
        return self._probed[talk, turn]

    def is_scored(self, talk: str, trial: int) -> bool:
        return trial <= len(self.rows[talk])

    def add_trial(self, talk: str, row: Any) -> None:
        self.rows[talk].append(row)

    def add_event(self, talk: str, event: Event) -> None:
        self._events[talk].append(event)

    def finish(self, talk: str, outcome: str, reason: str | None) -> None:
        self.outcomes[talk] = outcome

    async def settled(self) -> None:
        """There is no disk to wait for."""


class RetryLog:
    """Keeps every failed try but the last of a request, which is the attempt itself.

    `talks` are those whose models know them by their opaque names only.
    """

    def __init__(self, journal: Journal, talks: Iterable[Talk] = ()) -> None:
        self._journal = journal
        self._names = {talk.session: talk.id for talk in talks}
        self._last: dict[tuple[str, int], Try] = {}

    def listen(self, model: Model) -> None:
        """Record the attempts of a model that reports them."""
        if hasattr(model, "on_attempt"):
            model.on_attempt = self.told

    def told(self, made: Try) -> None:
        place = self._names.get(made.conversation, made.conversation), made.turn
        earlier = self._last.pop(place, None)
        if earlier is not None and made.number > earlier.number and made.conversation:
            self._journal.add_try(*place, earlier.outcome, earlier.seconds)
        if made.outcome != "ok":
            self._last[place] = made


class RunStarted(NamedTuple):
    """What is planned in all, what earlier runs have done of it, and what is missing."""

    talks: int
    talks_ended: int
    turns_each: int
    turns_stored: int
    turns_missing: int
    spent: float


class TurnStored(NamedTuple):
    """A turn is safe on disk; `collapsed` is None when nobody watches."""

    talk: str
    turn: int
    model: str
    tokens: int | None
    cost: float | None
    seconds: float
    collapsed: bool | None


class AttemptFailed(NamedTuple):
    """A question brought no usable reply. It may be asked again."""

    talk: str
    turn: int
    model: str
    outcome: str
    reason: str


class Intervened(NamedTuple):
    """A conversation was changed from outside, as its plan says."""

    talk: str
    event: Event


class TalkEnded(NamedTuple):
    """A conversation goes no further, in this run (`paused`) or for good."""

    talk: str
    outcome: str
    turns: int
    reason: str | None


# What is told to those who watch a run; a kind of study may have news of its own.
News = RunStarted | TurnStored | AttemptFailed | Intervened | TalkEnded | Any
Subscriber = Callable[[News], None]


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


class Brake:
    """Stops a run between turns: by hand, at its cost or time limit, or when no model answers.

    Whoever holds it looks at `reason` before asking anything. `max_cost` is of the whole study,
    `max_hours` of one run; None is no limit.
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
        self._stumbles = 0
        self._clock = clock
        self._started = clock()
        self._pulled = asyncio.Event()
        self._reason: str | None = None
        self.spend(0.0)

    @property
    def reason(self) -> str | None:
        """Why the run has to stop; None while it may go on."""
        hours = self._max_hours
        if hours is not None and self._clock() - self._started >= hours * 3600:
            self.pull(f"max_hours = {hours:g} is used up")
        return self._reason

    def pull(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._pulled.set()

    def spend(self, cost: float | None) -> None:
        """Count what a reply cost. With a limit, an unknown cost stops the run."""
        limit = self._max_cost
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
