"""Open the models of a plan, and check that they answer."""

import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chimeralab.core.errors import ChimeraError, InputError
from chimeralab.core.parts import SentKey
from chimeralab.core.records import Record
from chimeralab.core.text import redact
from chimeralab.models.seam import Message, Model, Request, Sampling
from chimeralab.runner.converse import wrap_error
from chimeralab.study.plan import Plan

HELLO = Request(
    (Message("user", "Say hello in one short sentence."),),
    Sampling(temperature=0.0, top_p=1.0, max_tokens=16),
)


@dataclass(frozen=True, slots=True)
class FirstAnswer(Record):
    """A model's answer to a test question, its latency, and the latency of a second one, `again`.

    The first answer may include loading weights or waking a server.
    """

    model: str
    reported_model: str | None
    completion_tokens: int | None
    seconds: float
    again: float | None = None

    @property
    def each(self) -> float:
        """The expected latency of later answers."""
        return self.seconds if self.again is None else self.again


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
            started = time.perf_counter()
            reply = await model.reply(HELLO)
            seconds, again = time.perf_counter() - started, None
            if time_it and name not in agents:
                started = time.perf_counter()
                await model.reply(HELLO)
                again = time.perf_counter() - started
            named, tokens = reply.reported_model, reply.completion_tokens
            answers.append(FirstAnswer(name, named, tokens, seconds, again))
    return tuple(answers)


def _place(name: str, agents: Collection[str]) -> str:
    return f"[agents.{name}]" if name in agents else f"[models.{name}]"


@contextmanager
def name_model(place: str) -> Iterator[None]:
    """Name the model in errors, and redact keys from them."""
    try:
        yield
    except ChimeraError as error:
        raise InputError(f"{place} can't be used: {redact(str(error))}") from error
    except Exception as error:  # from outside code
        raise wrap_error(place, error) from error
