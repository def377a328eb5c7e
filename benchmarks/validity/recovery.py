"""Does the lab find what is there? Subjects with known parameters, put through simulated trials.

Coverage: how often the interval of a parameter holds its true value, and that of a difference or an
interaction which `chimera analyse` prints. Null: how often the sham arm differs from the control.
Dose: whether more of a stressor moves what it is aimed at. Arguments name the parts to measure, as
in `null amnesia×infallibility`; without any, all are.
"""

import math
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from benchmarks.table import Result, keep
from benchmarks.validity import parameters
from chimeralab.testing.sessions import play
from chimeralab.trial.columns import columns_of
from chimeralab.trial.course import Course, Layout
from chimeralab.trial.effects import (
    MeasureEstimate,
    estimate_effects,
    estimate_measure,
    factorial_contrasts,
    measure_sessions,
    reference_contrasts,
)
from chimeralab.trial.metrics import Metrics, MetricWeights, measure
from chimeralab.trial.phantoms import PhantomSubject, PhantomSubjectSettings
from chimeralab.trial.probes import PROBES
from chimeralab.trial.scenarios import Ledger
from chimeralab.trial.script import Arm, Script
from chimeralab.trial.stressors import Amnesia, Conformity, Infallibility
from chimeralab.trial.stressors.seam import Stressor
from chimeralab.trial.trials import TrialRow

COMMAND = "python -m benchmarks.validity.recovery"
SIMULATIONS = 2_000
# Differences take several arms and many resamples each.
FEWER = 500
SCENARIOS = 12
ROUNDS, MOST_ROUNDS, STRENGTH, SIZE = 2, 3, 0.9, 4
# Each parameter is varied on a subject that has no other weakness.
PLAIN = PhantomSubjectSettings(
    recall=1, forgetting=0, credulity=0, rigidity=0, conformity=0, overconfidence=0
)
SHORT = Ledger(people=6, recall=6, inference=0, novel=0)
CONTROL = Arm({})


class Exposure(NamedTuple):
    """The subjects, stressors, arms and probes of the trial."""

    layout: Layout
    arm: Arm
    probes: tuple[str, ...]
    subject: PhantomSubjectSettings


class Case(NamedTuple):
    """A parameter's true value, the trials that show it, and how it is estimated."""

    truth: float
    exposure: Exposure
    estimate: Callable[[list[TrialRow]], MeasureEstimate]


QUIET = Layout(beliefs=0, consensus=0, recall_every=1)
COMPANY = Layout(beliefs=0, consensus=1, critical=1, recall_every=100)
TAUGHT = Layout(beliefs=4, tested=1, consensus=0, recall_every=100)
TEACHING = Arm({"infallibility": Infallibility(ROUNDS, strength=STRENGTH)})
FALSE_EVIDENCE = Arm({"infallibility": Infallibility(ROUNDS, strength=STRENGTH, evidence="false")})
CROWD = Arm({"conformity": Conformity(SIZE)})
CASES = {
    "recall": Case(
        0.7, Exposure(QUIET, CONTROL, ("recall",), replace(PLAIN, recall=0.7)), parameters.recall
    ),
    "forgetting": Case(
        0.15,
        Exposure(QUIET, CONTROL, ("recall",), replace(PLAIN, forgetting=0.15)),
        parameters.forgetting,
    ),
    "credulity": Case(
        0.4,
        Exposure(TAUGHT, TEACHING, (), replace(PLAIN, credulity=0.4, rigidity=1)),
        partial(parameters.credulity, rounds=ROUNDS),
    ),
    "rigidity": Case(
        0.25,
        Exposure(TAUGHT, TEACHING, (), replace(PLAIN, credulity=1, rigidity=0.25)),
        partial(parameters.rigidity, rounds=ROUNDS, strength=STRENGTH),
    ),
    "conformity": Case(
        0.15,
        Exposure(COMPANY, CROWD, ("alone",), replace(PLAIN, conformity=0.15)),
        partial(parameters.conformity, size=SIZE),
    ),
    "discernment": Case(
        0.4,
        Exposure(TAUGHT, FALSE_EVIDENCE, (), replace(PLAIN, discernment=0.4)),
        partial(parameters.discernment, strength=STRENGTH),
    ),
    "overconfidence": Case(
        0.1,
        Exposure(QUIET, CONTROL, ("confidence",), replace(PLAIN, recall=0.7, overconfidence=0.1)),
        parameters.overconfidence,
    ),
}


# Differences between an arm and the control, by what the subject's parameters make of them.
CONTRASTS = {
    "misled": (1 - (1 - 0.4) ** ROUNDS, CASES["credulity"].exposure),
    "conformity_rate": (1 - math.exp(-0.15 * SIZE), CASES["conformity"].exposure),
}
RESAMPLES = 1_000
# Amnesia that leaves nothing but the present message and what other stressors said.
WIPED = {"amnesia": Amnesia(frequency=1, scope=1, duration=1)}
CROSSED = {
    "control": CONTROL,
    "amnesia": Arm(WIPED),
    "infallibility": TEACHING,
    "amnesia+infallibility": Arm({**TEACHING.stressors, **WIPED}),
}
INTERACTION = "amnesia×infallibility"
FEW_BELIEFS = Layout(beliefs=3, tested=1, consensus=0, recall_every=100)


def main(*wanted: str) -> None:
    wanted = wanted or (*CASES, *CONTRASTS, INTERACTION, "null", "dose")
    with ProcessPoolExecutor(2) as pool:

        def tried(what: Callable[[int], bool], times: int) -> list[bool]:
            return list(pool.map(what, range(times), chunksize=20))

        for name in wanted:
            if name in CASES:
                keep(coverage_result(name, tried(partial(covered, name), SIMULATIONS)))
            elif name in CONTRASTS:
                covers = tried(partial(contrast_covered, name), FEWER)
                keep(coverage_result(f"the difference in {name}", covers))
            elif name == INTERACTION:
                covers = tried(interaction_covered, FEWER)
                keep(coverage_result("the interaction of amnesia and infallibility", covers))
            elif name == "null":
                keep(null_result(tried(sham_differs, SIMULATIONS)))
            else:
                for result in dose_results():
                    keep(result)


def covered(name: str, number: int) -> bool:
    """One simulated trial: whether the interval holds the truth."""
    case = CASES[name]
    found = case.estimate(_trials(case.exposure, number))
    assert found.interval is not None
    return found.interval.low <= case.truth <= found.interval.high


def contrast_covered(measure: str, number: int) -> bool:
    """One simulated trial: whether the interval of a printed difference holds the truth."""
    truth, exposure = CONTRASTS[measure]
    arms = {"control": CONTROL, "stressed": exposure.arm}
    trials = [
        each
        for name, arm in arms.items()
        for each in _trials(exposure._replace(arm=arm), number, name)
    ]
    sessions, rng = measure_sessions(trials, MetricWeights()), np.random.default_rng(number)
    [found] = estimate_effects(
        sessions, reference_contrasts(arms, "control"), measure, rng, RESAMPLES
    )
    low, high = found.interval or (found.estimate, found.estimate)
    return low is not None and high is not None and low <= truth <= high


def interaction_covered(number: int) -> bool:
    """One simulated factorial: whether the interval of the interaction holds the truth."""
    exposure = CASES["credulity"].exposure._replace(layout=FEW_BELIEFS)
    trials = [
        each
        for name, arm in CROSSED.items()
        for each in _trials(exposure._replace(arm=arm), number, name)
    ]
    sessions, rng = measure_sessions(trials, MetricWeights()), np.random.default_rng(number)
    both = [each for each in factorial_contrasts(CROSSED) if len(each.about) > 1]
    [found] = estimate_effects(sessions, both, "misled", rng, RESAMPLES)
    truth = _interaction_truth(exposure.subject.credulity)
    return found.interval is not None and found.interval.low <= truth <= found.interval.high


def _interaction_truth(credulity: float) -> float:
    """Who has forgotten guesses, sometimes the lure; who believes the lure already can't."""
    held = [
        step for course in _courses(FEW_BELIEFS) for step in course.steps if step.phase == "held"
    ]
    guessed = float(np.mean([1 / len(step.question.options) for step in held]))
    return -(1 - (1 - credulity) ** ROUNDS) * guessed


def sham_differs(number: int) -> bool:
    """One simulated trial of a subject with every weakness: whether sham and control differ."""
    arms = {"control": CONTROL, "sham": Arm(_all_stressors(), sham=True)}
    layout = Layout(beliefs=1, tested=1, recall_every=100)
    subject = PhantomSubjectSettings(recall=0.8)
    trials = [
        each
        for name, arm in arms.items()
        for each in _trials(Exposure(layout, arm, (), subject), number, name)
    ]
    sessions = measure_sessions(trials, MetricWeights())
    rng = np.random.default_rng(0)
    [effect] = estimate_effects(sessions, reference_contrasts(arms, "control"), "accuracy", rng, 0)
    return effect.p is not None and effect.p < 0.05


def coverage_result(name: str, covers: list[bool]) -> Result:
    share = float(np.mean(covers))
    note = f"{len(covers):,} simulated trials of {SCENARIOS} scenarios"
    title = f"recovery, coverage of {name}"
    return Result(title, f"{share:.3f}", "0.92 - 0.98", 0.92 <= share <= 0.98, COMMAND, note)


def null_result(significant: list[bool]) -> Result:
    share = float(np.mean(significant))
    note = f"sham against control, {len(significant):,} simulated trials"
    met = 0.04 <= share <= 0.06
    return Result(
        "recovery, null arm significant", f"{share:.3f}", "0.04 - 0.06", met, COMMAND, note
    )


def dose_results(repeats: int = 15) -> list[Result]:
    """Means over many sessions at rising doses of each stressor."""
    amnesia = [_dosed(repeats, amnesia=Amnesia(frequency=dose)) for dose in (0.0, 0.3, 0.6, 1.0)]
    company = [_dosed(repeats, conformity=Conformity(size)) for size in (0, 2, 4, 8)]
    taught = [_dosed(repeats, infallibility=Infallibility(rounds)) for rounds in (1, 2, 3)]
    return [
        _trend("amnesia → RF", [found.metrics.mci.rf for found in amnesia]),
        _trend("amnesia → CB", [found.metrics.mci.cb for found in amnesia]),
        _trend("infallibility → belief update", [found.belief_update for found in taught]),
        _trend("conformity → FI", [found.metrics.dfs.fi for found in company]),
        _trend(
            "conformity → toward signal",
            [found.metrics.companions.toward_signal_rate for found in company[1:]],
        ),
    ]


class Dosed(NamedTuple):
    """What all sessions under one dose show."""

    metrics: Metrics
    belief_update: float | None


def _trend(name: str, values: list[float | None]) -> Result:
    known = [value for value in values if value is not None]
    steps = np.diff(known)
    one_way = bool((steps > 0).all() or (steps < 0).all())
    text = " → ".join(f"{value:.3f}" for value in known)
    return Result(f"recovery, dose of {name}", text, "one direction", one_way, COMMAND)


def _dosed(repeats: int, **stressors: Stressor) -> Dosed:
    layout = Layout(beliefs=2, tested=1, consensus=0.6)
    subject = PhantomSubjectSettings(rigidity=0.5)
    probes = ("alone", "confidence")
    exposure = Exposure(layout, Arm(stressors), probes, subject)
    sessions = [
        session
        for number in range(repeats)
        for session in measure_sessions(_trials(exposure, number), MetricWeights())
    ]
    rows = [row for session in sessions for row in session.rows]
    updated = estimate_measure(sessions, "belief_update", np.random.default_rng(0), 0).value
    return Dosed(measure(columns_of(rows), resamples=0), updated)


@cache
def _courses(layout: Layout) -> tuple[Course, ...]:
    world = replace(SHORT, recall=3) if layout is FEW_BELIEFS else SHORT
    rounds = ROUNDS if layout is FEW_BELIEFS else MOST_ROUNDS
    made = (world.make(seed) for seed in range(1, SCENARIOS + 1))
    return tuple(layout.lay_out(scenario, rounds, 0) for scenario in made)


def _trials(exposure: Exposure, number: int, name: str = "arm") -> list[TrialRow]:
    """One session of every scenario; the number decides all chances of the subject."""
    answer = PhantomSubject(replace(exposure.subject, seed=number)).answer
    found = []
    for course in _courses(exposure.layout):
        script = Script(
            course, exposure.arm, number, {each: PROBES[each] for each in exposure.probes}
        )
        found += play(script, answer, name, number)
    return found


def _all_stressors() -> dict[str, Stressor]:
    return {
        "infallibility": Infallibility(ROUNDS),
        "conformity": Conformity(SIZE),
        "amnesia": Amnesia(),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
