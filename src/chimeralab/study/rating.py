"""Rating a study: a rater says 0 or 1 about each finished conversation, once."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.rating.llm import LlmRater, Tally, rate_all, tally
from chimeralab.rating.ratings import Item, Rater, Rating
from chimeralab.rating.rules import NAME as RULES
from chimeralab.rating.rules import RulesRater
from chimeralab.study.folder import Study
from chimeralab.study.rater_identity import Identity, identity_of, rubric_of
from chimeralab.study.rating_sections import HUMAN
from chimeralab.study.ratings import (
    RatingStore,
    brought_up_to_date,
    candidates,
    stored_ratings,
)
from chimeralab.study.samples import sample_named
from chimeralab.study.subjects import greet, open_models

# Anything but these may go better another time, so the conversation stays unrated till then.
LASTING_FAILURES = ("overflow:", "refused:")


@dataclass(frozen=True, slots=True)
class RatingSummary(Record):
    """What a rater did now, and where it stands with all that it was given to rate."""

    rater: str
    newly_rated: int
    unanswered: int
    ones: int
    zeros: int
    tally: Tally


def rate_study(
    study: Study,
    name: str,
    only: str | None = None,
    publish: Callable[[Rating], None] = lambda rating: None,
) -> RatingSummary:
    """Have a rater rate what it has not rated yet; `only` names a sample to keep to."""
    study.checked_lock()
    identity = identity_of(study, name)
    if name.startswith(HUMAN):
        raise InputError(f"{name} is a person: use --export-packet, then --import-packet")
    with brought_up_to_date(study):
        items = _to_rate(study, only)
    with RatingStore(study.store_path) as store:
        done = store.rated(identity)
        missing = [item for item in items if item.id not in done]
        keeper = Keeper(store, identity, publish)
        if missing:
            asyncio.run(_rate(study, name, missing, keeper))
    return _summary(study, name, items, len(missing) - keeper.unanswered, keeper.unanswered)


class Keeper:
    """Stores each rating as it comes; an item that got no answer at all is left for later."""

    def __init__(
        self, store: RatingStore, identity: Identity, publish: Callable[[Rating], None]
    ) -> None:
        self.store = store
        self.identity = identity
        self.publish = publish
        self.unanswered = 0

    def keep(self, item: Item, rating: Rating) -> None:
        if _is_unanswered(rating):
            self.unanswered += 1
            return
        self.store.add(self.identity, [(item, rating)])
        self.publish(rating)


@dataclass(frozen=True, slots=True)
class KeptRater:
    """A rater whose ratings are on disk before the next item is given to it."""

    rater: Rater
    keeper: Keeper

    async def rate(self, item: Item) -> Rating:
        rating = await self.rater.rate(item)
        self.keeper.keep(item, rating)
        return rating


async def _rate(study: Study, name: str, items: Sequence[Item], keeper: Keeper) -> None:
    rubric = rubric_of(study)
    if name == RULES:
        await rate_all(KeptRater(RulesRater(rubric), keeper), items)
        return
    alone = replace(study.plan, models={name: study.plan.models[name]})
    async with open_models(alone, study.path) as models:
        await greet(models)
        rater = LlmRater(name, models[name], rubric, study.plan.extras["raters"].settings)
        await rate_all(KeptRater(rater, keeper), items, study.plan.run.concurrency)


def _to_rate(study: Study, only: str | None) -> list[Item]:
    known = {name: found.item for name, found in candidates(study).items()}
    if not known:
        raise InputError(f"{study.path} has no finished conversation to rate")
    if only is None:
        return list(known.values())
    return [known[name] for name in sample_named(study, only).sample.ids]


def _is_unanswered(rating: Rating) -> bool:
    tries = rating.attempts
    return bool(tries) and all(
        each.outcome == "failed" and not each.detail.startswith(LASTING_FAILURES) for each in tries
    )


def _summary(
    study: Study, name: str, items: Sequence[Item], new: int, unanswered: int
) -> RatingSummary:
    stored = stored_ratings(study, name)
    given = [stored[item.id] for item in items if item.id in stored]
    labels = [rating.label for rating in given]
    return RatingSummary(name, new, unanswered, labels.count(1), labels.count(0), tally(given))
