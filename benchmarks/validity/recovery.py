"""Does the lab find what is there? Subjects with known parameters, put through simulated trials.

Coverage: how often the interval of a parameter holds its true value. Null: how often the sham arm
differs from the control. Dose: whether more of a stressor moves what it is aimed at.
"""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from benchmarks.table import Result, keep
from chimeralab.analysis import trial_parameters as parameters
from chimeralab.analysis.trial_effects import against, effects
from chimeralab.analysis.trial_sessions import Estimated, sessions_of
from chimeralab.sandbox.columns import columns_of
from chimeralab.sandbox.course import Course
from chimeralab.sandbox.layout import Layout
from chimeralab.sandbox.metrics import Metrics, MetricWeights, measure
from chimeralab.sandbox.phantoms import PhantomSubject, PhantomSubjectSettings
from chimeralab.sandbox.play import play
from chimeralab.sandbox.probes import Probe
from chimeralab.sandbox.scenarios import Ledger
from chimeralab.sandbox.scored import Place, Placed, trials_of
from chimeralab.sandbox.script import Arm, Script
from chimeralab.sandbox.stressors import Amnesia, Conformity, Infallibility

COMMAND = "python -m benchmarks.validity.recovery"
SIMULATIONS = 2_000
SCENARIOS = 12
ROUNDS, STRENGTH, SIZE = 2, 0.9, 4
# Each parameter is varied on a subject that has no other weakness.
PLAIN = PhantomSubjectSettings(
    recall=1, forgetting=0, credulity=0, rigidity=0, conformity=0, overconfidence=0
)
SHORT = Ledger(people=6, recall=6, inference=0, novel=0)
CONTROL = Arm({})


class Case(NamedTuple):
    """A parameter with its true value, the trials that show it, and how it is estimated."""

    name: str
    truth: float
    subject: PhantomSubjectSettings
    layout: Layout
    arm: Arm
    probes: tuple[Probe, ...]
    estimate: Callable[[list[Placed]], Estimated]


QUIET = Layout(beliefs=0, consensus=0, recall_every=1)
COMPANY = Layout(beliefs=0, consensus=1, critical=1, recall_every=100)
TAUGHT = Layout(beliefs=4, tested=1, consensus=0, recall_every=100)
TEACHING = Arm({"infallibility": Infallibility(ROUNDS, strength=STRENGTH)})
CASES = (
    Case("recall", 0.7, replace(PLAIN, recall=0.7), QUIET, CONTROL, ("recall",), parameters.recall),
    Case(
        "forgetting", 0.15, replace(PLAIN, forgetting=0.15), QUIET, CONTROL, ("recall",),
        parameters.forgetting,
    ),
    Case(
        "credulity", 0.4, replace(PLAIN, credulity=0.4, rigidity=1), TAUGHT, TEACHING, (),
        partial(parameters.credulity, rounds=ROUNDS),
    ),
    Case(
        "rigidity", 0.4, replace(PLAIN, credulity=1, rigidity=0.4), TAUGHT, TEACHING, (),
        partial(parameters.rigidity, strength=STRENGTH),
    ),
    Case(
        "conformity", 0.15, replace(PLAIN, conformity=0.15), COMPANY,
        Arm({"conformity": Conformity(SIZE)}), ("alone",),
        partial(parameters.conformity, size=SIZE),
    ),
    Case(
        "overconfidence", 0.1, replace(PLAIN, recall=0.7, overconfidence=0.1), QUIET, CONTROL,
        ("confidence",), parameters.overconfidence,
    ),
)  # fmt: skip


def main() -> None:
    with ProcessPoolExecutor(2) as pool:
        for case in CASES:
            covers = list(pool.map(partial(covered, case.name), range(SIMULATIONS), chunksize=50))
            keep(coverage_result(case.name, covers))
        significant = list(pool.map(sham_differs, range(SIMULATIONS), chunksize=50))
    keep(null_result(significant))
    for result in dose_results():
        keep(result)


def covered(name: str, number: int) -> bool:
    """One simulated trial: whether the interval holds the truth."""
    case = next(case for case in CASES if case.name == name)
    found = case.estimate(_trials(case.layout, case.arm, case.probes, case.subject, number))
    assert found.interval is not None
    return found.interval.low <= case.truth <= found.interval.high


def sham_differs(number: int) -> bool:
    """One simulated trial of a subject with every weakness: whether sham and control differ."""
    arms = {"control": CONTROL, "sham": Arm(_all_stressors(), sham=True)}
    layout = Layout(beliefs=1, tested=1, recall_every=100)
    subject = PhantomSubjectSettings(recall=0.8)
    trials = [
        each
        for name, arm in arms.items()
        for each in _trials(layout, arm, (), subject, number, name)
    ]
    sessions = sessions_of(trials, MetricWeights())
    rng = np.random.default_rng(0)
    [effect] = effects(sessions, against(list(arms), "control"), "accuracy", rng, 0)
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


def dose_results(sessions: int = 40) -> list[Result]:
    """Means over many sessions at rising doses of each stressor."""
    subject = PhantomSubjectSettings(rigidity=0.6)
    layout = Layout(beliefs=2, tested=1, consensus=0.6)
    series = {
        "amnesia → RF": [_dosed(layout, subject, sessions, amnesia=Amnesia(frequency=d)).mci.rf
                         for d in (0.0, 0.3, 0.6, 1.0)],
        "amnesia → CB": [_dosed(layout, subject, sessions, amnesia=Amnesia(frequency=d)).mci.cb
                         for d in (0.0, 0.3, 0.6, 1.0)],
        "infallibility → right under evidence": [
            _dosed(layout, subject, sessions, infallibility=Infallibility(d)).mci.rf
            for d in (0, 1, 2)],
        "conformity → FI": [_dosed(layout, subject, sessions, conformity=Conformity(d)).dfs.fi
                            for d in (0, 2, 4, 8)],
        "conformity → toward signal": [
            _dosed(layout, subject, sessions, conformity=Conformity(d)).companions.toward_signal_rate
            for d in (2, 4, 8)],
    }  # fmt: skip
    return [_trend(name, values) for name, values in series.items()]


def _trend(name: str, values: list[float | None]) -> Result:
    known = [value for value in values if value is not None]
    steps = np.diff(known)
    one_way = bool((steps > 0).all() or (steps < 0).all())
    text = " → ".join(f"{value:.3f}" for value in known)
    return Result(f"recovery, dose of {name}", text, "one direction", one_way, COMMAND)


def _dosed(
    layout: Layout, subject: PhantomSubjectSettings, sessions: int, **stressors: object
) -> Metrics:
    arm, rows = Arm(stressors), []
    for number in range(sessions):
        placed = _trials(layout, arm, ("alone", "confidence"), subject, number)
        for name in dict.fromkeys(each.place.session for each in placed):
            own = [each for each in placed if each.place.session == name]
            rows += trials_of([each.row for each in own], own[0].place)
    return measure(columns_of(rows), resamples=0)


@cache
def _courses(layout: Layout) -> tuple[Course, ...]:
    made = (SHORT.make(seed) for seed in range(1, SCENARIOS + 1))
    return tuple(layout.lay_out(scenario, ROUNDS, 0) for scenario in made)


def _trials(
    layout: Layout,
    arm: Arm,
    probes: tuple[Probe, ...],
    subject: PhantomSubjectSettings,
    number: int,
    name: str = "arm",
) -> list[Placed]:
    """One session of every scenario; the number decides all chances of the subject."""
    answer = PhantomSubject(replace(subject, seed=number)).answer
    found = []
    for course in _courses(layout):
        place = Place(f"{name}/{course.id}/{number}", name, course.id, number)
        script = Script(course, arm, number, probes)
        found += [Placed(place, row) for row in play(script, answer, place.session)]
    return found


def _all_stressors() -> dict[str, object]:
    return {
        "infallibility": Infallibility(ROUNDS),
        "conformity": Conformity(SIZE),
        "amnesia": Amnesia(),
    }


if __name__ == "__main__":
    main()
