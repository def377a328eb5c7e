"""Scenarios of questions alone, with no facts to be told: beliefs, consensus and framing."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from chimeralab.core.records import Record
from chimeralab.trial.scenarios.items import (
    Clue,
    Question,
    Scenario,
    check_counts,
    choices,
    source,
    wrong_one,
)
from chimeralab.trial.trials import Frame

# What happened to which of many, what may be true of it, and who can be asked.
CASES = (
    ("Parcel {} arrived without a sender.", "It came from the {} depot.", "tag reader"),
    ("Bell {} was cast long ago.", "It was cast in the {} foundry.", "metal probe"),
    ("Seed {} sprouted in the tray.", "It is from the {} packet.", "leaf scanner"),
    ("Bottle {} held a message.", "It was thrown from the {} pier.", "drift model"),
    ("Coin {} lay in the field.", "It was struck at the {} mint.", "weighing table"),
    ("Recording {} has lost its label.", "It was made in the {} hall.", "sound test"),
)
NUMBERS = range(1_000, 10_000)
SIDES = (
    ("north", "south"), ("east", "west"), ("upper", "lower"), ("old", "new"), ("red", "blue"),
    ("inner", "outer"),
)  # fmt: skip
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
    opening, claim, witness = rng.choice(CASES)
    truth, wrong = rng.sample(rng.choice(SIDES), 2)
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
WORDS = (
    "amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "juniper",
    "kettle", "lagoon", "maple", "nectar", "otter", "pepper", "quartz", "raven", "saddle", "tulip",
    "umber", "velvet", "willow", "yarrow", "zephyr",
)  # fmt: skip


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
        questions = (
            replace(each, id=f"q{n}", signal=wrong_one(rng, each.options, str(each.truth)))
            for n, each in enumerate(drawn, start=1)
        )
        return Scenario(f"consensus-{seed}", "consensus", (), tuple(questions))


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
# What is at stake, what a plan keeps and what it loses, and what is asked for.
SETTINGS = (
    (
        "A river will flood a town of {} people.",
        "{} people stay safe",
        "{} people are in danger",
        "Which plan keeps more people safe?",
    ),
    (
        "A frost threatens an orchard of {} trees.",
        "{} trees survive",
        "{} trees freeze",
        "With which plan do more trees survive?",
    ),
    (
        "A fault affects {} trains.",
        "{} trains run",
        "{} trains are cancelled",
        "With which plan do more trains run?",
    ),
    (
        "An illness has reached a farm of {} hens.",
        "{} hens stay healthy",
        "{} hens fall ill",
        "With which plan do more hens stay healthy?",
    ),
    (
        "A leak puts {} books at risk.",
        "{} books stay dry",
        "{} books are ruined",
        "Which plan keeps more books dry?",
    ),
    (
        "A storm may cut the power of {} homes.",
        "{} homes keep power",
        "{} homes go dark",
        "With which plan do more homes keep power?",
    ),
)
# Things that are said of the worse plan and change nothing about what it does.
SLANTS = (
    "{} is the one already in place.",
    "{} was drawn up by the most senior engineer.",
    "{} has been praised in the local paper.",
    "Much work has gone into {} and would be wasted.",
    "{} is the bold choice.",
)
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
    opening, kept, lost, goal = rng.choice(SETTINGS)
    slant = rng.choice(SLANTS).format(wrong)

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
