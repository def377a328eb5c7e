"""The raters of a study: who each one is, how it is put to work, and the ratings it has given.

A study stores one rating of each rater on each conversation, and never edits it.
"""

import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from chimeralab import version
from chimeralab.core.errors import InputError
from chimeralab.core.parts import Part
from chimeralab.core.records import Record
from chimeralab.models.seam import Model, Reply, Request
from chimeralab.rating.audit import RaterIdentity
from chimeralab.rating.model_rater import LlmRater, prompt_hash
from chimeralab.rating.plan import RATERS, RatersTable, refuse_unknown
from chimeralab.rating.ratings import Attempt, Item, Noted, Rater, RaterFacts, Rating, item_of
from chimeralab.rating.rubric import Label, Rubric
from chimeralab.runner.room import Price
from chimeralab.study.database import open_to_write
from chimeralab.study.folder import Study
from chimeralab.study.lock import digest, resolve
from chimeralab.study.store import now
from chimeralab.study.subjects import ask_once, open_models


@dataclass(frozen=True, slots=True)
class Identity(Record):
    """All that a rater's labels depend on besides the texts: its name, rubric, version, settings.

    A model is known by its settings, weights and prompt too.
    """

    name: str
    rubric_sha256: str
    version: str | None = None
    model: Mapping[str, Any] | None = None
    weights: Mapping[str, str] | None = None
    settings: Mapping[str, Any] | None = None
    prompt_sha256: str | None = None

    @property
    def key(self) -> str:
        return digest(self.as_dict())


@dataclass(frozen=True, slots=True)
class PlannedRater:
    """A rater as the plan has it; one that is given a packet can't be opened.

    `turned` opens a model that is told the labels in the other order.
    """

    about: RaterFacts
    identity: Identity
    opened: Callable[[], AbstractAsyncContextManager[Rater]] | None = None
    turned: Callable[[], AbstractAsyncContextManager[Rater]] | None = None

    @property
    def name(self) -> str:
        return self.identity.name

    @property
    def for_record(self) -> RaterIdentity:
        """Who it is, in the words of a gate record."""
        known = self.identity
        use = None if known.model is None else known.model["use"]
        settings = ", ".join(f"{key} {value}" for key, value in (known.settings or {}).items())
        return RaterIdentity(self.name, use, known.version, settings, self.about.kind)


def rubric_of(study: Study) -> Rubric:
    """The rubric of the plan; a file that changed since the plan was read is refused."""
    table = study.plan.extras["rubric"]
    rubric: Rubric = table.load(study.path)
    if rubric.sha256 != table.sha256:
        raise InputError(f"the rubric of {study.path} changed meanwhile; start again")
    return rubric


def planned_rater(study: Study, name: str) -> PlannedRater:
    """The rater that goes by a name in this study."""
    raters: RatersTable = study.plan.extras["raters"]
    refuse_unknown(name, raters, study.plan.models)
    rubric = rubric_of(study)
    if name in RATERS:
        by_us = Identity(name, rubric.sha256, f"chimera-lab {version.__version__}")
        return _program(RATERS[name], by_us, rubric)
    if name in raters.own:
        part: Part = raters.own[name]
        code = study.plan.code[part.use].sha256
        known = {"use": part.use, **part.as_dict()["settings"]}
        return _program(part.settings, Identity(name, rubric.sha256, code, settings=known), rubric)
    if name in study.plan.models:
        return _model(study, name, rubric)
    return PlannedRater(RaterFacts("person", needs_packet=True), Identity(name, rubric.sha256))


def _program(part: Any, identity: Identity, rubric: Rubric) -> PlannedRater:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Rater]:
        yield part.open(rubric)

    return PlannedRater(getattr(part, "about", RaterFacts()), identity, opened)


def _model(study: Study, name: str, rubric: Rubric) -> PlannedRater:
    subject, raters = study.plan.models[name], study.plan.extras["raters"]
    remote, price = getattr(subject.part.settings, "needs_network", False), subject.price
    paid = remote if price is None else bool(price.input or price.output)
    identity = Identity(
        name,
        rubric.sha256,
        subject.revision,
        subject.part.as_dict(),
        resolve(study.plan)["weights"][name],
        raters.asking(),
        prompt_hash(rubric),
    )

    @asynccontextmanager
    async def opened(first_label: Label = 1) -> AsyncIterator[Rater]:
        async with open_models(replace(study.plan, models={name: subject}), study.path) as models:
            await ask_once(models)
            yield LlmRater(name, Priced(models[name], price), rubric, raters, first_label)

    return PlannedRater(RaterFacts("model", paid, remote), identity, opened, partial(opened, 0))


class Priced:
    """A model whose replies say what they cost, by the price in the plan if not by themselves."""

    def __init__(self, model: Model, price: Price | None) -> None:
        self.model = model
        self.price = price

    async def reply(self, request: Request) -> Reply:
        reply = await self.model.reply(request)
        if reply.cost is not None or self.price is None:
            return reply
        return replace(reply, cost=self.price.of(reply.prompt_tokens, reply.completion_tokens))


def candidates(study: Study) -> dict[str, Item]:
    """Every finished conversation with a turn, in the order of the plan."""
    return {
        talk.id: item_of(talk, "all")
        for talk in study.trajectories()
        if talk.metadata["outcome"] is not None
    }


def places_of(study: Study) -> tuple[dict[str, str], dict[str, str]]:
    """The condition and the prompt of each conversation."""
    with study.archive() as archive:
        rows = list(archive.rows("SELECT id, condition, prompt FROM trajectories"))
    conditions = {row["id"]: row["condition"] for row in rows}
    return conditions, {row["id"]: row["prompt"] for row in rows}


@contextmanager
def open_store(study: Study) -> Iterator[sqlite3.Connection]:
    """The database of a study that was run, with the tables that rating needs."""
    if not study.store_path.is_file():
        raise InputError(f"{study.path} has not been run yet; start with `chimera run`")
    with closing(open_to_write(study.store_path)) as db:
        yield db


def rated_by(identity: Identity, db: sqlite3.Connection) -> set[str]:
    """The conversations that a rater has rated."""
    query = "SELECT trajectory FROM ratings WHERE rater = ?"
    return {row[0] for row in db.execute(query, [identity.key])}


def insert_ratings(
    db: sqlite3.Connection,
    identity: Identity,
    rated: Iterable[tuple[Item, Rating]],
    notes: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Put down ratings and notes on them, in a transaction; what was said before stays."""
    who = (identity.key, identity.name, json.dumps(identity.as_dict(), sort_keys=True))
    rows = []
    for item, rating in rated:
        plain = rating.as_dict()
        turns, *lists = (json.dumps(plain[name]) for name in LISTS)
        said = (rating.label, rating.reason, turns, rating.step, *lists)
        rows.append((item.id, identity.key, *said, item.sha256, now()))
    db.execute("INSERT OR IGNORE INTO raters VALUES (?, ?, ?)", who)
    db.executemany("INSERT OR IGNORE INTO ratings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    kept = ((key, json.dumps(dict(value))) for key, value in notes.items())
    db.executemany("INSERT OR IGNORE INTO study VALUES (?, ?)", kept)


LISTS = ("turns", "kinds", "noted", "attempts")


def stored_raters(study: Study) -> tuple[str, ...]:
    """The names under which ratings are stored, the built-in raters first."""
    with study.archive() as archive:
        names = [row["name"] for row in archive.rows("SELECT DISTINCT name FROM raters")]
    return tuple(sorted(names, key=lambda name: (name not in RATERS, name)))


def stored_ratings(study: Study, name: str) -> dict[str, Rating]:
    """What a rater, as the plan has it now, said about each conversation."""
    query = (
        "SELECT r.* FROM ratings r JOIN trajectories ON id = trajectory "
        "WHERE rater = ? ORDER BY position"
    )
    key, given = planned_rater(study, name).identity.key, {}
    with study.archive() as archive:
        for row in archive.rows(query, key):
            values = {name: json.loads(row[name]) for name in LISTS}
            given[row["trajectory"]] = Rating(
                item=row["trajectory"],
                rater=name,
                label=row["label"],
                reason=row["reason"],
                turns=tuple(values["turns"]),
                step=row["step"],
                kinds=tuple(values["kinds"]),
                noted=tuple(Noted(n["pattern"], tuple(n["turns"])) for n in values["noted"]),
                rubric=study.plan.extras["rubric"].version,
                attempts=tuple(Attempt(**each) for each in values["attempts"]),
            )
    return given
