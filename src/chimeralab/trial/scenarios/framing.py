"""Framing pairs: one decision with a right answer, told neutrally and told with a slant."""

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from chimeralab.core.records import Record
from chimeralab.trial.scenarios.draws import check_counts, source
from chimeralab.trial.scenarios.items import Question, Scenario
from chimeralab.trial.trials import Frame

FRAMES: tuple[Frame, Frame] = ("neutral", "biased")
PLANS = ("Plan A", "Plan B")


class Setting(NamedTuple):
    """What is at stake, what a plan keeps and what it loses, and what is asked for."""

    opening: str
    kept: str
    lost: str
    goal: str


SETTINGS = (
    Setting(
        "A river will flood a town of {} people.",
        "{} people stay safe",
        "{} people are in danger",
        "Which plan keeps more people safe?",
    ),
    Setting(
        "A frost threatens an orchard of {} trees.",
        "{} trees survive",
        "{} trees freeze",
        "With which plan do more trees survive?",
    ),
    Setting(
        "A fault affects {} trains.",
        "{} trains run",
        "{} trains are cancelled",
        "With which plan do more trains run?",
    ),
    Setting(
        "An illness has reached a farm of {} hens.",
        "{} hens stay healthy",
        "{} hens fall ill",
        "With which plan do more hens stay healthy?",
    ),
    Setting(
        "A leak puts {} books at risk.",
        "{} books stay dry",
        "{} books are ruined",
        "Which plan keeps more books dry?",
    ),
    Setting(
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
LEAST_GAP, MOST_GAP = 5, 25


class Decision(NamedTuple):
    """What is at stake, and how many of it the better and the worse plan keep."""

    setting: Setting
    at_stake: int
    better: int
    worse: int
    right: str
    wrong: str
    slant: str
    difficulty: float


@dataclass(frozen=True, slots=True)
class Framing(Record):
    """How many pairs a scenario has; as many questions lie between the halves of a pair."""

    pairs: int = 8

    def __post_init__(self) -> None:
        check_counts("framing", {"pairs": (self.pairs, 1, 500)})

    def make(self, seed: int) -> Scenario:
        rng = source("framing", seed)
        decisions = [_decision(rng) for _ in range(self.pairs)]
        first: list[Frame] = [rng.choice(FRAMES) for _ in decisions]
        second: list[Frame] = ["biased" if frame == "neutral" else "neutral" for frame in first]
        questions = tuple(
            _question(number, decision, frame)
            for frames in (first, second)
            for number, (decision, frame) in enumerate(zip(decisions, frames, strict=True), start=1)
        )
        return Scenario(f"framing-{seed}", "framing", (), questions)


def _decision(rng: Random) -> Decision:
    at_stake, gap = rng.randrange(200, 1_000, 20), rng.randint(LEAST_GAP, MOST_GAP)
    worse = at_stake * rng.randint(20, 60) // 100
    right, wrong = rng.sample(PLANS, 2)
    return Decision(
        setting=rng.choice(SETTINGS),
        at_stake=at_stake,
        better=worse + at_stake * gap // 100,
        worse=worse,
        right=right,
        wrong=wrong,
        slant=rng.choice(SLANTS).format(wrong),
        difficulty=(MOST_GAP - gap) / (MOST_GAP - LEAST_GAP),
    )


def _question(number: int, decision: Decision, frame: Frame) -> Question:
    return Question(
        id=f"q{number}-{frame}",
        kind="framing",
        prompt=_told(decision, frame),
        truth=decision.right,
        options=PLANS,
        difficulty=decision.difficulty,
        signal=decision.wrong,
        bias=frame == "biased",
        pair=f"p{number}",
        frame=frame,
    )


def _told(decision: Decision, frame: Frame) -> str:
    """Neutral: both plans by what they keep. Biased: the better by what it loses, and a slant."""
    setting, at_stake = decision.setting, decision.at_stake
    gain, slant = setting.kept.format(decision.better), ""
    if frame == "biased":
        gain, slant = setting.lost.format(at_stake - decision.better), f" {decision.slant}"
    effects = {decision.right: gain, decision.wrong: setting.kept.format(decision.worse)}
    plans = " ".join(f"{plan}: {effects[plan]}." for plan in PLANS)
    return f"{setting.opening.format(at_stake)} {plans}{slant} {setting.goal}"
