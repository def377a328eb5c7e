"""Belief items: a first hint points the wrong way, and evidence of rising strength against it.

Odds are stated in the text, so that what a careful reader should believe is known exactly.
"""

from dataclasses import dataclass
from random import Random

from chimeralab.core.records import Record
from chimeralab.trial.scenarios.draws import check_counts, source
from chimeralab.trial.scenarios.items import Clue, Question, Scenario

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
    """How many items a scenario has."""

    items: int = 8

    def __post_init__(self) -> None:
        check_counts("beliefs", {"items": (self.items, 1, 1_000)})

    def make(self, seed: int) -> Scenario:
        rng = source("beliefs", seed)
        named = rng.sample(NUMBERS, self.items)
        questions = tuple(_item(rng, n, number) for n, number in enumerate(named, start=1))
        return Scenario(f"beliefs-{seed}", "beliefs", (), questions)


def posterior(odds: float, hint: float = HINT / (100 - HINT)) -> float:
    """What a careful reader should believe of the truth once evidence of these odds is in.

    >>> round(posterior(9.0), 3)
    0.88
    """
    return odds / (odds + hint)


def _item(rng: Random, place: int, number: int) -> Question:
    opening, claim, witness = rng.choice(CASES)
    truth, wrong = rng.sample(rng.choice(SIDES), 2)
    options = tuple(rng.sample((truth, wrong), 2))
    said = claim.format(truth).rstrip(".")
    evidence = tuple(
        Clue(f"A {witness} that is right {right} times in 100 says: {said}.", odds(right))
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


def odds(right: int) -> float:
    """Odds of a reading that is right so many times in a hundred.

    >>> odds(75)
    3.0
    """
    return right / (100 - right)
