"""Columns for statistics: finite numbers, labels as codes, None where undefined."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chimeralab.core.errors import InputError

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]


def finite(values: ArrayLike, name: str) -> Floats:
    """Convert values to floats; refuse anything that is not a finite number.

    >>> finite([1, 2.5], "rate")
    array([1. , 2.5])
    """
    try:
        column = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: every value must be a number") from None
    bad = np.flatnonzero(~np.isfinite(column.ravel()))
    if bad.size:
        value = column.ravel()[bad[0]]
        raise InputError(f"{name}: value {bad[0] + 1} is {value}; leave the row out or fix it")
    return column


def encode(labels: Sequence[Any] | NDArray[Any]) -> tuple[tuple[Any, ...], Integers]:
    """Encode labels as positions among their sorted distinct values.

    >>> encode(["b", "a", "b"])
    (('a', 'b'), array([1, 0, 1]))
    """
    try:
        names, codes = np.unique(np.asarray(labels), return_inverse=True)
    except TypeError:
        raise InputError("labels must all be present and of one type") from None
    return tuple(names.tolist()), codes.astype(np.intp).ravel()


def same_length(**columns: Sequence[Any] | NDArray[Any] | None) -> int:
    """The common length of the given columns; refuse columns that differ.

    >>> same_length(rate=[0.1, 0.2], seed=["a", "b"], weight=None)
    2
    """
    lengths = {name: len(column) for name, column in columns.items() if column is not None}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise InputError(f"columns differ in length: {sizes}")
    return next(iter(lengths.values()), 0)


def optional(value: float) -> float | None:
    """A plain float, None for NaN.

    >>> optional(np.float64(0.5)), optional(float("nan"))
    (0.5, None)
    """
    return None if np.isnan(value) else float(value)


def ratios(numerators: ArrayLike, denominators: ArrayLike) -> Floats:
    """Elementwise quotients, NaN where the denominator is 0.

    >>> ratios([1.0, 1.0], [2.0, 0.0])
    array([0.5, nan])
    """
    top, bottom = np.broadcast_arrays(
        np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    )
    quotients: Floats = np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0)
    return quotients
