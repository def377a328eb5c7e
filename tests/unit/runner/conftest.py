"""Conversations with scripted models, written to a real store."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chimeralab.core.records import Turn
from chimeralab.models.seam import ModelFailure, Reply, Request, Sampling
from chimeralab.runner import Brake, Prompt, Rules, RunContext, Speaker, Talk
from chimeralab.study.store import Store

Answer = Callable[[Request], Reply | str | ModelFailure]


@dataclass
class Script:
    """A model that answers with a function, and records its requests."""

    answer: Answer
    asked: list[Request] = field(default_factory=list)
    backstage = True

    async def reply(self, request: Request) -> Reply:
        self.asked.append(request)
        answer = self.answer(request)
        if isinstance(answer, ModelFailure):
            raise answer
        return Reply(answer) if isinstance(answer, str) else answer


class Same(NamedTuple):
    collapsed: bool


class SameThrice:
    """A guard that fires once three turns in a row are equal."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def update(self, turn: Turn) -> Same:
        self.texts = [*self.texts, turn.text][-3:]
        return Same(len(self.texts) == 3 and len(set(self.texts)) == 1)


@dataclass
class Stage:
    """A store with one planned conversation, and the context of its run."""

    store: Store
    talk: Talk
    run: RunContext
    news: list[Any]

    def counts(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.store._db.execute(query)]

    def attempts(self) -> list[tuple[Any, ...]]:
        return self.counts("SELECT turn, outcome FROM attempts ORDER BY id")

    def outcome(self) -> tuple[Any, ...]:
        return self.counts("SELECT outcome, reason FROM trajectories")[0]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "study.db")
    store.begin_run(None, {})
    yield store
    store.close()


@pytest.fixture
def make_talk() -> Callable[..., Talk]:
    def make(
        speakers: int = 2, countermeasure: Any = None, schedule: Any = None, **rules: Any
    ) -> Talk:
        sampling = Sampling(temperature=0.5, max_tokens=20)
        cast = tuple(Speaker(f"s{n}", "m", sampling) for n in range(1, speakers + 1))
        rule = Rules(**({"turns": 6} | rules))
        prompt = Prompt("p", "Begin.")
        return Talk("solo", prompt, 1, cast, rule, 7, countermeasure, schedule=schedule)

    return make


@pytest.fixture
def stage(store: Store) -> Callable[..., Stage]:
    def make(talk: Talk, answer: Answer, *, brake: Brake | None = None, **context: Any) -> Stage:
        store.enter_talks([talk])
        news: list[Any] = []
        models = context.pop("models", {"m": Script(answer)})
        inside: dict[str, Any] = {"retry_wait": 0.0, "publish": news.append} | context
        return Stage(store, talk, RunContext(models, store, brake or Brake(), **inside), news)

    return make


@pytest.fixture
def same_thrice() -> type[SameThrice]:
    return SameThrice


@pytest.fixture
def script() -> type[Script]:
    return Script
