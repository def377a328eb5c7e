"""The models of a plan, made ready: opened, and asked once whether they answer."""

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
    """What a model answered when it was asked once, how fast, and how fast when asked `again`.

    The first answer may wait until weights are loaded, or a server has woken up.
    """

    model: str
    reported_model: str | None
    completion_tokens: int | None
    seconds: float
    again: float | None = None

    @property
    def each(self) -> float:
        """The seconds of an answer like those that follow."""
        return self.seconds if self.again is None else self.again


@asynccontextmanager
async def open_models(plan: Plan, folder: Path) -> AsyncIterator[dict[str, Model]]:
    """The models by their names in the plan; two names for the same settings share one."""
    allow_keys(plan)
    opened: dict[str, Model] = {}
    agents = plan.kind.agents(plan)
    try:
        for name, subject in plan.models.items():
            if repr(subject.part) not in opened:
                settings: Any = subject.part.settings
                with saying(_place(name, agents)):
                    if name in agents:
                        opened[repr(subject.part)] = plan.kind.open_agent(plan, name, folder)
                        continue
                    # Settings that name files say how they are found from the study's folder.
                    placed = settings.within(folder) if hasattr(settings, "within") else settings
                    opened[repr(subject.part)] = placed.open()
        yield {name: opened[repr(subject.part)] for name, subject in plan.models.items()}
    finally:
        for model in opened.values():
            if hasattr(model, "close"):
                await model.close()


def allow_keys(plan: Plan) -> None:
    """Have the user allow every key that goes elsewhere than to the one whose it is."""
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
    """Ask every model once, so that one that is out of reach is known before anything is spent.

    With `time_it`, models are asked a second time, which says how fast they are once awake.
    """
    answers = []
    for name, model in models.items():
        with saying(_place(name, agents)):
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
def saying(place: str) -> Iterator[None]:
    """Name the model that can't be used, and keep keys out of what is said about it."""
    try:
        yield
    except ChimeraError as error:
        raise InputError(f"{place} can't be used: {redact(str(error))}") from error
    except Exception as error:  # whatever the code of others lets through
        raise wrap_error(place, error) from error
