"""Model raters: any model, a locked prompt, and a count of everything that went wrong."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from chimeralab.core.records import Record
from chimeralab.models.seam import Model, ModelFailure, Reply, Request, Sampling
from chimeralab.rating.answers import Unreadable, read_answer
from chimeralab.rating.prompt import NewMark, build_prompt, new_mark
from chimeralab.rating.ratings import Attempt, Item, Outcome, Rater, Rating
from chimeralab.rating.rubric import KindName, Label, Rubric

DECISIVE: dict[str, KindName] = {"verbatim": "A", "template": "B", "short_form": "C"}


@dataclass(frozen=True, slots=True)
class RaterSettings(Record):
    """How a model is asked: how often again after an unusable answer, how its reply is drawn."""

    retries: int = 2
    sampling: Sampling = field(default_factory=lambda: Sampling(temperature=0.0, max_tokens=400))
    seed: int | None = 0
    first_label: Label = 1


class LlmRater:
    """Rates by asking a model; after the last unusable answer the label is None."""

    def __init__(
        self,
        name: str,
        model: Model,
        rubric: Rubric,
        settings: RaterSettings | None = None,
        make_mark: NewMark | None = None,
    ) -> None:
        self.name = name
        self.model = model
        self.rubric = rubric
        self.settings = settings or RaterSettings()
        self._make_mark = make_mark

    async def rate(self, item: Item) -> Rating:
        """Ask until an answer can be read, at most `retries` times again."""
        attempts: list[Attempt] = []
        for number in range(self.settings.retries + 1):
            mark = new_mark(item, self._make_mark) if self._make_mark else new_mark(item)
            try:
                reply = await self.model.reply(self._request(item, mark, number))
            except ModelFailure as failure:
                attempts.append(Attempt("failed", f"{failure.kind}: {failure}", ""))
                continue
            rating = self._read(item, mark, reply, attempts)
            if rating is not None:
                return rating
        why = f"No usable answer in {len(attempts)} attempts: {attempts[-1].detail}."
        return Rating(
            item.id, self.name, None, why, rubric=self.rubric.version, attempts=tuple(attempts)
        )

    def _request(self, item: Item, mark: str, number: int) -> Request:
        seed = None if self.settings.seed is None else self.settings.seed + number
        prompt = build_prompt(item, self.rubric, mark, first_label=self.settings.first_label)
        return Request(prompt, self.settings.sampling, seed, conversation=item.id, turn=number)

    def _read(self, item: Item, mark: str, reply: Reply, attempts: list[Attempt]) -> Rating | None:
        usage = (reply.prompt_tokens, reply.completion_tokens, reply.cost)
        try:
            answer = read_answer(reply.text, item, mark, self.rubric)
        except Unreadable as why:
            attempts.append(Attempt("unreadable", str(why), reply.text, *usage))
            return None
        outcome: Outcome = "repaired" if answer.repairs else "clean"
        detail = "; ".join(answer.repairs)
        attempts.append(Attempt(outcome, detail, reply.text, *usage))
        return Rating(
            item=item.id,
            rater=self.name,
            label=answer.label,
            reason=answer.reason,
            turns=answer.turns,
            step=answer.step,
            kinds=(DECISIVE[answer.step],) if answer.label and answer.step in DECISIVE else (),
            rubric=self.rubric.version,
            attempts=tuple(attempts),
        )


@dataclass(frozen=True, slots=True)
class Tally(Record):
    """How a model did as a rater, in counts."""

    items: int
    nulls: int
    attempts: int
    clean: int
    repaired: int
    unreadable: int
    failed: int


def tally(ratings: Iterable[Rating]) -> Tally:
    """Count labels, nulls, repairs and unusable answers."""
    rated = list(ratings)
    outcomes = [attempt.outcome for rating in rated for attempt in rating.attempts]
    return Tally(
        items=len(rated),
        nulls=sum(rating.label is None for rating in rated),
        attempts=len(outcomes),
        clean=outcomes.count("clean"),
        repaired=outcomes.count("repaired"),
        unreadable=outcomes.count("unreadable"),
        failed=outcomes.count("failed"),
    )


async def rate_all(rater: Rater, items: Sequence[Item], at_once: int = 8) -> list[Rating]:
    """Rate many items side by side; the ratings come in the order of the items."""
    room = asyncio.Semaphore(at_once)

    async def rate(item: Item) -> Rating:
        async with room:
            return await rater.rate(item)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(rate(item)) for item in items]
    return [task.result() for task in tasks]
