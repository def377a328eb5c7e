"""Questions about a ledger: what it says, what follows from it, and what was never asked so before.

Each function draws one question, with the facts that its answer rests on.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from chimeralab.sandbox.scenarios.draw import choices
from chimeralab.sandbox.scenarios.items import Fact
from chimeralab.sandbox.scenarios.ledger_world import World

YES_NO = ("yes", "no")


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
    fact = world.fact(rng.choice(world.people[1:]), "reports to")
    prompt = f"To whom does {fact.subject} report directly?"
    return _draft(world, rng, "recall", prompt, fact.value, fact)


def converse(world: World, rng: Random) -> Draft:
    """A relation asked for from its other end."""
    fact = world.fact(rng.choice(world.people[1:]), "reports to")
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
    needs = tuple(world.fact(link, "reports to") for link in links)
    truth = "yes" if above else "no"
    return Draft("transitive", prompt, truth, YES_NO, needs, (person, asked))


def owner_home(world: World, rng: Random) -> Draft:
    person = rng.choice(world.people)
    thing, town = world.fact(person, "owns"), world.fact(person, "lives in")
    prompt = f"Where does the owner of the {thing.value} live?"
    return _draft(world, rng, "two-hop", prompt, town.value, thing, town)


def manager_year(world: World, rng: Random) -> Draft:
    link = world.fact(rng.choice(world.people[1:]), "reports to")
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
    link = world.fact(rng.choice(world.people[1:]), "reports to")
    thing = world.fact(link.value, "owns")
    prompt = f"What does the direct manager of {link.subject} own?"
    return _draft(world, rng, "novel", prompt, thing.value, link, thing)


def manager_of_owner_home(world: World, rng: Random) -> Draft:
    """Three steps where only two were ever asked."""
    thing = world.fact(rng.choice(world.people[1:]), "owns")
    link = world.fact(thing.subject, "reports to")
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
