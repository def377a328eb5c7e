"""The parameters of a subject, estimated from its trials by matching what they should lead to.

A parameter predicts every answer. It is estimated where answers and predictions balance; its
interval holds the values at which the imbalance could still be chance, by a t test over scenarios
(Godambe 1960, with clusters in the place of observations).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from chimeralab.stats.arrays import Floats
from chimeralab.stats.intervals import Interval, t_quantile
from chimeralab.trial.effects import MeasureEstimate
from chimeralab.trial.measures import beliefs, follows_signal, right_alone
from chimeralab.trial.trials import TrialRow

STEPS = 60
Predict = Callable[[float, Floats], Floats]


class Occasions(NamedTuple):
    """What was observed (0 or 1, or any number), under which exposure, in which scenario."""

    observed: Floats
    exposure: Floats
    guess: Floats
    scenario: Sequence[str | None]


class Range(NamedTuple):
    """Where a parameter can lie."""

    low: float
    high: float


def recall(trials: Iterable[TrialRow]) -> MeasureEstimate:
    """Chance of recalling a fact, where nothing is forgotten with time."""
    asked = _recalls(trials)
    return _estimate(asked, lambda r, lag: np.full(len(lag), r), Range(0, 1))


def forgetting(trials: Iterable[TrialRow]) -> MeasureEstimate:
    """Rate at which a fact fades with every trial, where it is never missed at once."""
    asked = _recalls(trials)
    return _estimate(asked, lambda f, lag: np.exp(-f * lag), Range(0, 5))


def credulity(trials: Iterable[TrialRow], rounds: int) -> MeasureEstimate:
    """Chance that one false feedback is believed, from the beliefs held after all of them."""
    found = [
        (held.scenario, float(follows_signal(held)), rounds, 0.0)
        for held, tested in _taught(trials)
    ]
    return _estimate(_occasions(found), lambda c, n: 1 - (1 - c) ** n, Range(0, 1))


def rigidity(trials: Iterable[TrialRow], rounds: int, strength: float) -> MeasureEstimate:
    """How much every false feedback takes from the chance that certain evidence is believed."""
    found = [
        (held.scenario, float(bool(tested[0].correct)), rounds, 0.0)
        for held, tested in _taught(trials)
        if follows_signal(held)
    ]
    weight = 2 * strength - 1
    return _estimate(_occasions(found), lambda r, n: (1 - r) ** n * weight, Range(0, 1))


def discernment(trials: Iterable[TrialRow], strength: float) -> MeasureEstimate:
    """Chance of seeing through false evidence, from the right beliefs that it did not change."""
    found = [
        (held.scenario, float(tested[0].response == held.signal), 0.0)
        for held, tested in _taught(trials, false=True)
        if held.correct
    ]
    weight = 2 * strength - 1
    occasions = _occasions([(*each, 0.0) for each in found])
    return _estimate(occasions, lambda d, n: np.full(len(n), (1 - d) * weight), Range(0, 1))


def conformity(trials: Iterable[TrialRow], size: int) -> MeasureEstimate:
    """Pull of every single voice of a wrong majority, on questions answered right alone."""
    found = [
        (row.scenario, float(row.response == row.signal), size, 0.0)
        for row in trials
        if any(right_alone([row]))
    ]
    return _estimate(_occasions(found), lambda c, n: 1 - np.exp(-c * n), Range(0, 10))


def overconfidence(trials: Iterable[TrialRow]) -> MeasureEstimate:
    """How far stated confidence lies above accuracy."""
    found = [
        (row.scenario, row.confidence - row.correct, 0.0, 0.0)
        for row in trials
        if row.confidence is not None and row.correct is not None
    ]
    return _estimate(_occasions(found), lambda b, none: np.full(len(none), b), Range(-1, 1))


def _recalls(trials: Iterable[TrialRow]) -> Occasions:
    found = [
        (
            row.scenario,
            float(row.recall_correct),
            float(row.recall_lag or 0),
            1 / row.recall_options,
        )
        for row in trials
        if row.recall_correct is not None and row.recall_options
    ]
    return _occasions(found)


def _taught(
    trials: Iterable[TrialRow], *, false: bool = False
) -> list[tuple[TrialRow, tuple[TrialRow, ...]]]:
    sessions: dict[str, list[TrialRow]] = {}
    for row in trials:
        sessions.setdefault(row.session, []).append(row)
    return [each for rows in sessions.values() for each in beliefs(rows, false=false)]


def _occasions(found: Sequence[tuple[str | None, float, float, float]]) -> Occasions:
    scenario, observed, exposure, guess = zip(*found, strict=True) if found else ((), (), (), ())
    return Occasions(
        np.array(observed, float), np.array(exposure, float), np.array(guess, float), scenario
    )


def _estimate(asked: Occasions, predict: Predict, within: Range) -> MeasureEstimate:
    """The value that balances, and those that could; None without two scenarios that differ."""
    n = len(asked.observed)
    names = sorted(set(map(str, asked.scenario)))
    if len(names) < 2:
        return MeasureEstimate(None, None, n)
    code = np.array([names.index(str(name)) for name in asked.scenario])

    def imbalance(value: float) -> Floats:
        chance = predict(value, asked.exposure)
        expected = chance + (1 - chance) * asked.guess
        sums: Floats = np.bincount(code, weights=asked.observed - expected).astype(np.float64)
        return sums

    reach = t_quantile(len(names) - 1)
    rising = imbalance(within.high).sum() > imbalance(within.low).sum()
    sides = [_crossing(imbalance, shift, within, rising) for shift in (-reach, 0.0, reach)]
    return MeasureEstimate(sides[1], Interval(*sorted((sides[0], sides[2]))), n)


def _crossing(
    imbalance: Callable[[float], Floats], shift: float, within: Range, rising: bool
) -> float:
    """Where the t statistic of the imbalance passes a shift; an end where it never does."""
    low, high = within
    for _ in range(STEPS):
        middle = (low + high) / 2
        above = _t(imbalance(middle)) > shift
        low, high = (low, middle) if above == rising else (middle, high)
    return (low + high) / 2


def _t(residuals: Floats) -> float:
    error = residuals.std(ddof=1) / math.sqrt(len(residuals))
    mean = float(residuals.mean())
    return mean / error if error else math.copysign(math.inf, mean)
