"""The raters of a study and their stored ratings.

A study stores one rating per rater and conversation and never edits it. Programs and models rate
finished conversations directly; people are given a packet.
"""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from chimeralab import version
from chimeralab.core.errors import ChimeraError, InputError
from chimeralab.core.parts import Part
from chimeralab.core.records import Record
from chimeralab.core.text import redact
from chimeralab.models.seam import Model, ModelFailure, Reply, Request
from chimeralab.rating.audit import RaterIdentity
from chimeralab.rating.gate import HUMAN
from chimeralab.rating.model_rater import LlmRater, prompt_hash
from chimeralab.rating.packets import (
    PacketKey,
    PacketRatings,
    export_packet,
    import_packet,
    read_sheet,
)
from chimeralab.rating.plan import RATERS, RatersTable, check_rater_name
from chimeralab.rating.ratings import (
    Attempt,
    Item,
    NotedPattern,
    Rater,
    RaterFacts,
    Rating,
    count_ratings,
    rate_all,
)
from chimeralab.rating.rubric import Label, Rubric
from chimeralab.rating.samples import find_sample, load_items, open_store
from chimeralab.runner.journal import Brake, Price
from chimeralab.study.database import transaction
from chimeralab.study.folder import Study
from chimeralab.study.lock import digest, resolve
from chimeralab.study.store import RETESTS, Store, now
from chimeralab.study.subjects import ask_once, open_models


@dataclass(frozen=True, slots=True)
class PlannedRater:
    """A rater of a plan; people have no `open`.

    `identity` is all that its labels depend on besides the texts: name, rubric, version and
    settings, and the weights and prompt of a model. `open_reversed` opens a model with the labels
    in the other order.
    """

    about: RaterFacts
    identity: Mapping[str, Any]
    open: Callable[[], AbstractAsyncContextManager[Rater]] | None = None
    open_reversed: Callable[[], AbstractAsyncContextManager[Rater]] | None = None

    @property
    def name(self) -> str:
        return str(self.identity["name"])

    @property
    def key(self) -> str:
        """The key of its ratings in the store."""
        return digest(self.identity)

    @property
    def identity_record(self) -> RaterIdentity:
        """The identity for a gate record."""
        known = self.identity
        use = None if known["model"] is None else known["model"]["use"]
        settings = ", ".join(f"{key} {value}" for key, value in (known["settings"] or {}).items())
        return RaterIdentity(self.name, use, known["version"], settings, self.about.kind)


UNKNOWN = dict.fromkeys(
    ("name", "rubric_sha256", "version", "model", "weights", "settings", "prompt_sha256")
)


def load_study_rubric(study: Study) -> Rubric:
    """Load the rubric of the plan and check that it has not changed since the plan was read."""
    table = study.plan.extras["rubric"]
    rubric: Rubric = table.load(study.path)
    if rubric.sha256 != table.sha256:
        raise InputError(f"the rubric of {study.path} changed in the meantime; start again")
    return rubric


def find_rater(study: Study, name: str) -> PlannedRater:
    raters: RatersTable = study.plan.extras["raters"]
    check_rater_name(name, raters, study.plan.models)
    rubric = load_study_rubric(study)
    known = {**UNKNOWN, "name": name, "rubric_sha256": rubric.sha256}
    if name in RATERS:
        by_us = f"chimera-lab {version.__version__}"
        return _plan_program_rater(RATERS[name], {**known, "version": by_us}, rubric)
    if name in raters.own:
        part: Part = raters.own[name]
        settings = {"use": part.use, **part.as_dict()["settings"]}
        code = study.plan.code[part.use].sha256
        return _plan_program_rater(
            part.settings, {**known, "version": code, "settings": settings}, rubric
        )
    if name in study.plan.models:
        return _plan_model_rater(study, known, rubric)
    return PlannedRater(RaterFacts("person", needs_packet=True), known)


def _plan_program_rater(part: Any, identity: Mapping[str, Any], rubric: Rubric) -> PlannedRater:
    @asynccontextmanager
    async def open_rater() -> AsyncIterator[Rater]:
        yield part.open(rubric)

    return PlannedRater(getattr(part, "about", RaterFacts()), identity, open_rater)


def _plan_model_rater(study: Study, known: Mapping[str, Any], rubric: Rubric) -> PlannedRater:
    name, raters = known["name"], study.plan.extras["raters"]
    subject = study.plan.models[name]
    remote, price = getattr(subject.part.settings, "needs_network", False), subject.price
    paid = remote if price is None else bool(price.input or price.output)
    identity = {
        **known,
        "version": subject.revision,
        "model": subject.part.as_dict(),
        "weights": resolve(study.plan)["weights"][name],
        "settings": raters.model_settings(),
        "prompt_sha256": prompt_hash(rubric),
    }

    @asynccontextmanager
    async def open_rater(first_label: Label = 1) -> AsyncIterator[Rater]:
        async with open_models(replace(study.plan, models={name: subject}), study.path) as models:
            await ask_once(models)
            yield LlmRater(name, PricedModel(models[name], price), rubric, raters, first_label)

    return PlannedRater(
        RaterFacts("model", paid, remote), identity, open_rater, partial(open_rater, 0)
    )


class PricedModel:
    """A model whose replies have a cost: their own, or one by the price in the plan."""

    def __init__(self, model: Model, price: Price | None) -> None:
        self.model = model
        self.price = price

    async def reply(self, request: Request) -> Reply:
        try:
            reply = await self.model.reply(request)
        except ModelFailure as failure:
            if failure.billed and failure.billed.cost is None and self.price:
                cost = self.price.of_failure(request, failure.billed)
                failure.billed = replace(failure.billed, cost=cost)
            raise
        if reply.cost is not None or self.price is None:
            return reply
        return replace(reply, cost=self.price.of(reply.prompt_tokens, reply.completion_tokens))


def load_rated_ids(who: PlannedRater, db: sqlite3.Connection) -> set[str]:
    query = "SELECT trajectory FROM ratings WHERE rater = ?"
    return {row[0] for row in db.execute(query, [who.key])}


def insert_ratings(
    db: sqlite3.Connection,
    who: PlannedRater,
    rated: Iterable[tuple[Item, Rating]],
    notes: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Insert ratings and notes, within a transaction; existing rows are kept."""
    key, rows = who.key, []
    for item, rating in rated:
        plain = rating.as_dict()
        turns, *lists = (json.dumps(plain[name]) for name in LISTS)
        cells = (rating.label, rating.reason, turns, rating.step, *lists)
        rows.append((item.id, key, *cells, item.sha256, now()))
    rater = (key, who.name, json.dumps(who.identity, sort_keys=True))
    db.execute("INSERT OR IGNORE INTO raters VALUES (?, ?, ?)", rater)
    db.executemany("INSERT OR IGNORE INTO ratings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    values = ((key, json.dumps(dict(value))) for key, value in notes.items())
    db.executemany("INSERT OR IGNORE INTO study VALUES (?, ?)", values)


LISTS = ("turns", "kinds", "noted", "attempts")


def list_raters(study: Study) -> tuple[str, ...]:
    """List the raters that have ratings, built-in ones first."""
    with study.archive() as archive:
        names = [row["name"] for row in archive.rows("SELECT DISTINCT name FROM raters")]
    return tuple(sorted(names, key=lambda name: (name not in RATERS, name)))


def load_ratings(study: Study, name: str) -> dict[str, Rating]:
    """Load the ratings of a rater as the plan now defines it, by conversation."""
    query = (
        "SELECT r.* FROM ratings r JOIN trajectories ON id = trajectory "
        "WHERE rater = ? ORDER BY position"
    )
    key, given = find_rater(study, name).key, {}
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
                noted=tuple(NotedPattern(n["pattern"], tuple(n["turns"])) for n in values["noted"]),
                rubric=study.plan.extras["rubric"].version,
                attempts=tuple(Attempt(**each) for each in values["attempts"]),
            )
    return given


# Any other failure may be transient, so the conversation stays unrated and is tried again.
PERMANENT_FAILURES = ("overflow:", "refused:")


@dataclass(frozen=True, slots=True)
class RatingSummary(Record):
    """What a rater did in this run, and its labels so far."""

    rater: str
    about: RaterFacts
    newly_rated: int
    unanswered: int
    ones: int
    zeros: int
    tally: Mapping[str, int]
    stopped: str | None = None
    left: int = 0


class BudgetedRater:
    """A rater that stops at the limits of the plan and passes each rating to `keep`.

    Items without an answer are left for later, and so are all items once a limit is reached.
    """

    def __init__(
        self,
        rater: Rater,
        name: str,
        brake: Brake,
        keep: Callable[[Item, Rating], None] = lambda item, rating: None,
    ) -> None:
        self.rater = rater
        self.name = name
        self.brake = brake
        self.keep = keep
        self.cost = 0.0
        self.unanswered = 0
        self.left = 0

    async def rate(self, item: Item) -> Rating:
        if self.brake.reason is not None:
            self.left += 1
            return Rating(item.id, self.name, None, self.brake.reason)
        try:
            given = await self.rater.rate(item)
        except ChimeraError:
            raise
        except Exception as error:  # from the code of a custom rater
            why = redact(f"{type(error).__name__}: {error}")
            raise InputError(f"{self.name} failed on '{item.id}' ({why})") from error
        if not isinstance(given, Rating) or given.label not in (0, 1, None):
            raise InputError(
                f"{self.name} must return a Rating of '{item.id}' with the label 0, 1 or None"
            )
        rating = replace(given, item=item.id, rater=self.name)
        for each in rating.attempts:
            if each.outcome != "failed" or each.cost is not None:
                self.brake.spend(each.cost)
                self.cost += each.cost or 0.0
        if rating.attempts and all(
            each.outcome == "failed" and not each.detail.startswith(PERMANENT_FAILURES)
            for each in rating.attempts
        ):
            self.unanswered += 1
        else:
            self.keep(item, rating)
        return rating


def rate_study(
    study: Study,
    name: str,
    only: str | None = None,
    publish: Callable[[Rating], None] = lambda rating: None,
) -> RatingSummary:
    """Have a rater rate what it has not rated yet, or only that of the sample `only`."""
    study.check_lock()
    who = find_rater(study, name)
    if who.open is None:
        raise InputError(f"{name} is a {who.about.kind}: use `chimera rate packet` or `invite`")
    with open_store(study) as db:
        known = load_items(study)
        if not known:
            raise InputError(f"{study.path} has no finished conversation to rate")
        wanted = tuple(known) if only is None else find_sample(study, only).ids
        done = load_rated_ids(who, db)
        missing = [known[each] for each in wanted if each not in done]

        def keep(item: Item, rating: Rating) -> None:
            with transaction(db, study.store_path):
                insert_ratings(db, who, [(item, rating)])
            publish(rating)

        rater = asyncio.run(_rate(study, who, missing, keep)) if missing else None
    stored = load_ratings(study, name)
    given = [stored[each] for each in wanted if each in stored]
    labels = [rating.label for rating in given]
    return RatingSummary(
        rater=name,
        about=who.about,
        newly_rated=len(missing) - rater.unanswered - rater.left if rater else 0,
        unanswered=rater.unanswered if rater else 0,
        ones=labels.count(1),
        zeros=labels.count(0),
        tally=count_ratings(given),
        stopped=rater.brake.reason if rater and rater.left else None,
        left=rater.left if rater else 0,
    )


def make_brake(study: Study, who: PlannedRater) -> Brake:
    """Make a brake for the limits of the plan.

    The cost of a study includes that of its raters; its limit does not stop a rater that is free.
    """
    run = study.plan.run
    max_cost = run.max_cost if who.about.costs_money else None
    with closing(Store(study.store_path)) as store:
        return Brake(max_cost=max_cost, max_hours=run.max_hours, spent=store.total_cost())


async def _rate(
    study: Study,
    who: PlannedRater,
    items: Sequence[Item],
    keep: Callable[[Item, Rating], None],
) -> BudgetedRater:
    assert who.open is not None
    brake = make_brake(study, who)
    async with who.open() as rater:
        budgeted = BudgetedRater(rater, who.name, brake, keep)
        await rate_all(budgeted, items, study.plan.run.concurrency)
    return budgeted


def identifying_names(study: Study) -> tuple[str, ...]:
    """List the names that would reveal the condition or the models of a conversation."""
    plan = study.plan
    speakers = [who.name for each in plan.conditions.values() for who in each.speakers]
    settings = (subject.part.settings for subject in plan.models.values())
    served = [str(getattr(each, "model", "")) for each in settings]
    found = dict.fromkeys([*plan.conditions, *plan.models, *speakers, *served])
    return tuple(filter(None, found))


def export_study_packet(
    study: Study, folder: Path, only: str | None = None, seed: int = 0
) -> PacketKey:
    """Write a blinded packet for people and keep its key in the store."""
    study.check_lock()
    with open_store(study) as db:
        known, names = load_items(study), identifying_names(study)
        wanted = find_sample(study, only).ids if only else tuple(known)
        items = [known[name] for name in wanted]
        key = export_packet(folder, items, load_study_rubric(study), seed=seed, masked=names)
        with transaction(db, study.store_path):
            row = (key.packet, json.dumps(key.as_dict()), now())
            db.execute("INSERT OR REPLACE INTO packets VALUES (?, ?, ?)", row)
    return key


def import_study_packet(study: Study, sheet: Path, rater: str) -> PacketRatings:
    """Store the labels of a filled-in sheet, all or none."""
    study.check_lock()
    who = find_rater(study, rater)
    if not who.about.needs_packet:
        raise InputError(
            f"--rater {rater}: name the person who filled in the packet, as {HUMAN}NAME"
        )
    rows = read_sheet(sheet)
    if not rows:
        raise InputError(f"{sheet} has no rows; it should be the filled-in sheet of a packet")
    name = rows[0].sheet.rpartition("-")[0]
    with open_store(study) as db:
        row = db.execute("SELECT packet FROM packets WHERE name = ?", [name]).fetchone()
        if row is None:
            raise InputError(f"{sheet}: packet '{name}' was not exported from {study.path}")
        items, key = load_items(study), PacketKey.of(json.loads(row[0]))
        ratings, repeated = import_packet(sheet, key, items, load_study_rubric(study), rater)
        already = load_rated_ids(who, db) & {rating.item for rating in ratings}
        if already:
            raise InputError(f"{rater} has already rated '{min(already)}'; labels can't be changed")
        rated = [(items[rating.item], rating) for rating in ratings]
        with transaction(db, study.store_path):
            notes = {f"{RETESTS}{rater} {name}": repeated}
            insert_ratings(db, who, rated, notes)
    return ratings, repeated
