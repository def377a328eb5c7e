"""Fact ledgers: a small world told as facts, then asked for by recall, inference and novelty.

Everything in it is made up, so that no subject can know it from elsewhere. Each function that takes
a world and a random source draws one question, with the facts that its answer rests on.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from chimeralab.core.records import Record
from chimeralab.trial.scenarios.draws import check_counts, choices, source, wrong_one
from chimeralab.trial.scenarios.items import Fact, Question, Scenario

NAMES = (
    "Mara", "Jonas", "Ilse", "Tomas", "Nadia", "Pavel", "Greta", "Omar", "Livia", "Bruno", "Selma",
    "Viktor", "Amira", "Henrik", "Dora", "Matteo", "Yara", "Oskar", "Petra", "Samir", "Clara",
    "Emil", "Rosa", "Anton", "Leila", "Felix", "Marta", "Hugo", "Irina", "Casper",
)  # fmt: skip
TOWNS = (
    "Velmoor", "Harrowick", "Tarnsey", "Ostravel", "Brindal", "Quillport", "Sandrim", "Elverton",
    "Morwath", "Caldersy", "Fennholt", "Ruskavar",
)  # fmt: skip
THINGS = tuple(
    f"{colour} {thing}"
    for colour in ("brass", "green", "wooden", "silver", "striped", "black")
    for thing in ("telescope", "bicycle", "cello", "lantern", "chessboard", "kayak")
)
YEARS = range(1971, 2021)
MOST_PEOPLE = len(NAMES)
REPORTS_TO = "reports to"
SENTENCES = {
    "lives in": "{} lives in {}.",
    "owns": "{} owns the {}.",
    "joined in": "{} joined in {}.",
    REPORTS_TO: "{} reports to {}.",
}
YES_NO = ("yes", "no")
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


@dataclass(frozen=True, slots=True)
class World:
    """All facts, in the order in which they are told; the first person reports to nobody."""

    people: tuple[str, ...]
    facts: tuple[Fact, ...]

    def fact(self, person: str, relation: str) -> Fact:
        return next(f for f in self.facts if (f.subject, f.relation) == (person, relation))

    def managers(self, person: str) -> tuple[str, ...]:
        """Those whom a person reports to, directly first, up to the head."""
        chain: tuple[str, ...] = ()
        while person != self.people[0]:
            person = self.fact(person, REPORTS_TO).value
            chain += (person,)
        return chain


def made_world(rng: Random, size: int) -> World:
    """People with a home, a thing of their own, a year of their own, and a place in a hierarchy."""
    people = tuple(rng.sample(NAMES, size))
    towns = rng.sample(TOWNS, min(len(TOWNS), max(2, size // 2)))
    homes = rng.sample([towns[place % len(towns)] for place in range(size)], size)
    things, years = rng.sample(THINGS, size), rng.sample(YEARS, size)
    entries: list[tuple[str, str, str]] = []
    for place, (person, thing, year) in enumerate(zip(people, things, years, strict=True)):
        entries += [
            (person, "lives in", homes[place]),
            (person, "owns", thing),
            (person, "joined in", str(year)),
        ]
        if place:
            entries.append((person, REPORTS_TO, rng.choice(people[:place])))
    rng.shuffle(entries)
    facts = (
        Fact(f"f{n}", person, relation, value, SENTENCES[relation].format(person, value))
        for n, (person, relation, value) in enumerate(entries, start=1)
    )
    return World(people, tuple(facts))


class Draft(NamedTuple):
    """A question before it has its number."""

    kind: str
    prompt: str
    truth: str
    options: tuple[str, ...]
    needs: tuple[Fact, ...]
    claim: tuple[str, str] | None = None


Asker = Callable[[World, Random], Draft]


def home(world: World, rng: Random) -> Draft:
    fact = world.fact(rng.choice(world.people), "lives in")
    return _draft(world, rng, "recall", f"Where does {fact.subject} live?", fact.value, fact)


def owner(world: World, rng: Random) -> Draft:
    fact = world.fact(rng.choice(world.people), "owns")
    return _draft(world, rng, "recall", f"Who owns the {fact.value}?", fact.subject, fact)


def year(world: World, rng: Random) -> Draft:
    fact = world.fact(rng.choice(world.people), "joined in")
    prompt = f"In which year did {fact.subject} join?"
    return _draft(world, rng, "recall", prompt, fact.value, fact)


def manager(world: World, rng: Random) -> Draft:
    fact = world.fact(rng.choice(world.people[1:]), REPORTS_TO)
    prompt = f"To whom does {fact.subject} report directly?"
    return _draft(world, rng, "recall", prompt, fact.value, fact)


def converse(world: World, rng: Random) -> Draft:
    """A relation asked for from its other end."""
    fact = world.fact(rng.choice(world.people[1:]), REPORTS_TO)
    asked = fact.value if rng.random() < 0.5 else rng.choice(_others(world, fact.value))
    truth = "yes" if asked == fact.value else "no"
    prompt = f"Is {asked} the direct manager of {fact.subject}?"
    return Draft("converse", prompt, truth, YES_NO, (fact,), (fact.subject, asked))


def transitive(world: World, rng: Random) -> Draft:
    """A relation that holds, or not, through several steps."""
    person = rng.choice(world.people[1:])
    chain = world.managers(person)
    outside = [other for other in _others(world, person) if other not in chain]
    above = rng.random() < 0.5 or not outside
    asked = rng.choice(chain if above else outside)
    steps = chain.index(asked) + 1 if above else len(chain)
    links = (person, *chain)[:steps]
    prompt = f"Does {person} report to {asked}, directly or through others?"
    needs = tuple(world.fact(link, REPORTS_TO) for link in links)
    truth = "yes" if above else "no"
    return Draft("transitive", prompt, truth, YES_NO, needs, (person, asked))


def owner_home(world: World, rng: Random) -> Draft:
    person = rng.choice(world.people)
    thing, town = world.fact(person, "owns"), world.fact(person, "lives in")
    prompt = f"Where does the owner of the {thing.value} live?"
    return _draft(world, rng, "two-hop", prompt, town.value, thing, town)


def manager_year(world: World, rng: Random) -> Draft:
    link = world.fact(rng.choice(world.people[1:]), REPORTS_TO)
    joined = world.fact(link.value, "joined in")
    prompt = f"In which year did the direct manager of {link.subject} join?"
    return _draft(world, rng, "two-hop", prompt, joined.value, link, joined)


def earlier_owner(world: World, rng: Random) -> Draft:
    """Two owners compared by year: things and years never meet in a question before."""
    pair = rng.sample(world.people, 2)
    things = [world.fact(person, "owns") for person in pair]
    years = [world.fact(person, "joined in") for person in pair]
    first = min(years, key=lambda fact: int(fact.value)).subject
    prompt = f"Who joined first: the owner of the {things[0].value} or of the {things[1].value}?"
    return Draft("novel", prompt, first, tuple(pair), (*things, *years))


def manager_thing(world: World, rng: Random) -> Draft:
    """What a manager owns: hierarchy and things never meet in a question before."""
    link = world.fact(rng.choice(world.people[1:]), REPORTS_TO)
    thing = world.fact(link.value, "owns")
    prompt = f"What does the direct manager of {link.subject} own?"
    return _draft(world, rng, "novel", prompt, thing.value, link, thing)


def manager_of_owner_home(world: World, rng: Random) -> Draft:
    """Three steps where only two were ever asked."""
    thing = world.fact(rng.choice(world.people[1:]), "owns")
    link = world.fact(thing.subject, REPORTS_TO)
    town = world.fact(link.value, "lives in")
    prompt = f"Where does the direct manager of the owner of the {thing.value} live?"
    return _draft(world, rng, "novel", prompt, town.value, thing, link, town)


RECALL: tuple[Asker, ...] = (home, owner, year, manager)
INFERENCE: tuple[Asker, ...] = (converse, transitive, owner_home, manager_year)
NOVEL: tuple[Asker, ...] = (earlier_owner, manager_thing, manager_of_owner_home)


def _draft(world: World, rng: Random, kind: str, prompt: str, truth: str, *needs: Fact) -> Draft:
    """A question with options of the truth's own kind, drawn from the same world."""
    if truth in world.people:
        others = list(world.people)
    else:
        relation = next(fact.relation for fact in needs[::-1] if fact.value == truth)
        others = [fact.value for fact in world.facts if fact.relation == relation]
    return Draft(kind, prompt, truth, choices(rng, truth, others), needs)


def _others(world: World, person: str) -> list[str]:
    return [other for other in world.people if other != person]


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
    weight = min(1.0, len(draft.needs) / MOST_FACTS)
    # How long ago the oldest fact was told that the answer needs: 1 is the first fact.
    age = 1 - min(world.facts.index(fact) for fact in draft.needs) / len(world.facts)
    return Question(
        id=f"q{number}",
        kind=draft.kind,
        prompt=draft.prompt,
        truth=draft.truth,
        options=draft.options,
        weight=weight,
        difficulty=(weight + age) / 2,
        novel=draft.kind == "novel",
        needs=tuple(fact.id for fact in draft.needs),
        signal=wrong_one(rng, draft.options, draft.truth),
        claim=draft.claim,
    )
