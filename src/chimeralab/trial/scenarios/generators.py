"""Scenarios made from a seed: fact ledgers, beliefs, consensus and framing.

A ledger is a small world told as facts, then asked for by recall, inference and novelty. The others
are questions alone, with no facts to be told. The words that they are made of stand beside this
file.
"""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random

from chimeralab.core.records import Record
from chimeralab.trial.scenarios.items import (
    Clue,
    Fact,
    Question,
    Scenario,
    check_counts,
    choices,
    source,
    wrong_one,
)
from chimeralab.trial.trials import REPORTS_TO, Frame

_WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
NAMES = tuple(_WORDS["ledger"]["names"].split())
TOWNS = tuple(_WORDS["ledger"]["towns"].split())
THINGS = tuple(
    f"{colour} {thing}"
    for colour in _WORDS["ledger"]["colours"].split()
    for thing in _WORDS["ledger"]["things"].split()
)
YEARS = range(1971, 2021)
LIVES_IN, OWNS, JOINED_IN = "lives in", "owns", "joined in"
SENTENCES = {
    LIVES_IN: "{} lives in {}.",
    OWNS: "{} owns the {}.",
    JOINED_IN: "{} joined in {}.",
    REPORTS_TO: "{} reports to {}.",
}
YES_NO = ("yes", "no")
# A question that rests on this many facts needs all the context that there is to need.
MAX_FACTS = 4


def _numbered(rng: Random, drafts: Iterable[Question]) -> Iterator[Question]:
    """Drafts with their numbers, and for each a wrong option that a stressor would push."""
    for n, draft in enumerate(drafts, start=1):
        yield replace(draft, id=f"q{n}", signal=wrong_one(rng, draft.options, str(draft.truth)))


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
                "people": (self.people, 3, len(NAMES)),
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
        questions = (world.weighed(question) for question in _numbered(rng, drafts))
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
                (person, LIVES_IN, homes[place]),
                (person, OWNS, thing),
                (person, JOINED_IN, str(year)),
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

    def weighed(self, question: Question) -> Question:
        """A question with how hard it is: by how many facts it needs, and how old they are."""
        weight = min(1.0, len(question.needs) / MAX_FACTS)
        # How long ago the oldest fact was told that the answer needs: 1 is the first fact.
        places = [place for place, fact in enumerate(self.facts) if fact.id in question.needs]
        age = 1 - min(places) / len(self.facts)
        novel = question.kind == "novel"
        return replace(question, weight=weight, difficulty=(weight + age) / 2, novel=novel)


# Draws one question that has no number yet, with the facts that its answer rests on.
Asker = Callable[[World, Random], Question]


def follow(
    kind: str, prompt: str, relations: tuple[str, ...], world: World, rng: Random
) -> Question:
    """Asks for what is found by following relations, from a person or from what somebody owns."""
    first, *more = relations
    people = world.people[1:] if REPORTS_TO in relations else world.people
    fact = world.fact(rng.choice(people), first)
    # A thing leads to its owner, and everything else from a person to a value.
    start, found = fact.subject, fact.value
    if first == OWNS:
        start, found = found, start
    needs = [fact]
    for relation in more:
        needs.append(world.fact(found, relation))
        found = needs[-1].value
    # The options are of the truth's own kind, drawn from the same world.
    alike = [each.value for each in world.facts if each.relation == relations[-1]]
    options = choices(rng, found, world.people if found in world.people else alike)
    ids = tuple(each.id for each in needs)
    return Question("", kind, prompt.format(start), found, options, needs=ids)


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


def earlier_owner(world: World, rng: Random) -> Question:
    """Two owners compared by year: things and years never meet in a question before."""
    pair = rng.sample(world.people, 2)
    things = [world.fact(person, OWNS) for person in pair]
    years = [world.fact(person, JOINED_IN) for person in pair]
    first = min(years, key=lambda fact: int(fact.value)).subject
    prompt = f"Who joined first: the owner of the {things[0].value} or of the {things[1].value}?"
    needs = tuple(fact.id for fact in (*things, *years))
    return Question("", "novel", prompt, first, tuple(pair), needs=needs)


RECALL: tuple[Asker, ...] = (
    partial(follow, "recall", "Where does {} live?", (LIVES_IN,)),
    partial(follow, "recall", "Who owns the {}?", (OWNS,)),
    partial(follow, "recall", "In which year did {} join?", (JOINED_IN,)),
    partial(follow, "recall", "To whom does {} report directly?", (REPORTS_TO,)),
)
OWNER_HOME = "Where does the owner of the {} live?"
MANAGER_YEAR = "In which year did the direct manager of {} join?"
INFERENCE: tuple[Asker, ...] = (
    converse,
    transitive,
    partial(follow, "two-hop", OWNER_HOME, (OWNS, LIVES_IN)),
    partial(follow, "two-hop", MANAGER_YEAR, (REPORTS_TO, JOINED_IN)),
)
# Hierarchy and things never meet in a question before, and three steps are never taken.
MANAGER_THING = "What does the direct manager of {} own?"
MANAGER_HOME = "Where does the direct manager of the owner of the {} live?"
NOVEL: tuple[Asker, ...] = (
    earlier_owner,
    partial(follow, "novel", MANAGER_THING, (REPORTS_TO, OWNS)),
    partial(follow, "novel", MANAGER_HOME, (OWNS, REPORTS_TO, LIVES_IN)),
)


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


NUMBERS = range(1_000, 10_000)
# Of a hundred readings, so many are right: first the hint, then the evidence against it.
HINT = 55
RELIABILITIES = (60, 75, 90, 98)


@dataclass(frozen=True, slots=True)
class Beliefs(Record):
    """A first hint points the wrong way, and evidence of rising strength against it.

    Odds are stated in the text, so that what a careful reader should believe is known exactly.
    """

    items: int = 8

    def __post_init__(self) -> None:
        check_counts("beliefs", {"items": (self.items, 1, 1_000)})

    def make(self, seed: int) -> Scenario:
        rng = source("beliefs", seed)
        named = rng.sample(NUMBERS, self.items)
        questions = tuple(_belief(rng, n, number) for n, number in enumerate(named, start=1))
        return Scenario(f"beliefs-{seed}", "beliefs", (), questions)


def _belief(rng: Random, place: int, number: int) -> Question:
    opening, claim, witness = rng.choice(_WORDS["beliefs"]["cases"])
    truth, wrong = rng.sample(rng.choice(_WORDS["beliefs"]["sides"]), 2)
    options = tuple(rng.sample((truth, wrong), 2))
    said = claim.format(truth).rstrip(".")
    evidence = tuple(
        Clue(f"A {witness} that is right {right} times in 100 says: {said}.", right / (100 - right))
        for right in RELIABILITIES
    )
    prompt = (
        f"{opening.format(number)} There are two candidates: {options[0]} and {options[1]}."
        f" A note that is right {HINT} times in 100 says: {claim.format(wrong)}"
        " Which is it more likely to be?"
    )
    return Question(
        id=f"q{place}",
        kind="belief",
        prompt=prompt,
        truth=truth,
        options=options,
        signal=wrong,
        evidence=evidence,
    )


LETTERS = ("A", "B", "C")
WORDS = tuple(_WORDS["consensus"]["words"].split())


@dataclass(frozen=True, slots=True)
class Consensus(Record):
    """Easy to get right alone, with a wrong option for the others to agree on.

    Perceptual and factual items alternate.
    """

    items: int = 12

    def __post_init__(self) -> None:
        check_counts("consensus", {"items": (self.items, 1, 1_000)})

    def make(self, seed: int) -> Scenario:
        rng = source("consensus", seed)
        drawn = [KINDS[n % len(KINDS)](rng) for n in range(self.items)]
        rng.shuffle(drawn)
        return Scenario(f"consensus-{seed}", "consensus", (), tuple(_numbered(rng, drawn)))


def lines(rng: Random) -> Question:
    """Asch's task in characters: which line is as long as the reference?"""
    length, gap = rng.randint(12, 24), rng.randint(2, 8)
    lengths = [length, length - gap, length + gap]
    rng.shuffle(lengths)
    rows = _rows("=", lengths)
    prompt = f"Reference: {'=' * length}\n{rows}\nWhich line is as long as the reference?"
    truth = LETTERS[lengths.index(length)]
    return Question("", "perceptual", prompt, truth, LETTERS, difficulty=1 - gap / 8)


def stars(rng: Random) -> Question:
    """Which row has the most stars?"""
    most, gap = rng.randint(9, 15), rng.randint(1, 5)
    counts = [most, most - gap, most - gap - rng.randint(0, 2)]
    rng.shuffle(counts)
    prompt = f"{_rows('*', counts)}\nWhich row has the most stars?"
    truth = LETTERS[counts.index(most)]
    return Question("", "perceptual", prompt, truth, LETTERS, difficulty=1 - gap / 5)


def total(rng: Random) -> Question:
    """A sum, among sums that are nearly right."""
    a, b = rng.randint(12, 88), rng.randint(12, 88)
    near = [str(a + b + step) for step in (-10, -1, 1, 10)]
    carries = (a % 10 + b % 10 >= 10) + (a + b >= 100)
    truth, options = str(a + b), choices(rng, str(a + b), near)
    return Question("", "factual", f"What is {a} + {b}?", truth, options, difficulty=carries / 2)


def alphabet(rng: Random) -> Question:
    """Which word comes first in the alphabet?"""
    words = tuple(rng.sample(WORDS, 4))
    first, second, *_ = sorted(words)
    distance = WORDS.index(second) - WORDS.index(first)
    prompt = f"Which of these words comes first in the alphabet: {', '.join(words)}?"
    return Question("", "factual", prompt, first, words, difficulty=max(0.0, 1 - distance / 10))


KINDS: tuple[Callable[[Random], Question], ...] = (lines, total, stars, alphabet)


def _rows(mark: str, lengths: list[int]) -> str:
    return "\n".join(f"{letter}: {mark * n}" for letter, n in zip(LETTERS, lengths, strict=True))


FRAMES: tuple[Frame, Frame] = ("neutral", "biased")
PLANS = ("Plan A", "Plan B")
# The better plan keeps this share more of what is at stake, in percent.
MIN_GAP, MAX_GAP = 5, 25


@dataclass(frozen=True, slots=True)
class Framing(Record):
    """One decision with a right answer, told neutrally and told with a slant.

    As many questions lie between the halves of a pair as there are `pairs`.
    """

    pairs: int = 8

    def __post_init__(self) -> None:
        check_counts("framing", {"pairs": (self.pairs, 1, 500)})

    def make(self, seed: int) -> Scenario:
        rng = source("framing", seed)
        pairs = [_decision(rng, number) for number in range(1, self.pairs + 1)]
        first: list[Frame] = [rng.choice(FRAMES) for _ in pairs]
        second: list[Frame] = ["biased" if frame == "neutral" else "neutral" for frame in first]
        questions = tuple(
            pair[frame]
            for frames in (first, second)
            for pair, frame in zip(pairs, frames, strict=True)
        )
        return Scenario(f"framing-{seed}", "framing", (), questions)


def _decision(rng: Random, number: int) -> dict[Frame, Question]:
    """Neutral: both plans by what they keep. Biased: the better by what it loses, and a slant."""
    at_stake, gap = rng.randrange(200, 1_000, 20), rng.randint(MIN_GAP, MAX_GAP)
    worse = at_stake * rng.randint(20, 60) // 100
    better = worse + at_stake * gap // 100
    right, wrong = rng.sample(PLANS, 2)
    opening, kept, lost, goal = rng.choice(_WORDS["framing"]["decisions"])
    slant = rng.choice(_WORDS["framing"]["slants"]).format(wrong)

    def question(frame: Frame, gain: str, slant: str = "") -> Question:
        effects = {right: gain, wrong: kept.format(worse)}
        plans = " ".join(f"{plan}: {effects[plan]}." for plan in PLANS)
        return Question(
            id=f"q{number}-{frame}",
            kind="framing",
            prompt=f"{opening.format(at_stake)} {plans}{slant} {goal}",
            truth=right,
            options=PLANS,
            difficulty=(MAX_GAP - gap) / (MAX_GAP - MIN_GAP),
            signal=wrong,
            bias=frame == "biased",
            pair=f"p{number}",
            frame=frame,
        )

    return {
        "neutral": question("neutral", kept.format(better)),
        "biased": question("biased", lost.format(at_stake - better), f" {slant}"),
    }
