"""Fact ledgers: a small world told as facts, then asked for by recall, inference and novelty.

Everything in it is made up, so that no subject can know it from elsewhere.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from chimeralab.core.records import Record
from chimeralab.sandbox.scenarios.draw import check_counts, source, wrong_one
from chimeralab.sandbox.scenarios.items import Question, Scenario
from chimeralab.sandbox.scenarios.ledger_questions import INFERENCE, NOVEL, RECALL, Asker, Draft
from chimeralab.sandbox.scenarios.ledger_world import MOST_PEOPLE, World, made_world

# A question that rests on this many facts needs all the context that there is to need.
MOST_FACTS = 4


@dataclass(frozen=True, slots=True)
class Ledger(Record):
    """How many people the world has, and how many questions of each family are asked."""

    people: int = 8
    recall: int = 8
    inference: int = 6
    novel: int = 4

    def __post_init__(self) -> None:
        # A world of n people has at least n - 1 different questions of every family.
        most = self.people - 1
        check_counts(
            "ledger",
            {
                "people": (self.people, 3, MOST_PEOPLE),
                "recall": (self.recall, 0, 4 * most),
                "inference": (self.inference, 0, 4 * most),
                "novel": (self.novel, 0, 3 * most),
            },
        )

    def make(self, seed: int) -> Scenario:
        rng = source("ledger", seed)
        world = made_world(rng, self.people)
        families = ((RECALL, self.recall), (INFERENCE, self.inference), (NOVEL, self.novel))
        drafts = [draft for askers, n in families for draft in _drawn(rng, world, askers, n)]
        rng.shuffle(drafts)
        questions = (_question(rng, world, n, draft) for n, draft in enumerate(drafts, start=1))
        return Scenario(f"ledger-{seed}", "ledger", world.facts, tuple(questions))


def _drawn(rng: Random, world: World, askers: Sequence[Asker], size: int) -> Iterator[Draft]:
    """Different questions, the ways of asking taken in turn."""
    asked: set[str] = set()
    turn = 0
    while len(asked) < size:
        draft = askers[turn % len(askers)](world, rng)
        turn += 1
        if draft.prompt not in asked:
            asked.add(draft.prompt)
            yield draft


def _question(rng: Random, world: World, number: int, draft: Draft) -> Question:
    return Question(
        id=f"q{number}",
        kind=draft.kind,
        prompt=draft.prompt,
        truth=draft.truth,
        options=draft.options,
        weight=_weight(draft),
        difficulty=(_weight(draft) + _age(world, draft)) / 2,
        novel=draft.kind == "novel",
        needs=tuple(fact.id for fact in draft.needs),
        signal=wrong_one(rng, draft.options, draft.truth),
        claim=draft.claim,
    )


def _weight(draft: Draft) -> float:
    return min(1.0, len(draft.needs) / MOST_FACTS)


def _age(world: World, draft: Draft) -> float:
    """How long ago the oldest fact was told that the answer needs: 1 is the first fact."""
    oldest = min(world.facts.index(fact) for fact in draft.needs)
    return 1 - oldest / len(world.facts)
