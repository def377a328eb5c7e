"""From one state to the next: in a loop, free of it, back in one (Aalen, Johansen 1978).

Time counts in turns since a moment. The end of a run censors it; being stopped early is a state of
its own that competes with the others.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chimeralab.stats.arrays import Floats, ratios, same_length
from chimeralab.stats.contrasts import DIGITS
from chimeralab.stats.intervals import Estimate
from chimeralab.stats.resample import Column, SampleDesign, jackknife, units

STATES = ("loop", "free", "relapsed", "stopped")
EARLY = "no run was followed for {horizon} turns"


class Passages(NamedTuple):
    """When each run left its first state and its second (NaN: never), and how long it was seen.

    A run that was `stopped` would have gone on; the end of any other only censors it.
    """

    escape: Floats
    relapse: Floats
    followed: Floats
    stopped: NDArray[np.bool_]

    def keep(self, rows: NDArray[np.bool_]) -> "Passages":
        return Passages(
            self.escape[rows], self.relapse[rows], self.followed[rows], self.stopped[rows]
        )

    def after_escape(self) -> "Passages":
        """The runs that escaped, from then on: what leaves the first state is the relapse.

        >>> times = np.array([[3.0, np.nan], [7.0, np.nan], [9.0, 9.0]])
        >>> late = Passages(*times, np.zeros(2, bool))
        >>> late.after_escape().escape, late.after_escape().followed
        (array([4.]), array([6.]))
        """
        found = self.keep(~np.isnan(self.escape))
        never = np.full(len(found.escape), np.nan)
        return Passages(
            found.relapse - found.escape, never, found.followed - found.escape, found.stopped
        )


def transition_counts(runs: Passages, horizon: int) -> Floats:
    """For each run and turn up to the horizon: at risk, left and stopped, in either state.

    >>> one = Passages(*np.array([[1.0], [3.0], [4.0]]), np.zeros(1, bool))
    >>> transition_counts(one, 3).reshape(6, 3).astype(int).tolist()
    [[1, 0, 0], [1, 0, 0], [0, 0, 0], [0, 1, 1], [0, 0, 1], [0, 0, 0]]
    """
    same_length(escape=runs.escape, relapse=runs.relapse, followed=runs.followed)
    turns = np.arange(1, horizon + 1)
    escape = np.where(np.isnan(runs.escape), np.inf, runs.escape)[:, None]
    relapse = np.where(np.isnan(runs.relapse), np.inf, runs.relapse)[:, None]
    # What stopped a run came after the last turn that was seen.
    last = (runs.followed + runs.stopped)[:, None]
    seen, stops = turns <= last, (turns == last) & runs.stopped[:, None]
    looping = seen & (escape >= turns)
    free = seen & (escape < turns) & (relapse >= turns)
    left, back = looping & (escape == turns), free & (relapse == turns)
    counts = (looping, left, looping & stops & ~left, free, back, free & stops & ~back)
    return np.hstack(counts).astype(np.float64)


Occupation = Callable[[Floats], Floats]


def occupation(totals: Floats) -> Floats:
    """The probability of each state after each turn, from 0 on; by row of totals, state and turn.

    >>> runs = Passages(*np.array([[2.0, np.nan], [np.nan] * 2, [3.0, 3.0]]), np.zeros(2, bool))
    >>> occupation(transition_counts(runs, 3).sum(axis=0, keepdims=True))[0, 1]
    array([0. , 0. , 0.5, 0.5])
    """
    at_risk, left, stopped, free, back, halted = np.split(totals, 6, axis=1)
    rates = [
        np.nan_to_num(ratios(*pair))
        for pair in ((left, at_risk), (stopped, at_risk), (back, free), (halted, free))
    ]
    states = np.zeros((len(totals), len(STATES), at_risk.shape[1] + 1))
    states[:, 0, 0] = 1
    for turn in range(at_risk.shape[1]):
        escaping, stopping, relapsing, halting = (rate[:, turn] for rate in rates)
        looping, out, again, end = states[:, :, turn].T
        states[:, :, turn + 1] = np.stack(
            [
                looping * (1 - escaping - stopping),
                out * (1 - relapsing - halting) + looping * escaping,
                again + out * relapsing,
                end + looping * stopping + out * halting,
            ],
            axis=1,
        )
    return states


def probability_left(totals: Floats) -> Floats:
    """The probability of having left the first state by the horizon, other than by a stop."""
    return np.asarray(_incidence(totals)[:, -1])


def turns_until_left(totals: Floats) -> Floats:
    """The restricted mean of the turns in which it has not left, up to the horizon."""
    return np.asarray((1 - _incidence(totals)[:, :-1]).sum(axis=1))


def turns_free(totals: Floats) -> Floats:
    """The restricted mean of the turns in the second state, up to the horizon."""
    return np.asarray(occupation(totals)[:, 1, 1:].sum(axis=1))


def _incidence(totals: Floats) -> Floats:
    at_risk, left, _, _, _, _ = np.split(totals, 6, axis=1)
    moved = occupation(totals)[:, 0, :-1] * np.nan_to_num(ratios(left, at_risk))
    return np.asarray(np.pad(moved.cumsum(axis=1), ((0, 0), (1, 0))))


def estimate_passage(
    runs: Passages, measure: Occupation, horizon: int, clusters: Column | None = None
) -> Estimate:
    """A measure with its jackknife error over clusters; none if nobody was followed for so long.

    >>> runs = Passages(*np.array([[2, 4, np.nan], [np.nan] * 3, [9] * 3]), np.zeros(3, bool))
    >>> found = estimate_passage(runs, probability_left, 5)
    >>> round(found.value, 3), round(found.standard_error, 3)
    (0.667, 0.333)
    """
    totals, _ = units(transition_counts(runs, horizon), SampleDesign(clusters=clusters))
    if not len(totals) or not is_followed(totals):
        return Estimate(None, None, 0, EARLY.format(horizon=horizon))
    found = jackknife(totals, measure)
    # Rounding noise must not look like a tiny spread.
    value, error = (
        x if x is None else round(x, DIGITS) for x in (found.value, found.standard_error)
    )
    return Estimate(value, error, found.df)


def is_followed(totals: Floats) -> bool:
    """Whether somebody was at risk in each turn in which anybody could be."""
    everything = totals.sum(axis=0, keepdims=True)
    at_risk, _, _, free, _, _ = np.split(everything, 6, axis=1)
    states = occupation(everything)[0, :2, :-1]
    return not ((states > 1e-12) & (np.vstack([at_risk, free]) == 0)).any()


def pseudo_values(runs: Passages, measure: Occupation, horizon: int) -> Floats:
    """Pseudo-values of a measure, whose mean it is (Andersen, Klein, Rosthøj 2003).

    >>> runs = Passages(*np.array([[2, 4, np.nan], [np.nan] * 3, [9] * 3]), np.zeros(3, bool))
    >>> pseudo_values(runs, probability_left, 5).round(9) + 0.0
    array([1., 1., 0.])
    """
    counts = transition_counts(runs, horizon)
    totals, n = counts.sum(axis=0, keepdims=True), len(counts)
    if n == 1:
        return measure(totals)
    return np.asarray(n * measure(totals) - (n - 1) * measure(totals - counts))
