"""The made-up world behind a fact ledger: people, their homes, their things, their hierarchy."""

from dataclasses import dataclass
from random import Random

from chimeralab.sandbox.scenarios.items import Fact, Relation

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
REPORTS_TO: Relation = "reports to"
SENTENCES: dict[Relation, str] = {
    "lives in": "{} lives in {}.",
    "owns": "{} owns the {}.",
    "joined in": "{} joined in {}.",
    "reports to": "{} reports to {}.",
}


def stated(number: int, subject: str, relation: Relation, value: str) -> Fact:
    """A fact with its sentence.

    >>> stated(3, "Mara", "owns", "brass telescope").text
    'Mara owns the brass telescope.'
    """
    return Fact(f"f{number}", subject, relation, value, SENTENCES[relation].format(subject, value))


@dataclass(frozen=True, slots=True)
class World:
    """All facts, in the order in which they are told; the first person reports to nobody."""

    people: tuple[str, ...]
    facts: tuple[Fact, ...]

    def fact(self, person: str, relation: Relation) -> Fact:
        return next(f for f in self.facts if (f.subject, f.relation) == (person, relation))

    def value(self, person: str, relation: Relation) -> str:
        return self.fact(person, relation).value

    def managers(self, person: str) -> tuple[str, ...]:
        """Those whom a person reports to, directly first, up to the head."""
        chain: tuple[str, ...] = ()
        while person != self.people[0]:
            person = self.value(person, "reports to")
            chain += (person,)
        return chain


def made_world(rng: Random, size: int) -> World:
    """People with a home, a thing of their own, a year of their own, and a place in a hierarchy."""
    people = tuple(rng.sample(NAMES, size))
    towns = rng.sample(TOWNS, min(len(TOWNS), max(2, size // 2)))
    homes = rng.sample([towns[place % len(towns)] for place in range(size)], size)
    things, years = rng.sample(THINGS, size), rng.sample(YEARS, size)
    entries: list[tuple[str, Relation, str]] = []
    for place, (person, thing, year) in enumerate(zip(people, things, years, strict=True)):
        entries += [
            (person, "lives in", homes[place]),
            (person, "owns", thing),
            (person, "joined in", str(year)),
        ]
        if place:
            entries.append((person, "reports to", rng.choice(people[:place])))
    rng.shuffle(entries)
    return World(people, tuple(stated(n, *entry) for n, entry in enumerate(entries, start=1)))
