"""Checking a rater of a study: is it asked twice, turned round and attacked, does its label stay?

A check is stored beside the ratings, under the rater and the time, and never replaces another.
"""

import asyncio
import json
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.rating.gate_record import Retest
from chimeralab.rating.rater_checks import AttackReport, measure_attacks
from chimeralab.rating.ratings import Item, Rater, Rating
from chimeralab.runner.room import Brake
from chimeralab.study.folder import Study
from chimeralab.study.raters import (
    PlannedRater,
    brought_up_to_date,
    candidates,
    now,
    planned_rater,
    rubric_of,
)
from chimeralab.study.rating import count_cost, rating_brake
from chimeralab.study.samples import sample_named
from chimeralab.study.store import CHECKS, RETESTS, Store

# Each item is rated eleven times, so without a sample this many are drawn.
ITEMS = 20


@dataclass(frozen=True, slots=True)
class RaterCheck(Record):
    """One check of a rater: on which items, what it cost, and what came of it.

    Without a `report`, `stopped` says why it broke off; what it cost counts all the same.
    """

    rater: str
    identity: str
    at: str
    items: tuple[str, ...]
    cost: float
    report: AttackReport | None
    stopped: str | None = None


def stored_retest(study: Study, who: PlannedRater) -> Retest | None:
    """How often a rater gave an item the same label again; None when it was never asked twice.

    A person is asked by the duplicates of packets, a program or a model by its last check.
    """
    with study.archive() as archive:
        notes = list(archive.rows("SELECT key, value FROM study ORDER BY key"))
    packets, checks = (
        [json.loads(row["value"]) for row in notes if row["key"].startswith(f"{what}{who.name} ")]
        for what in (RETESTS, CHECKS)
    )
    told = [same for each in packets for same in each.values() if same is not None]
    if told:
        return Retest(who.name, len(told), sum(told))
    known = [each for each in checks if each["report"] and each["identity"] == who.identity.key]
    twice = known[-1]["report"]["undisturbed"] if known else {}
    items = twice.get("compared", 0)
    return Retest(who.name, items, items - twice["flips"]) if items else None


class Braked:
    """A rater that is not asked any more once the brake is pulled."""

    def __init__(self, rater: Rater, brake: Brake) -> None:
        self.rater = rater
        self.brake = brake
        self.cost = 0.0

    async def rate(self, item: Item) -> Rating:
        if self.brake.reason is not None:
            raise InputError(f"the check was stopped: {self.brake.reason}")
        rating = await self.rater.rate(item)
        self.cost += sum(each.cost or 0.0 for each in rating.attempts)
        count_cost(self.brake, rating)
        return rating


def check_rater(study: Study, name: str, only: str | None = None, seed: int = 0) -> RaterCheck:
    """Ask a rater again, with the labels turned round and under every attack; store the result.

    `only` names a sample to check on; without one, some finished conversations are drawn.
    """
    study.checked_lock()
    who = planned_rater(study, name)
    if who.opened is None:
        raise InputError(f"{name} is a {who.about.kind}, who can't be attacked")
    with brought_up_to_date(study):
        known = {each: found.item for each, found in candidates(study).items()}
    if not known:
        raise InputError(f"{study.path} has no finished conversation to rate")
    if only is not None:
        wanted = list(sample_named(study, only).sample.ids)
    else:
        drawn = set(np.random.default_rng(seed).permutation(sorted(known))[:ITEMS])
        wanted = [each for each in known if each in drawn]
    check = asyncio.run(_check(study, who, [known[each] for each in wanted]))
    with closing(Store(study.store_path)) as store:
        store.keep(**{f"{CHECKS}{name} {check.at}": json.dumps(check.as_dict())})
    if check.stopped:
        raise InputError(check.stopped)
    return check


async def _check(study: Study, who: PlannedRater, items: list[Item]) -> RaterCheck:
    assert who.opened is not None
    brake, opened = rating_brake(study, who), list[Braked]()
    report = stopped = None
    async with AsyncExitStack() as stack:
        for open_it in filter(None, (who.opened, who.turned)):
            opened.append(Braked(await stack.enter_async_context(open_it()), brake))
        turned = opened[1] if len(opened) > 1 else None
        try:
            report = await measure_attacks(
                opened[0],
                items,
                rubric_of(study),
                turned=turned,
                at_once=study.plan.run.concurrency,
            )
        except InputError as why:
            if brake.reason is None:
                raise
            stopped = str(why)
    cost = sum(each.cost for each in opened)
    ids = tuple(item.id for item in items)
    return RaterCheck(who.name, who.identity.key, now(), ids, cost, report, stopped)
