"""Trials as arrays, sorted by session and trial, with their pairs matched."""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chimeralab.core.errors import InputError, LogError
from chimeralab.stats.arrays import Floats, Integers
from chimeralab.trial.trials import ANSWERS, PLACE, Answer, TrialRow

NUMBERS = ("trial", "correct", "confidence", "weight", "novel", "bias")
GROUPINGS = ("arm", "scenario", "session")
NO_LABEL = -1
_FRAME_CODES = {None: None, "neutral": 0.0, "biased": 1.0}


@dataclass(frozen=True, slots=True)
class TrialColumns:
    """One array per column; None is an absent column, NaN (-1 for labels) a missing cell.

    ``session`` is non-decreasing. Answers are numbers from 0 to 1, or codes if ``categories`` is
    set. ``frame`` is 0 for neutral and 1 for biased. ``scenario`` and ``pair`` are codes; a pair
    code occurs at most twice, and ``pair_names`` maps it to its name, if known.
    """

    session: Integers
    correct: Floats | None = None
    confidence: Floats | None = None
    weight: Floats | None = None
    novel: Floats | None = None
    bias: Floats | None = None
    response: Floats | None = None
    truth: Floats | None = None
    signal: Floats | None = None
    pair: Integers | None = None
    frame: Floats | None = None
    trial: Floats | None = None
    scenario: Integers | None = None
    lines: Integers | None = None
    categories: bool = False
    pair_names: Sequence[str] = ()
    source: str | None = None

    def __len__(self) -> int:
        return len(self.session)

    @property
    def starts(self) -> Integers:
        """The first row of each session."""
        new = np.empty(len(self), dtype=bool)
        new[:1] = True
        np.not_equal(self.session[1:], self.session[:-1], out=new[1:])
        return np.flatnonzero(new)

    def keep(self, rows: NDArray[Any] | slice) -> "TrialColumns":
        """Select rows."""
        cells = {field.name: getattr(self, field.name) for field in fields(self)}
        kept: dict[str, Any] = {
            name: cell[rows] if isinstance(cell, np.ndarray) else cell
            for name, cell in cells.items()
        }
        return TrialColumns(**kept)

    def error(self, row: int, reason: str) -> InputError:
        """An error about a row, with its line in the source if known."""
        if self.lines is None or self.source is None:
            return InputError(f"row {row + 1}: {reason}")
        return LogError(self.source, reason, int(self.lines[row]))


class AnswerScale:
    """Map answers to a common scale: categories as they are, numbers to 0..1.

    Text is a category. Numbers other than 0 and 1 need limits, the lowest and the highest answer.
    A scale holds either categories or numbers.
    """

    def __init__(self, limits: tuple[float, float] | None = None) -> None:
        self._range = limits
        self.categories: bool | None = None
        if limits is not None:
            shown = " ".join(f"{limit:g}" for limit in limits)
            if not all(map(math.isfinite, limits)):
                raise InputError(f"--range {shown}: both limits must be finite numbers")
            if not limits[0] < limits[1]:
                raise InputError(f"--range {shown}: the first number must be below the second")

    def place(self, answer: Answer) -> float | str:
        """Map an answer: a category to itself, a number to its place between the limits.

        >>> AnswerScale((0, 10)).place(4), AnswerScale().place(True)
        (0.4, True)
        """
        self.settle(answer)
        if isinstance(answer, str):
            return answer
        if self._range is None:
            if answer not in (0, 1):
                raise InputError(
                    f"answer {answer!r} is neither 0 nor 1; give its limits with --range LOW HIGH"
                )
            return answer
        low, high = self._range
        place = (answer - low) / (high - low)
        if not 0 <= place <= 1:
            raise InputError(f"answer {answer!r} lies outside --range {low:g} {high:g}")
        return place

    def settle(self, answer: Answer) -> None:
        """Take the type of the scale from its first answer; reject answers of the other type."""
        categories = isinstance(answer, str)
        if categories is self.categories:
            return
        if self.categories is not None:
            before = "categories" if self.categories else "numbers"
            raise InputError(
                f"answer {answer!r} is mixed with answers that are {before};"
                " measure categories and numbers separately"
            )
        if categories and self._range is not None:
            raise InputError(f"answer {answer!r} is a category; --range is for numbers")
        self.categories = categories


def columns_of(rows: Iterable[TrialRow], scale: AnswerScale | None = None) -> TrialColumns:
    """Build columns from trials in memory."""
    return build_table(rows, scale or AnswerScale())[0]


def build_table(
    rows: Iterable[TrialRow],
    scale: AnswerScale,
    source: str | None = None,
    lines: Sequence[int] | None = None,
) -> tuple[TrialColumns, dict[str, NDArray[np.object_]]]:
    """Build columns from trials in any order, with the labels that they can be grouped by.

    `lines` are the line numbers in the source, by default 1, 2, ...
    """
    numbered = [
        (line, half)
        for line, row in zip(lines or count(1), rows, strict=False)
        for half in _split_pair(row)
    ]
    trials = [trial for _, trial in numbered]
    # A pair is identified by its name within arm, scenario and repeat.
    pairs = [None if t.pair is None else (t.arm, t.scenario, t.repeat, t.pair) for t in trials]
    scenarios = [trial.scenario for trial in trials]
    numbers: dict[str, Any] = {
        name: _floats([getattr(trial, name) for trial in trials]) for name in NUMBERS
    }
    columns = TrialColumns(
        session=_codes([(trial.arm, trial.session) for trial in trials]),
        pair=_codes(pairs) if any(pairs) else None,
        pair_names=tuple(pair[-1] for pair in _distinct([pairs])),
        scenario=None if set(scenarios) <= {None} else _codes(scenarios),
        frame=_floats([_FRAME_CODES[trial.frame] for trial in trials]),
        lines=np.array([line for line, _ in numbered], dtype=np.intp),
        source=source,
        **numbers,
    )
    columns = _with_answers(columns, trials, scale)
    order = np.lexsort((numbers["trial"], columns.session))
    labels = {
        name: np.array([getattr(trial, name) for trial in trials], dtype=object)[order]
        for name in GROUPINGS
    }
    return columns.keep(order), labels


def _split_pair(row: TrialRow) -> Iterator[TrialRow]:
    """Split a trial that was also answered alone into its neutral and its biased half."""
    if row.alone is not None:
        place = {name: getattr(row, name) for name in (*PLACE, "truth", "pair")}
        yield TrialRow(**place, trial=row.trial - 0.5, response=row.alone, frame="neutral")
    # A right free answer may be worded differently from the truth.
    is_truth = row.correct and row.options == 0
    yield replace(row, response=str(row.truth)) if is_truth else row


def split_groups(
    columns: TrialColumns, labels: Mapping[str, NDArray[np.object_]], by: str
) -> dict[str, TrialColumns]:
    """Split trials by a label, groups sorted by name."""
    names = sorted({label for label in labels[by] if label is not None})
    if not names:
        raise InputError(f"{columns.source}: no row has a value in the column {by!r}")
    groups = {name: columns.keep(labels[by] == name) for name in names}
    nameless = np.array([label is None for label in labels[by]], dtype=bool)
    return groups | ({f"(no {by})": columns.keep(nameless)} if nameless.any() else {})


def _with_answers(
    columns: TrialColumns, trials: Sequence[TrialRow], scale: AnswerScale
) -> TrialColumns:
    """Map the answers to the scale if a metric compares them; otherwise they may be any text."""
    framed = columns.pair is not None and columns.frame is not None
    if not framed and columns.bias is None:
        return columns
    # Settle all before placing any: otherwise a mixture is reported as a missing range.
    for name in ANSWERS:
        _map_answers(columns, trials, name, scale.settle)
    placed = {name: _map_answers(columns, trials, name, scale.place) for name in ANSWERS}
    if scale.categories:
        names = {name: code for code, name in enumerate(_distinct(placed.values()))}
        placed = {key: [names.get(cell) for cell in cells] for key, cells in placed.items()}
    arrays: dict[str, Any] = {name: _floats(cells) for name, cells in placed.items()}
    return replace(columns, categories=bool(scale.categories), **arrays)


def _map_answers(
    columns: TrialColumns, trials: Sequence[TrialRow], name: str, do: Callable[[Answer], Any]
) -> list[Any]:
    """Apply a function to each answer of a column, None if absent; errors name the row."""
    cells: list[Any] = []
    for row, trial in enumerate(trials):
        answer = getattr(trial, name)
        try:
            cells.append(None if answer is None else do(answer))
        except InputError as error:
            raise columns.error(row, f"{name}: {error}") from None
    return cells


def _distinct(lists: Iterable[Sequence[Any]]) -> list[Any]:
    return list(dict.fromkeys(cell for cells in lists for cell in cells if cell is not None))


def _floats(cells: Sequence[float | None]) -> Floats | None:
    """A column of numbers; None if all cells are missing."""
    array = np.array(cells, dtype=np.float64)
    return None if np.isnan(array).all() else array


def _codes(labels: Sequence[Hashable]) -> Integers:
    """Number labels in order of first appearance; None becomes NO_LABEL."""
    codes = {label: code for code, label in enumerate(_distinct([labels]))}
    return np.array([codes.get(label, NO_LABEL) for label in labels], dtype=np.intp)


def match_pairs(columns: TrialColumns) -> tuple[Integers, Integers, int]:
    """The neutral and the biased rows of the pairs, and the number of unpaired halves.

    A third member, or two members with the same frame, is an error.
    """
    if columns.pair is None or columns.frame is None:
        return np.empty(0, np.intp), np.empty(0, np.intp), 0
    halves = np.flatnonzero((columns.pair >= 0) & ~np.isnan(columns.frame))
    code = columns.pair[halves]
    if (code[1:] < code[:-1]).any():
        order = np.argsort(code, kind="stable")
        halves, code = halves[order], code[order]
    joined = code[1:] == code[:-1]
    thirds = np.flatnonzero(joined[1:] & joined[:-1])
    if thirds.size:
        raise _pair_error(
            columns,
            halves[thirds[0] : thirds[0] + 3],
            "is the third member of {pair} (if pair names recur, a column `scenario`, `repeat` or"
            " `arm` must distinguish them)",
        )
    first = np.flatnonzero(joined)
    one, other = halves[first], halves[first + 1]
    starts_neutral = columns.frame[one] == 0
    twins = np.flatnonzero(starts_neutral == (columns.frame[other] == 0))
    if twins.size:
        frame = "neutral" if starts_neutral[twins[0]] else "biased"
        members = np.array([one[twins[0]], other[twins[0]]])
        raise _pair_error(columns, members, f"is the second {frame} half of {{pair}}")
    neutral, biased = np.where(starts_neutral, one, other), np.where(starts_neutral, other, one)
    return neutral, biased, len(halves) - 2 * len(first)


def _pair_error(columns: TrialColumns, members: Integers, what: str) -> InputError:
    """An error about the last of some members, which names the others."""
    lines = members + 1 if columns.lines is None else columns.lines[members]
    order = np.argsort(lines)
    before = " and ".join(str(line) for line in lines[order[:-1]])
    pair = "its pair"
    if columns.pair_names and columns.pair is not None:
        pair = f"pair {columns.pair_names[columns.pair[members[0]]]!r}"
    reason = f"the row {what.format(pair=pair)}; see line {before}."
    return columns.error(
        int(members[order[-1]]), f"{reason} A pair is one neutral and one biased row"
    )
