"""Escape and relapse of simulated loops: do the intervals hold the truth, is a sham found?"""

import argparse
from collections import Counter

import numpy as np

from benchmarks.table import Result, keep
from chimeralab.selfplay.escape import (
    MEASURES,
    Against,
    Escape,
    EscapeMeasure,
    PerturbedLoop,
    analyse_escape,
    follow_turns,
)
from chimeralab.stats.arrays import Floats
from chimeralab.stats.intervals import Interval

COMMAND = "python -m benchmarks.validity.escape"
TURNS, PROMPTS, REPEATS = 40, 24, 2
ONSETS = range(6, 22)
SETTINGS = Escape()
# Probabilities at each turn: a loop ends (easily or hardly, by prompt), begins again, or stops.
ENDS = {"nudge": (0.35, 0.15), "sham": (0.16, 0.06), "none": (0.16, 0.06)}
RETURNS = {"nudge": 0.06, "sham": 0.12, "none": 0.12}
STOPS = 0.005
SHARES: tuple[EscapeMeasure, ...] = ("escape", "relapse", "turns_free")
ASKED = [Against(arm, "none", measure) for measure in SHARES for arm in ("nudge", "sham")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=500)
    simulate(parser.parse_known_args()[0].studies)


def simulate(studies: int) -> dict[str, float]:
    """Print and keep how often each interval holds the truth, and how often p is below 5 %."""
    hits, known, found = Counter[str](), Counter[str](), Counter[str]()
    rng = np.random.default_rng(1)
    truths = {arm: true_measures(arm) for arm in ENDS}
    for _ in range(studies):
        result = analyse_escape(draw_study(rng), SETTINGS, list(ENDS), ASKED)
        for name, arm in result.arms.items():
            for measure in SHARES:
                estimate = arm.estimates[measure]
                _count(f"{measure}, {name}", estimate.interval, truths[name][measure], hits, known)
        for effect in result.comparisons:
            what = f"{effect.measure}, {effect.a} − {effect.b}"
            truth = truths[effect.a][effect.measure] - truths[effect.b][effect.measure]
            _count(what, effect.interval, truth, hits, known)
            found[what] += effect.p is not None and effect.p < 0.05
    size = f"{studies:,} studies of {PROMPTS} prompts × {REPEATS} repeats"
    shares = {name: hits[name] / n for name, n in known.items()}
    for name, share in shares.items():
        met = 0.92 <= share <= 0.98
        value = f"{share:.3f}"
        keep(Result(f"escape, coverage: {name}", value, "0.92 - 0.98", met, COMMAND, size))
    for measure in SHARES:
        share = found[f"{measure}, sham − none"] / studies
        met = 0.03 <= share <= 0.07
        name = f"escape, sham significant: {measure}"
        keep(Result(name, f"{share:.3f}", "0.03 - 0.07", met, COMMAND, size))
    return shares


def _count(
    name: str, interval: Interval | None, truth: float, hits: Counter[str], known: Counter[str]
) -> None:
    known[name] += 1
    hits[name] += interval is not None and interval.low <= truth <= interval.high


def draw_study(rng: np.random.Generator) -> list[PerturbedLoop]:
    """Every prompt under every arm: a loop from its onset on, perturbed two turns later."""
    courses = []
    for prompt in range(PROMPTS):
        easy = int(rng.random() < 0.5)
        for _ in range(REPEATS):
            onset = int(rng.choice(ONSETS))
            for arm in ENDS:
                courses.append(draw_course(rng, arm, str(prompt), (onset, easy)))
    return courses


def draw_course(
    rng: np.random.Generator, arm: str, prompt: str, place: tuple[int, int]
) -> PerturbedLoop:
    onset, easy = place
    moment, collapsed, looping = onset + 2, set(range(onset, onset + 3)), True
    for turn in range(moment + 1, TURNS + 1):
        stops, changes = rng.random(2)
        if stops < STOPS:
            last = turn - 1
            break
        looping = changes >= ENDS[arm][easy] if looping else changes < RETURNS[arm]
        if looping:
            collapsed.add(turn)
    else:
        last = TURNS
    ages = follow_turns(collapsed, range(1, last + 1), moment, SETTINGS.free)
    return PerturbedLoop(
        "duo", arm, prompt, moment, ages[0], last - moment, last < TURNS, *ages[1:]
    )


def true_measures(arm: str) -> dict[str, float]:
    """What the chain of states gives without any sampling, over easy and hard prompts."""
    both = [_chain(end, RETURNS[arm]) for end in ENDS[arm]]
    escape, free = (float(np.mean([each[n] for each in both])) for n in (0, 1))
    stay, relapse = 1.0, 0.0
    for _ in range(SETTINGS.horizon):
        relapse += stay * (1 - STOPS) * RETURNS[arm]
        stay *= (1 - STOPS) * (1 - RETURNS[arm])
    return {"escape": escape, "relapse": relapse, "turns_free": free}


def _chain(ends: float, returns: float) -> tuple[float, float]:
    """The probability of an escape by the horizon, and the turns free of the loop until then."""
    need = SETTINGS.free
    # In the loop, free for one turn and so on, escaped, relapsed.
    states: Floats = np.zeros(need + 2)
    states[0], escaped, free = 1.0, 0.0, 0.0
    for _ in range(SETTINGS.horizon):
        after = np.zeros_like(states)
        after[0] = states[0] * (1 - ends) + states[1:need].sum() * returns
        after[1] = states[0] * ends
        after[2 : need + 1] = states[1:need] * (1 - returns)
        escaped += float(after[need]) * (1 - STOPS)
        after[need] += states[need] * (1 - returns)
        after[need + 1] = states[need] * returns
        states = after * (1 - STOPS)
        free += float(states[need])
    return escaped, free


assert set(SHARES) <= set(MEASURES)
if __name__ == "__main__":
    main()
