"""Fact ledgers: a small world told as facts, then asked for by recall, inference and novelty.

Everything in it is made up, so that no subject can know it from elsewhere. Each function that takes
a world and a random source draws one question, with the facts that its answer rests on.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from chimeralab.core.records import Record
from chimeralab.trial.scenarios.items import (
    Fact,
    Question,
    Scenario,
    check_counts,
    choices,
    source,
    wrong_one,
)

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
        world = World(rng, self.people)
        families = ((RECALL, self.recall), (INFERENCE, self.inference), (NOVEL, self.novel))
        drafts = [draft for askers, n in families for draft in _drawn(rng, world, askers, n)]
        rng.shuffle(drafts)
        questions = (_numbered(rng, world, n, draft) for n, draft in enumerate(drafts, start=1))
        return Scenario(f"ledger-{seed}", "ledger", world.facts, tuple(questions))


class World:
    """People with a home, a thing of their own, a year of their own, and a place in a hierarchy.

    The facts stand in the order in which they are told; the first person reports to nobody.
    """

    def __init__(self, rng: Random, size: int) -> None:
        people = self.people = tuple(rng.sample(NAMES, size))
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
        self.facts = tuple(
            Fact(f"f{n}", person, relation, value, SENTENCES[relation].format(person, value))
            for n, (person, relation, value) in enumerate(entries, start=1)
        )

    def fact(self, person: str, relation: str) -> Fact:
        return next(f for f in self.facts if (f.subject, f.relation) == (person, relation))

    def managers(self, person: str) -> tuple[str, ...]:
        """Those whom a person reports to, directly first, up to the head."""
        chain: tuple[str, ...] = ()
        while person != self.people[0]:
            person = self.fact(person, REPORTS_TO).value
            chain += (person,)
        return chain

    def others(self, person: str) -> list[str]:
        return [other for other in self.people if other != person]


# Draws one question that has no number yet.
Asker = Callable[[World, Random], Question]


def home(world: World, rng: Random) -> Question:
    fact = world.fact(rng.choice(world.people), "lives in")
    return _draft(world, rng, "recall", f"Where does {fact.subject} live?", fact.value, fact)


def owner(world: World, rng: Random) -> Question:
    fact = world.fact(rng.choice(world.people), "owns")
    return _draft(world, rng, "recall", f"Who owns the {fact.value}?", fact.subject, fact)


def year(world: World, rng: Random) -> Question:
    fact = world.fact(rng.choice(world.people), "joined in")
    prompt = f"In which year did {fact.subject} join?"
    return _draft(world, rng, "recall", prompt, fact.value, fact)


def manager(world: World, rng: Random) -> Question:
    fact = world.fact(rng.choice(world.people[1:]), REPORTS_TO)
    prompt = f"To whom does {fact.subject} report directly?"
    return _draft(world, rng, "recall", prompt, fact.value, fact)


def converse(world: World, rng: Random) -> Question:
    """A relation asked for from its other end."""
    fact = world.fact(rng.choice(world.people[1:]), REPORTS_TO)
    asked = fact.value if rng.random() < 0.5 else rng.choice(world.others(fact.value))
    truth = "yes" if asked == fact.value else "no"
    prompt = f"Is {asked} the direct manager of {fact.subject}?"
    claim = fact.subject, asked
    return Question("", "converse", prompt, truth, YES_NO, needs=(fact.id,), claim=claim)


def transitive(world: World, rng: Random) -> Question:
    """A relation that holds, or not, through several steps."""
    person = rng.choice(world.people[1:])
    chain = world.managers(person)
    outside = [other for other in world.others(person) if other not in chain]
    above = rng.random() < 0.5 or not outside
    asked = rng.choice(chain if above else outside)
    steps = chain.index(asked) + 1 if above else len(chain)
    links = (person, *chain)[:steps]
    prompt = f"Does {person} report to {asked}, directly or through others?"
    needs = tuple(world.fact(link, REPORTS_TO).id for link in links)
    truth, claim = "yes" if above else "no", (person, asked)
    return Question("", "transitive", prompt, truth, YES_NO, needs=needs, claim=claim)


def owner_home(world: World, rng: Random) -> Question:
    person = rng.choice(world.people)
    thing, town = world.fact(person, "owns"), world.fact(person, "lives in")
    prompt = f"Where does the owner of the {thing.value} live?"
    return _draft(world, rng, "two-hop", prompt, town.value, thing, town)


def manager_year(world: World, rng: Random) -> Question:
    link = world.fact(rng.choice(world.people[1:]), REPORTS_TO)
    joined = world.fact(link.value, "joined in")
    prompt = f"In which year did the direct manager of {link.subject} join?"
    return _draft(world, rng, "two-hop", prompt, joined.value, link, joined)


def earlier_owner(world: World, rng: Random) -> Question:
    """Two owners compared by year: things and years never meet in a question before."""
    pair = rng.sample(world.people, 2)
    things = [world.fact(person, "owns") for person in pair]
    years = [world.fact(person, "joined in") for person in pair]
    first = min(years, key=lambda fact: int(fact.value)).subject
    prompt = f"Who joined first: the owner of the {things[0].value} or of the {things[1].value}?"
    needs = tuple(fact.id for fact in (*things, *years))
    return Question("", "novel", prompt, first, tuple(pair), needs=needs)


def manager_thing(world: World, rng: Random) -> Question:
    """What a manager owns: hierarchy and things never meet in a question before."""
    link = world.fact(rng.choice(world.people[1:]), REPORTS_TO)
    thing = world.fact(link.value, "owns")
    prompt = f"What does the direct manager of {link.subject} own?"
    return _draft(world, rng, "novel", prompt, thing.value, link, thing)


def manager_of_owner_home(world: World, rng: Random) -> Question:
    """Three steps where only two were ever asked."""
    thing = world.fact(rng.choice(world.people[1:]), "owns")
    link = world.fact(thing.subject, REPORTS_TO)
    town = world.fact(link.value, "lives in")
    prompt = f"Where does the direct manager of the owner of the {thing.value} live?"
    return _draft(world, rng, "novel", prompt, town.value, thing, link, town)


RECALL: tuple[Asker, ...] = (home, owner, year, manager)
INFERENCE: tuple[Asker, ...] = (converse, transitive, owner_home, manager_year)
NOVEL: tuple[Asker, ...] = (earlier_owner, manager_thing, manager_of_owner_home)


def _draft(world: World, rng: Random, kind: str, prompt: str, truth: str, *needs: Fact) -> Question:
    """A question with options of the truth's own kind, drawn from the same world."""
    if truth in world.people:
        others = list(world.people)
    else:
        relation = next(fact.relation for fact in needs[::-1] if fact.value == truth)
        others = [fact.value for fact in world.facts if fact.relation == relation]
    options, ids = choices(rng, truth, others), tuple(fact.id for fact in needs)
    return Question("", kind, prompt, truth, options, needs=ids)


def _drawn(rng: Random, world: World, askers: Sequence[Asker], size: int) -> Iterator[Question]:
    """Different questions, the ways of asking taken in turn."""
    asked: set[str] = set()
    turn = 0
    while len(asked) < size:
        draft = askers[turn % len(askers)](world, rng)
        turn += 1
        if draft.prompt not in asked:
            asked.add(draft.prompt)
            yield draft


def _numbered(rng: Random, world: World, number: int, draft: Question) -> Question:
    weight = min(1.0, len(draft.needs) / MOST_FACTS)
    # How long ago the oldest fact was told that the answer needs: 1 is the first fact.
    places = [place for place, fact in enumerate(world.facts) if fact.id in draft.needs]
    age = 1 - min(places) / len(world.facts)
    return replace(
        draft,
        id=f"q{number}",
        weight=weight,
        difficulty=(weight + age) / 2,
        novel=draft.kind == "novel",
        signal=wrong_one(rng, draft.options, str(draft.truth)),
    )
