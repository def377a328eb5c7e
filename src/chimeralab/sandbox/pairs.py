"""Matching the neutral and the biased half of one decision."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chimeralab.core.errors import InputError
from chimeralab.sandbox.columns import TrialColumns
from chimeralab.stats.arrays import Integers


class Pairs(NamedTuple):
    """The rows of each matched pair, and how many halves stand alone."""

    neutral: Integers
    biased: Integers
    unpaired: int


NO_PAIRS = Pairs(np.empty(0, np.intp), np.empty(0, np.intp), 0)


def matched_pairs(columns: TrialColumns) -> Pairs:
    """Find the two halves of every pair; a third half, or two alike, is refused."""
    if columns.pair is None or columns.frame is None:
        return NO_PAIRS
    halves = _halves(columns.pair, columns.frame)
    code = columns.pair[halves]
    if (code[1:] < code[:-1]).any():
        order = np.argsort(code, kind="stable")
        halves, code = halves[order], code[order]
    joined = code[1:] == code[:-1]
    _refuse_thirds(columns, halves, joined)
    first = np.flatnonzero(joined)
    one, other = halves[first], halves[first + 1]
    starts_neutral = columns.frame[one] == 0
    _refuse_twins(columns, one, other)
    return Pairs(
        neutral=np.where(starts_neutral, one, other),
        biased=np.where(starts_neutral, other, one),
        unpaired=len(halves) - 2 * len(first),
    )


def _halves(pair: Integers, frame: NDArray[np.float64]) -> Integers:
    return np.flatnonzero((pair >= 0) & ~np.isnan(frame))


def _refuse_thirds(columns: TrialColumns, halves: Integers, joined: NDArray[np.bool_]) -> None:
    thirds = np.flatnonzero(joined[1:] & joined[:-1])
    if thirds.size:
        members = halves[thirds[0] : thirds[0] + 3]
        raise _misfit(
            columns,
            members,
            "is the third member of {pair}, which is whole without it (pairs that recur need a"
            " column `scenario`, `repeat` or `arm` that tells them apart)",
        )


def _refuse_twins(columns: TrialColumns, one: Integers, other: Integers) -> None:
    assert columns.frame is not None
    twins = np.flatnonzero(columns.frame[one] == columns.frame[other])
    if twins.size:
        members = np.array([one[twins[0]], other[twins[0]]])
        frame = "biased" if columns.frame[members[0]] else "neutral"
        raise _misfit(columns, members, f"is the second {frame} half of {{pair}}")


def _misfit(columns: TrialColumns, members: Integers, what: str) -> InputError:
    """Name the member that stands last, and the ones before it."""
    lines = members + 1 if columns.lines is None else columns.lines[members]
    order = np.argsort(lines)
    before = " and ".join(str(line) for line in lines[order[:-1]])
    said = what.format(pair=_named(columns, members[0]))
    reason = f"the row {said}; see line {before}. A pair is one neutral and one biased row"
    return columns.error(int(members[order[-1]]), reason)


def _named(columns: TrialColumns, row: int) -> str:
    if not columns.pair_names:
        return "its pair"
    assert columns.pair is not None
    return f"pair {columns.pair_names[columns.pair[row]]!r}"
