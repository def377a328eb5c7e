"""Open the models of a plan, and check that they answer."""

import json
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

from chimeralab.core.errors import ChimeraError, InputError
from chimeralab.core.parts import SentKey
from chimeralab.core.records import Record
from chimeralab.core.text import redact
from chimeralab.models.seam import (
    Agreement,
    Message,
    Model,
    ModelFailure,
    Reply,
    Request,
    Sampling,
    compare_revision,
    drop_invalid_usage,
)
from chimeralab.runner import RevisionChanged, Subscriber, Talk
from chimeralab.runner.converse import wrap_error
from chimeralab.runner.interventions import models_of
from chimeralab.runner.journal import Brake, LimitReached, Price, ignore_news
from chimeralab.study.database import name_cell
from chimeralab.study.plan import Plan, Subject
from chimeralab.study.store import REVISION, Archive, Store

HELLO = Request(
    (Message("user", "Say hello in one short sentence."),),
    Sampling(temperature=0.0, top_p=1.0, max_tokens=16),
)


@dataclass(frozen=True, slots=True)
class FirstAnswer(Record):
    """A model's answer to a test question, its latency, and the latency of a second one, `again`.

    The first answer may include loading weights or waking a server. `told` is what the model tells
    about its revision, by source.
    """

    model: str
    reported_model: str | None
    completion_tokens: int | None
    seconds: float
    again: float | None = None
    told: Mapping[str, str] = field(default_factory=dict)

    @property
    def each(self) -> float:
        """The expected latency of later answers."""
        return self.seconds if self.again is None else self.again


class MeteredModel:
    """A model outside of conversations: its answers are charged to the study.

    Nothing is asked once a limit of the plan is reached.
    """

    def __init__(
        self, name: str, model: Model, price: Price | None, brake: Brake, store: Store
    ) -> None:
        self._name, self._model, self._price = name, model, price
        self._brake, self._store = brake, store
        if hasattr(model, "identify"):
            self.identify = model.identify

    async def reply(self, request: Request) -> Reply:
        if self._brake.reason is not None:
            raise LimitReached(self._brake.reason)
        purpose = "first question" if request is HELLO else "rating"
        most = self._price.of_failure(request, Reply("")) if self._price else None
        # The estimate is stored first: a kill must not hide what was in flight.
        row = self._store.charge(self._name, purpose, most) if most else None
        failure: ModelFailure | None = None
        try:
            reply: Reply | None = await self._model.reply(request)
        except ModelFailure as error:
            failure, reply = error, error.billed
        cost: float | None = 0.0
        if reply is not None:
            reply = drop_invalid_usage(reply)
            cost = reply.cost
            if cost is None and self._price:
                tokens = reply.prompt_tokens, reply.completion_tokens
                price = self._price
                cost = price.of_failure(request, reply) if failure else price.of(*tokens)
            reply = replace(reply, cost=cost)
        if cost is not None and cost != (most or 0.0):
            self._store.charge(self._name, purpose, cost, row)
        self._brake.spend(most if cost is None and request is HELLO else cost)
        if failure is None:
            assert reply is not None
            return reply
        failure.billed = reply
        raise failure


@asynccontextmanager
async def open_models(plan: Plan, folder: Path) -> AsyncIterator[dict[str, Model]]:
    """Open the models, by name; names with the same settings share one."""
    allow_keys(plan)
    opened: dict[str, Model] = {}
    agents = plan.kind.agents(plan)
    try:
        for name, subject in plan.models.items():
            if repr(subject.part) not in opened:
                settings: Any = subject.part.settings
                with name_model(_place(name, agents)):
                    if name in agents:
                        opened[repr(subject.part)] = plan.kind.open_agent(plan, name, folder)
                        continue
                    placed = settings.within(folder) if hasattr(settings, "within") else settings
                    opened[repr(subject.part)] = placed.open()
        yield {name: opened[repr(subject.part)] for name, subject in plan.models.items()}
    finally:
        for model in opened.values():
            if hasattr(model, "close"):
                await model.close()


def keep_needed(plan: Plan, talks: Sequence[Talk], more: Collection[str] = ()) -> Plan:
    """The plan with no models but those that some conversations need, and more by name.

    Opening a model, or asking it once, may load its weights.
    """
    needed = {speaker.model for talk in talks for speaker in talk.speakers} | {*more}
    for talk in talks:
        needed |= {*models_of(talk.countermeasure)} if talk.countermeasure else set()
    return replace(plan, models={n: each for n, each in plan.models.items() if n in needed})


def allow_keys(plan: Plan) -> None:
    """Ask for consent to send a key anywhere but to its own provider."""
    for subject in plan.models.values():
        key: SentKey | None = getattr(subject.part.settings, "sent_key", None)
        if key is None or key.is_usual:
            continue
        if plan.consent is None:
            raise InputError(f"the plan {key.effect}; allow it with Study(path, allow_code=True)")
        plan.consent(key)


async def ask_once(
    models: Mapping[str, Model], agents: Collection[str] = (), *, time_it: bool = False
) -> tuple[FirstAnswer, ...]:
    """Ask every model once, so that an unreachable one is reported before anything is spent.

    With `time_it`, models are asked a second time, for their latency once loaded.
    """
    answers = []
    for name, model in models.items():
        with name_model(_place(name, agents)):
            told = dict(await model.identify()) if hasattr(model, "identify") else {}
            started = time.perf_counter()
            reply = await model.reply(HELLO)
            seconds, again = time.perf_counter() - started, None
            if time_it and name not in agents:
                started = time.perf_counter()
                await model.reply(HELLO)
                again = time.perf_counter() - started
            named, tokens = reply.reported_model, reply.completion_tokens
            told |= reply.identity
            answers.append(FirstAnswer(name, named, tokens, seconds, again, told))
    return tuple(answers)


class Revision(NamedTuple):
    """The declared revision of a model against what the model told, with all of it in words."""

    state: Agreement | None
    changed: bool
    told: str
    sentence: str


def judge_revision(
    name: str, subject: Subject, told: Sequence[Mapping[str, str]] | None
) -> Revision:
    """Judge a revision by what the model told, whenever it was asked; None if it never was.

    It is verified only if all that was ever told fits.
    """
    values: dict[str, list[str]] = {}
    for source, value in (item for each in told or () for item in each.items()):
        values.setdefault(source, [])
        values[source] += [value] if value not in values[source] else []
    words = "; ".join(f"{source} {', then '.join(found)}" for source, found in values.items())
    changed = any(len(found) > 1 for found in values.values())
    declared, state, sentence = subject.revision, None, ""
    says = f"it says {words}" if words else "it does not tell its revision"
    if declared is not None:
        found = [compare_revision(declared, each.values()) for each in told or [{}]]
        state = next(s for s in get_args(Agreement) if s in found)
        sentence = {
            "contradicted": f"{name} declares revision {declared}, but {says}",
            "not verified": f"{name} declares revision {declared}, which is not verified: "
            + ("it was not asked" if told is None else says),
            "verified": f"{name} is revision {declared}, verified: {says}",
        }[state]
    elif words or getattr(subject.part.settings, "needs_network", False):
        says = "it was not asked for its revision" if told is None else says
        sentence = f"{name} declares no revision; {says}"
    return Revision(state, changed, words, sentence)


def load_revisions(plan: Plan, archive: Archive | None) -> dict[str, Revision]:
    """Judge the revision of every model by what the runs of a study were told."""
    told: dict[str, list[Mapping[str, str]]] = {}
    query = "SELECT key, value FROM study WHERE key GLOB ? ORDER BY key"
    for row in archive.rows(query, REVISION + "*") if archive else ():
        with name_cell("study", row, "value"):
            note = json.loads(row["value"])
            told.setdefault(note["model"], []).append(dict(note["told"]))
    return {n: judge_revision(n, subject, told.get(n)) for n, subject in plan.models.items()}


class RevisionLog:
    """Records what models tell about their revisions, and publishes what is not as before."""

    def __init__(self, plan: Plan, store: Store, publish: Subscriber = ignore_news) -> None:
        self._plan, self._store, self._publish = plan, store, publish
        self._told: dict[str, list[dict[str, str]]] = {}

    def add(self, name: str, told: Mapping[str, str]) -> None:
        """Record what a model tells now, unless it is what it told before."""
        earlier = self._told.setdefault(name, [])
        now = {**(earlier[-1] if earlier else {}), **told}
        if now in earlier:
            return
        earlier.append(now)
        revision = judge_revision(name, self._plan.models[name], earlier)
        if revision.sentence:
            self._store.add_revision(name, now)
        if revision.changed or revision.state == "contradicted":
            self._publish(RevisionChanged(name, now, revision.sentence))

    def refuse(self) -> None:
        """Raise if a model is not the one that the plan declares."""
        for name, told in self._told.items():
            revision = judge_revision(name, self._plan.models[name], told)
            if revision.state == "contradicted":
                raise InputError(
                    f"[models.{name}] can't be used: {revision.sentence}; serve the declared "
                    "revision, or declare the one that is served"
                )


def _place(name: str, agents: Collection[str]) -> str:
    return f"[agents.{name}]" if name in agents else f"[models.{name}]"


@contextmanager
def name_model(place: str) -> Iterator[None]:
    """Name the model in errors, and redact keys from them."""
    try:
        yield
    except LimitReached:
        raise  # the model is not to blame
    except ChimeraError as error:
        raise InputError(f"{place} can't be used: {redact(str(error))}") from error
    except Exception as error:  # from outside code
        raise wrap_error(place, error) from error
