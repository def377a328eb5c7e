"""Rating a study: a rater labels each finished conversation once, itself or in a packet."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from chimeralab.core.errors import ChimeraError, InputError
from chimeralab.core.records import Record
from chimeralab.core.text import redact
from chimeralab.rating.packets import (
    PacketKey,
    PacketResult,
    export_packet,
    import_packet,
    read_sheet,
)
from chimeralab.rating.plan import HUMAN
from chimeralab.rating.raters import (
    PlannedRater,
    candidates,
    insert_ratings,
    open_store,
    planned_rater,
    rated_by,
    rubric_of,
    stored_ratings,
)
from chimeralab.rating.ratings import (
    Item,
    Rater,
    RaterFacts,
    Rating,
    count_ratings,
    rate_all,
)
from chimeralab.rating.samples import sample_named
from chimeralab.runner.room import Brake, Limits
from chimeralab.study.database import transaction
from chimeralab.study.folder import Study
from chimeralab.study.store import RETESTS, Store, now

# Anything but these may go better another time, so the conversation stays unrated till then.
LASTING_FAILURES = ("overflow:", "refused:")


@dataclass(frozen=True, slots=True)
class RatingSummary(Record):
    """What a rater did now, and where it stands with all that it was given to rate."""

    rater: str
    about: RaterFacts
    newly_rated: int
    unanswered: int
    ones: int
    zeros: int
    tally: Mapping[str, int]
    stopped: str | None = None
    left: int = 0


class KeptRater:
    """A rater whose ratings are on disk before the next item is given to it.

    An item that got no answer at all is left for later, and so is every item once the brake is
    pulled.
    """

    def __init__(
        self,
        rater: Rater,
        name: str,
        keep: Callable[[Item, Rating], None],
        brake: Brake,
    ) -> None:
        self.rater = rater
        self.name = name
        self.keep = keep
        self.brake = brake
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
        except Exception as error:  # whatever the code of others lets through
            why = redact(f"{type(error).__name__}: {error}")
            raise InputError(f"{self.name} failed on '{item.id}' ({why})") from error
        if not isinstance(given, Rating) or given.label not in (0, 1, None):
            raise InputError(
                f"{self.name} gave no Rating of '{item.id}' with a label of 0, 1 or None"
            )
        rating = replace(given, item=item.id, rater=self.name)
        tries = rating.attempts
        count_cost(self.brake, rating)
        if tries and all(
            each.outcome == "failed" and not each.detail.startswith(LASTING_FAILURES)
            for each in tries
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
    """Have a rater rate what it has not rated yet; `only` names a sample to keep to."""
    study.checked_lock()
    who = planned_rater(study, name)
    if who.opened is None:
        raise InputError(f"{name} is a {who.about.kind}: use --export-packet, then --import-packet")
    with open_store(study) as db:
        known = candidates(study)
        if not known:
            raise InputError(f"{study.path} has no finished conversation to rate")
        wanted = tuple(known) if only is None else sample_named(study, only).ids
        done = rated_by(who.identity, db)
        missing = [known[each] for each in wanted if each not in done]

        def keep(item: Item, rating: Rating) -> None:
            with transaction(db, study.store_path):
                insert_ratings(db, who.identity, [(item, rating)])
            publish(rating)

        kept = asyncio.run(_rate(study, who, missing, keep)) if missing else None
    stored = stored_ratings(study, name)
    given = [stored[each] for each in wanted if each in stored]
    labels = [rating.label for rating in given]
    return RatingSummary(
        rater=name,
        about=who.about,
        newly_rated=len(missing) - kept.unanswered - kept.left if kept else 0,
        unanswered=kept.unanswered if kept else 0,
        ones=labels.count(1),
        zeros=labels.count(0),
        tally=count_ratings(given),
        stopped=kept.brake.reason if kept and kept.left else None,
        left=kept.left if kept else 0,
    )


def rating_brake(study: Study, who: PlannedRater) -> Brake:
    """What stops a rater at the limits of the plan.

    The cost of a study is that of its talks and its raters together; it does not stop one that is
    free.
    """
    run = study.plan.run
    limits = Limits(run.max_cost if who.about.costs_money else None, run.max_hours)
    with closing(Store(study.store_path)) as store:
        return Brake(limits, spent=store.spent())


def count_cost(brake: Brake, rating: Rating) -> None:
    """Count what a rating cost; with a limit, an answer of unknown cost stops the rater."""
    for each in rating.attempts:
        if each.outcome != "failed":
            brake.spend(each.cost)


async def _rate(
    study: Study,
    who: PlannedRater,
    items: Sequence[Item],
    keep: Callable[[Item, Rating], None],
) -> KeptRater:
    """Rate the items; the rater knows how many got no answer and how many are left."""
    assert who.opened is not None
    brake = rating_brake(study, who)
    async with who.opened() as rater:
        kept = KeptRater(rater, who.name, keep, brake)
        await rate_all(kept, items, study.plan.run.concurrency)
    return kept


def telling_names(study: Study) -> tuple[str, ...]:
    """The names that would tell a rater where a conversation comes from."""
    plan = study.plan
    speakers = [who.name for each in plan.conditions.values() for who in each.speakers]
    settings = (subject.part.settings for subject in plan.models.values())
    served = [str(getattr(each, "model", "")) for each in settings]
    found = dict.fromkeys([*plan.conditions, *plan.models, *speakers, *served])
    return tuple(filter(None, found))


def hand_out(study: Study, folder: Path, only: str | None = None, seed: int = 0) -> PacketKey:
    """Write a blinded packet for people; the key to it stays in the store."""
    study.checked_lock()
    with open_store(study) as db:
        known, names = candidates(study), telling_names(study)
        wanted = sample_named(study, only).ids if only else tuple(known)
        items = [known[name] for name in wanted]
        key = export_packet(folder, items, rubric_of(study), seed=seed, masked=names)
        with transaction(db, study.store_path):
            row = (key.packet, json.dumps(key.as_dict()), now())
            db.execute("INSERT OR REPLACE INTO packets VALUES (?, ?, ?)", row)
    return key


def take_back(study: Study, sheet: Path, rater: str) -> PacketResult:
    """Store the labels of a filled sheet, all or none."""
    study.checked_lock()
    who = planned_rater(study, rater)
    if not who.about.needs_packet:
        raise InputError(f"--rater {rater}: say who filled the packet, as {HUMAN}NAME")
    rows = read_sheet(sheet)
    if not rows:
        raise InputError(f"{sheet} has no row")
    name = rows[0].sheet.rpartition("-")[0]
    with open_store(study) as db:
        row = db.execute("SELECT packet FROM packets WHERE name = ?", [name]).fetchone()
        if row is None:
            raise InputError(f"{sheet}: packet '{name}' was not handed out by {study.path}")
        items, key = candidates(study), PacketKey.of(json.loads(row[0]))
        result = import_packet(sheet, key, items, rubric_of(study), rater)
        again = rated_by(who.identity, db) & {rating.item for rating in result.ratings}
        if again:
            raise InputError(f"{rater} has rated '{min(again)}' before; a label is given once")
        rated = [(items[rating.item], rating) for rating in result.ratings]
        with transaction(db, study.store_path):
            notes = {f"{RETESTS}{rater} {name}": result.repeated}
            insert_ratings(db, who.identity, rated, notes)
    return result
