"""Scenarios generated from a seed: fact ledgers, beliefs, consensus and framing.

A ledger is a small world told as facts, with questions of recall, inference and novelty. The others
have questions but no facts. Their vocabulary is in `generators.toml`.
"""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from pathlib import Path
from random import Random

from chimeralab.core.records import Record
from chimeralab.trial.scenarios.items import (
    Clue,
    Fact,
    Question,
    Scenario,
    check_limits,
    draw_options,
    draw_wrong,
    make_rng,
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
# A question that needs this many facts has the full weight.
MAX_FACTS = 4


def _finish(rng: Random, drafts: Iterable[Question]) -> Iterator[Question]:
    """Number the drafts, and draw for each a wrong option for stressors to push."""
    for n, draft in enumerate(drafts, start=1):
        yield replace(draft, id=f"q{n}", signal=draw_wrong(rng, draft.options, str(draft.truth)))


@dataclass(frozen=True, slots=True)
class Ledger(Record):
    """A world of `people`, with a number of questions per family."""

    people: int = 8
    recall: int = 8
    inference: int = 6
    novel: int = 4

    def __post_init__(self) -> None:
        # A world of n people has at least n - 1 different questions of every family.
        limit = self.people - 1
        check_limits(
            "ledger",
            {
                "people": (self.people, 3, len(NAMES)),
                "recall": (self.recall, 0, 4 * limit),
                "inference": (self.inference, 0, 4 * limit),
                "novel": (self.novel, 0, 3 * limit),
            },
        )

    def make(self, seed: int) -> Scenario:
        rng = make_rng("ledger", seed)
        world = World(rng, self.people)
        families = ((RECALL, self.recall), (INFERENCE, self.inference), (NOVEL, self.novel))
        drafts = [draft for drafters, n in families for draft in _draft(rng, world, drafters, n)]
        rng.shuffle(drafts)
        questions = (world.add_weight(question) for question in _finish(rng, drafts))
        return Scenario(f"ledger-{seed}", "ledger", world.facts, tuple(questions))


class World:
    """People with a home, a possession, a joining year and a place in a hierarchy.

    Facts are in the order in which they are told; the first person reports to nobody.
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
        """The chain of command of a person, the direct manager first."""
        chain: tuple[str, ...] = ()
        while person != self.people[0]:
            person = self.fact(person, REPORTS_TO).value
            chain += (person,)
        return chain

    def others(self, person: str) -> list[str]:
        return [other for other in self.people if other != person]

    def add_weight(self, question: Question) -> Question:
        """Set weight and difficulty by how many facts a question needs, and how old they are."""
        weight = min(1.0, len(question.needs) / MAX_FACTS)
        # The age of the oldest fact needed: 1 for the first fact told.
        places = [place for place, fact in enumerate(self.facts) if fact.id in question.needs]
        age = 1 - min(places) / len(self.facts)
        novel = question.kind == "novel"
        return replace(question, weight=weight, difficulty=(weight + age) / 2, novel=novel)


# Drafts one question, still without an id, with the facts that its answer needs.
Drafter = Callable[[World, Random], Question]


def follow(
    kind: str, prompt: str, relations: tuple[str, ...], world: World, rng: Random
) -> Question:
    """Ask for what is found by following relations from a person or a possession."""
    first, *more = relations
    people = world.people[1:] if REPORTS_TO in relations else world.people
    fact = world.fact(rng.choice(people), first)
    # A possession leads to its owner, every other relation from a person to a value.
    start, found = fact.subject, fact.value
    if first == OWNS:
        start, found = found, start
    needs = [fact]
    for relation in more:
        needs.append(world.fact(found, relation))
        found = needs[-1].value
    # Options are of the same kind as the truth, from the same world.
    alike = [each.value for each in world.facts if each.relation == relations[-1]]
    options = draw_options(rng, found, world.people if found in world.people else alike)
    ids = tuple(each.id for each in needs)
    return Question("", kind, prompt.format(start), found, options, needs=ids)


def converse(world: World, rng: Random) -> Question:
    """Ask for a relation from its other end."""
    fact = world.fact(rng.choice(world.people[1:]), REPORTS_TO)
    asked = fact.value if rng.random() < 0.5 else rng.choice(world.others(fact.value))
    truth = "yes" if asked == fact.value else "no"
    prompt = f"Is {asked} the direct manager of {fact.subject}?"
    claim = fact.subject, asked
    return Question("", "converse", prompt, truth, YES_NO, needs=(fact.id,), claim=claim)


def transitive(world: World, rng: Random) -> Question:
    """Ask whether a relation holds through several steps."""
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
    """Compare two owners by year; no earlier question combines possessions and years."""
    pair = rng.sample(world.people, 2)
    things = [world.fact(person, OWNS) for person in pair]
    years = [world.fact(person, JOINED_IN) for person in pair]
    first = min(years, key=lambda fact: int(fact.value)).subject
    prompt = f"Who joined first: the owner of the {things[0].value} or of the {things[1].value}?"
    needs = tuple(fact.id for fact in (*things, *years))
    return Question("", "novel", prompt, first, tuple(pair), needs=needs)


RECALL: tuple[Drafter, ...] = (
    partial(follow, "recall", "Where does {} live?", (LIVES_IN,)),
    partial(follow, "recall", "Who owns the {}?", (OWNS,)),
    partial(follow, "recall", "In which year did {} join?", (JOINED_IN,)),
    partial(follow, "recall", "To whom does {} report directly?", (REPORTS_TO,)),
)
OWNER_HOME = "Where does the owner of the {} live?"
MANAGER_YEAR = "In which year did the direct manager of {} join?"
INFERENCE: tuple[Drafter, ...] = (
    converse,
    transitive,
    partial(follow, "two-hop", OWNER_HOME, (OWNS, LIVES_IN)),
    partial(follow, "two-hop", MANAGER_YEAR, (REPORTS_TO, JOINED_IN)),
)
# No earlier question combines hierarchy and possessions, or takes three steps.
MANAGER_THING = "What does the direct manager of {} own?"
MANAGER_HOME = "Where does the direct manager of the owner of the {} live?"
NOVEL: tuple[Drafter, ...] = (
    earlier_owner,
    partial(follow, "novel", MANAGER_THING, (REPORTS_TO, OWNS)),
    partial(follow, "novel", MANAGER_HOME, (OWNS, REPORTS_TO, LIVES_IN)),
)


def _draft(rng: Random, world: World, drafters: Sequence[Drafter], size: int) -> Iterator[Question]:
    """Draft distinct questions, each drafter in turn."""
    asked: set[str] = set()
    for drafter in cycle(drafters) if size else ():
        draft = drafter(world, rng)
        if draft.prompt not in asked:
            asked.add(draft.prompt)
            yield draft
        if len(asked) == size:
            return


NUMBERS = range(1_000, 10_000)
# Right readings in a hundred, of the hint and of the evidence against it.
HINT = 55
RELIABILITIES = (60, 75, 90, 98)


@dataclass(frozen=True, slots=True)
class Beliefs(Record):
    """A hint that points the wrong way, and evidence of rising strength against it.

    Odds are stated in the text, so the belief of an ideal reader is known.
    """

    items: int = 8

    def __post_init__(self) -> None:
        check_limits("beliefs", {"items": (self.items, 1, 1_000)})

    def make(self, seed: int) -> Scenario:
        rng = make_rng("beliefs", seed)
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
    """Perceptual and factual items in turn: easy alone, with a wrong option for others to name."""

    items: int = 12

    def __post_init__(self) -> None:
        check_limits("consensus", {"items": (self.items, 1, 1_000)})

    def make(self, seed: int) -> Scenario:
        rng = make_rng("consensus", seed)
        drawn = [KINDS[n % len(KINDS)](rng) for n in range(self.items)]
        rng.shuffle(drawn)
        return Scenario(f"consensus-{seed}", "consensus", (), tuple(_finish(rng, drawn)))


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
    """A sum, among near misses."""
    a, b = rng.randint(12, 88), rng.randint(12, 88)
    near = [str(a + b + step) for step in (-10, -1, 1, 10)]
    carries = (a % 10 + b % 10 >= 10) + (a + b >= 100)
    truth, options = str(a + b), draw_options(rng, str(a + b), near)
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
# How much more of what is at stake the better plan keeps, in percent.
MIN_GAP, MAX_GAP = 5, 25


@dataclass(frozen=True, slots=True)
class Framing(Record):
    """Decisions with a right answer, worded neutrally and with a bias.

    The halves of a pair are as many questions apart as there are `pairs`.
    """

    pairs: int = 8

    def __post_init__(self) -> None:
        check_limits("framing", {"pairs": (self.pairs, 1, 500)})

    def make(self, seed: int) -> Scenario:
        rng = make_rng("framing", seed)
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
    """Neutral: what both plans keep. Biased: what the better one loses, and a slant."""
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
