"""Numbers beside the three metrics: what a signal did, and what stated confidence is worth."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chimeralab.stats.arrays import Floats, Integers, ratios
from chimeralab.stats.calibration import calibration_rows
from chimeralab.trial.columns import TrialColumns
from chimeralab.trial.metrics.intervals import Estimator
from chimeralab.trial.metrics.sums import Block, answer_gap, filled

# Above this many levels, intervals see confidence to two decimals, so that memory stays small.
MOST_LEVELS = 101
# Halfway between signal and truth is not nearer to the signal, whatever the last bits say.
ROUNDING = 1e-9


class PressureSums(NamedTuple):
    """Counts, an entry per stretch or per cluster.

    ``signalled`` are the biased trials whose signal is not the truth, ``toward`` those answered
    nearer to the signal than to the truth. Of the ``compared`` pairs, in ``b`` only the neutral
    half is right and in ``c`` only the biased one (McNemar 1947).
    """

    signalled: Floats
    toward: Floats
    compared: Floats
    b: Floats
    c: Floats


def pressure_sums(block: Block) -> PressureSums:
    """The counts of every stretch."""
    columns, pairs, total = block.columns, block.pairs, block.stretches.total
    toward = filled(_toward(columns), len(columns))
    neutral, biased = _right(columns, pairs.neutral), _right(columns, pairs.biased)
    turned_wrong = filled(neutral * (1 - biased), len(neutral))
    turned_right = filled((1 - neutral) * biased, len(neutral))
    return PressureSums(
        signalled=total(toward.known),
        toward=total(toward.number),
        compared=block.pair_total(turned_wrong.known),
        b=block.pair_total(turned_wrong.number),
        c=block.pair_total(turned_right.number),
    )


def _toward(columns: TrialColumns) -> Floats | None:
    """1 where a misleading signal was followed, 0 where it was not, NaN elsewhere."""
    to_signal = answer_gap(columns, columns.response, columns.signal)
    to_truth = answer_gap(columns, columns.response, columns.truth)
    misled_by = answer_gap(columns, columns.signal, columns.truth)
    if to_signal is None or to_truth is None or misled_by is None:
        return None
    misleading = (columns.bias == 1) & (misled_by > 0) & ~np.isnan(to_signal)
    return np.where(misleading, to_signal < to_truth - ROUNDING, np.nan)


def _right(columns: TrialColumns, rows: Integers) -> Floats:
    """Whether the answers of some rows are right: as stated, else whether they equal the truth."""
    correct, response, truth = (
        None if column is None else column[rows]
        for column in (columns.correct, columns.response, columns.truth)
    )
    stated = np.full(len(rows), np.nan) if correct is None else correct
    missed = answer_gap(columns, response, truth)
    if missed is None:
        return stated
    equal = np.where(np.isnan(missed), np.nan, missed == 0)
    return np.where(np.isnan(stated), equal, stated)


def signal_numbers(sums: PressureSums) -> Estimator:
    """Share of misled answers among the trials with a misleading signal."""

    def numbers(totals: Floats) -> dict[str, Floats]:
        counts = PressureSums(*totals.T)
        return {"toward_signal_rate": ratios(counts.toward, counts.signalled)}

    return Estimator(np.column_stack(sums), numbers)


class Confidences(NamedTuple):
    """Judged answers that state a confidence; ``row`` of the table is where each is counted."""

    level: Floats
    right: NDArray[np.bool_]
    novel: NDArray[np.bool_]
    row: Integers


class ConfidenceCounts(NamedTuple):
    """Answers by row, by familiar or novel, by wrong or right, and by level of confidence."""

    levels: Floats
    table: Floats


def confidences(columns: TrialColumns, row: Integers | None = None) -> Confidences:
    """The answers of a table; without rows, all are counted together."""
    confidence, correct = columns.confidence, columns.correct
    if confidence is None or correct is None:
        none = np.empty(0, dtype=bool)
        return Confidences(np.empty(0), none, none, np.empty(0, np.intp))
    novel = np.zeros(len(columns), bool) if columns.novel is None else columns.novel == 1
    row = np.zeros(len(columns), np.intp) if row is None else row
    known = ~np.isnan(confidence + correct)
    if known.all():
        return Confidences(confidence, correct == 1, novel, row)
    return Confidences(confidence[known], correct[known] == 1, novel[known], row[known])


def level_counts(answers: Confidences, rows: int = 1, most: int | None = None) -> ConfidenceCounts:
    """The answers of each row at each level that occurs; above so many levels, to two decimals."""
    hundredths = np.rint(answers.level * 100)
    if (hundredths / 100 == answers.level).all():
        # Nearly all confidences are such, and their levels need no sorting.
        codes = hundredths.astype(np.intp)
        used = np.bincount(codes, minlength=101) > 0
        levels, place = np.flatnonzero(used) / 100, (np.cumsum(used) - 1)[codes]
    else:
        levels, place = np.unique(answers.level, return_inverse=True)
        if most is not None and len(levels) > most:
            return level_counts(answers._replace(level=answers.level.round(2)), rows)
    cell = ((answers.row * 2 + answers.novel) * 2 + answers.right) * len(levels) + place
    flat = np.bincount(cell, minlength=rows * 4 * len(levels)).astype(np.float64)
    return ConfidenceCounts(levels, flat.reshape(rows, 2, 2, len(levels)))


def joined(parts: Sequence[ConfidenceCounts]) -> ConfidenceCounts:
    """The counts of several tables of one row, together."""
    levels, place = np.unique(np.concatenate([part.levels for part in parts]), return_inverse=True)
    flat = np.concatenate([part.table[0] for part in parts], axis=-1).reshape(4, -1)
    table = [np.bincount(place, weights=counts, minlength=len(levels)) for counts in flat]
    return ConfidenceCounts(levels, np.reshape(table, (1, 2, 2, len(levels))))


def calibrations(counts: ConfidenceCounts) -> tuple[Estimator, Estimator]:
    """Calibration over all answers that state a confidence, and over those on novel trials."""
    half = len(counts.levels)

    def numbers(totals: Floats) -> dict[str, Floats]:
        return calibration_rows(counts.levels, totals[:, :half], totals[:, half:])

    def on_novel(totals: Floats) -> dict[str, Floats]:
        found = numbers(totals)
        return {f"{name}_novel": found[name] for name in ("brier", "auroc")}

    return (
        Estimator(np.hstack(list(counts.table.sum(axis=1).swapaxes(0, 1))), numbers),
        Estimator(np.hstack(list(counts.table[:, 1].swapaxes(0, 1))), on_novel),
    )
