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

from chimeralab.core.errors import ChimeraError, InputError
from chimeralab.core.parts import Part
from chimeralab.core.records import Record
from chimeralab.core.text import redact
from chimeralab.rating.audit import RaterIdentity
from chimeralab.rating.gate import HUMAN
from chimeralab.rating.model_rater import LlmRater, prompt_hash
from chimeralab.rating.packets import (
    PacketKey,
    PacketRatings,
    export_packet,
    import_packet,
    lay_out_packet,
    read_sheet,
)
from chimeralab.rating.plan import RATERS, RatersTable, check_rater_name, load_study_rubric
from chimeralab.rating.ratings import (
    Attempt,
    Item,
    NotedPattern,
    Rater,
    RaterFacts,
    Rating,
    Shuffler,
    count_ratings,
    rate_all,
)
from chimeralab.rating.rubric import KindName, Label, Rubric
from chimeralab.rating.samples import find_sample, load_items, open_store
from chimeralab.runner.journal import Brake, LimitReached
from chimeralab.study.database import decode, transaction
from chimeralab.study.folder import Study
from chimeralab.study.lock import digest, resolve
from chimeralab.study.store import RETESTS, Store, draw_secret, now
from chimeralab.study.subjects import MeteredModel, RevisionLog, ask_once, open_models

# Opens a rater under the limits of the plan; what a model answers is charged to the store.
OpenRater = Callable[[Brake, Store], AbstractAsyncContextManager[Rater]]


@dataclass(frozen=True, slots=True)
class PlannedRater:
    """A rater of a plan; people have no `open`.

    `identity` is all that its labels depend on besides the texts: name, rubric, version and
    settings, and the weights and prompt of a model. `open_reversed` opens a model with the labels
    in the other order.
    """

    about: RaterFacts
    identity: Mapping[str, Any]
    open: OpenRater | None = None
    open_reversed: OpenRater | None = None

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


# The version that last changed what our raters label. Their labels are theirs in every later one.
RULES_VERSION = "chimera-lab 0.1.0"
UNKNOWN = dict.fromkeys(
    (
        *("name", "rubric_sha256", "first_turn"),
        *("version", "model", "weights", "settings", "prompt_sha256"),
    )
)


def find_rater(study: Study, name: str) -> PlannedRater:
    raters: RatersTable = study.plan.extras["raters"]
    check_rater_name(name, raters, study.plan.models)
    rubric = load_study_rubric(study)
    rules = {"rubric_sha256": rubric.sha256, "first_turn": rubric.first_turn}
    known = {**UNKNOWN, "name": name, **rules}
    if name in RATERS:
        return _plan_program_rater(RATERS[name], {**known, "version": RULES_VERSION}, rubric)
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
    async def open_rater(brake: Brake, store: Store) -> AsyncIterator[Rater]:
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
    async def open_rater(
        brake: Brake, store: Store, first_label: Label = 1
    ) -> AsyncIterator[Rater]:
        async with open_models(replace(study.plan, models={name: subject}), study.path) as models:
            model = MeteredModel(name, models[name], price, brake, store)
            for answer in await ask_once({name: model}):
                RevisionLog(study.plan, store).add(name, answer.told)
            yield LlmRater(name, model, rubric, raters, first_label)

    facts = RaterFacts("model", paid, remote)
    return PlannedRater(facts, identity, open_rater, partial(open_rater, first_label=0))


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


LISTS = {
    "turns": tuple[int, ...],
    "kinds": tuple[KindName, ...],
    "noted": tuple[NotedPattern, ...],
    "attempts": tuple[Attempt, ...],
}


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
    rater, given = find_rater(study, name), {}
    with study.archive() as archive:
        for row in archive.rows(query, rater.key):
            given[row["trajectory"]] = Rating(
                item=row["trajectory"],
                rater=name,
                label=row["label"],
                reason=row["reason"],
                step=row["step"],
                rubric=study.plan.extras["rubric"].version,
                first_turn=rater.identity["first_turn"],
                **{name: decode(kind, "ratings", row, name) for name, kind in LISTS.items()},
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

    rater: Rater

    def __init__(
        self,
        name: str,
        brake: Brake,
        store: Store,
        keep: Callable[[Item, Rating], None] = lambda item, rating: None,
    ) -> None:
        self.name = name
        self.brake = brake
        self.store = store
        self.keep = keep
        self.shuffler = Shuffler(store.secret, f"blinding of {name}")
        self.unanswered = 0
        self.left = 0

    def order(self, items: Iterable[Item]) -> list[Item]:
        """Shuffle items: models and programs are blind to conditions, too."""
        known = {item.id: item for item in items}
        return [known[name] for name in self.shuffler.order(known)]

    async def rate(self, item: Item) -> Rating:
        try:
            if self.brake.reason is not None:
                raise LimitReached(self.brake.reason)
            # The name of a conversation reveals its condition, and so would the order of a plan.
            given = await self.rater.rate(replace(item, id=self.shuffler.hash(item.id)[:12]))
        except LimitReached as reason:
            self.left += 1
            return Rating(item.id, self.name, None, str(reason))
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
        # The model of a plan has charged each of its answers already.
        for each in () if isinstance(self.rater, LlmRater) else rating.attempts:
            if each.outcome != "failed" or each.cost is not None:
                self.brake.spend(each.cost)
                self.store.charge(self.name, "rating", each.cost or 0.0)
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


def make_brake(study: Study, who: PlannedRater, store: Store) -> Brake:
    """Make a brake for the limits of the plan.

    The cost of a study includes that of its raters; its limit does not stop a rater that is free.
    """
    run = study.plan.run
    max_cost = run.max_cost if who.about.costs_money else None
    return Brake(max_cost=max_cost, max_hours=run.max_hours, spent=store.total_cost())


async def _rate(
    study: Study,
    who: PlannedRater,
    items: Sequence[Item],
    keep: Callable[[Item, Rating], None],
) -> BudgetedRater:
    assert who.open is not None
    with closing(Store(study.store_path)) as store:
        rater = BudgetedRater(who.name, make_brake(study, who, store), store, keep)
        try:
            async with who.open(rater.brake, store) as rater.rater:
                await rate_all(rater, rater.order(items), study.plan.run.concurrency)
        except LimitReached:  # before the first item
            rater.left = len(items)
    return rater


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

        def keep(key: PacketKey) -> None:
            with transaction(db, study.store_path):
                row = (key.packet, json.dumps(key.as_dict()), now())
                db.execute("INSERT OR REPLACE INTO packets VALUES (?, ?, ?)", row)

        shuffler, rubric = Shuffler(draw_secret(db), f"packet {seed}"), load_study_rubric(study)
        return export_packet(folder, lay_out_packet(items, rubric, shuffler, names), rubric, keep)


def load_packet_key(study: Study, name: str) -> PacketKey | None:
    """Load the key of a packet; None if there is none of this name."""
    with study.archive() as archive:
        for row in archive.rows("SELECT * FROM packets WHERE name = ?", name):
            key: PacketKey = decode(PacketKey, "packets", row, "packet")
            return key
    return None


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
        key = load_packet_key(study, name)
        if key is None:
            raise InputError(f"{sheet}: packet '{name}' was not exported from {study.path}")
        items = load_items(study)
        ratings, repeated = import_packet(sheet, key, items, load_study_rubric(study), rater)
        already = load_rated_ids(who, db) & {rating.item for rating in ratings}
        if already:
            raise InputError(f"{rater} has already rated '{min(already)}'; labels can't be changed")
        rated = [(items[rating.item], rating) for rating in ratings]
        with transaction(db, study.store_path):
            notes = {f"{RETESTS}{rater} {name}": repeated}
            insert_ratings(db, who, rated, notes)
    return ratings, repeated
