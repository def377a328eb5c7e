"""Permutation tests that keep clusters whole: labels change places only inside a block."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from chimeralab.core.errors import InputError
from chimeralab.stats.arrays import Floats, Integers, finite


@dataclass(frozen=True, slots=True)
class PermutationTest:
    """Share of permutations at least as extreme as the data, the data itself counted in."""

    p: float
    permutations: int
    as_extreme: int


def permute_within(
    labels: Integers, blocks: Integers, permutations: int, rng: np.random.Generator
) -> Integers:
    """Labels shuffled among the places of their own block, one row for each permutation.

    >>> labels, blocks = np.array([0, 1, 2, 3]), np.array([0, 1, 0, 1])
    >>> permute_within(labels, blocks, 2, np.random.default_rng(5))
    array([[2, 3, 0, 1],
           [0, 3, 2, 1]])
    """
    places = np.argsort(blocks, kind="stable")
    keys = rng.random((permutations, len(labels))) + blocks
    shuffled = np.empty((permutations, len(labels)), dtype=labels.dtype)
    shuffled[:, places] = labels[np.argsort(keys, axis=1)]
    return shuffled


def sign_flip_test(
    changes: ArrayLike, *, rng: np.random.Generator, permutations: int = 10_000
) -> PermutationTest:
    """Test that paired differences centre on zero: exchange the two conditions cluster by cluster.

    >>> sign_flip_test([0.2, 0.1, 0.4, 0.3, 0.2, 0.3], rng=np.random.default_rng(1)).p < 0.05
    True
    """
    column = finite(changes, "differences")
    if not column.size:
        raise InputError("differences: no cluster to compare")
    signs = rng.integers(0, 2, size=(permutations, len(column))) * 2.0 - 1
    return permutation_test(abs(float(column.sum())), np.abs(signs @ column))


def permutation_test(observed: float, draws: Floats) -> PermutationTest:
    """P-value of an observed statistic among permuted ones (Phipson, Smyth 2010).

    >>> permutation_test(3.0, np.array([1.0, 2.0, 3.0])).p
    0.5
    """
    # Equal statistics reached by another order of additions may differ in the last bits.
    as_extreme = int((draws >= observed - 1e-9 * abs(observed)).sum())
    return PermutationTest((as_extreme + 1) / (len(draws) + 1), len(draws), as_extreme)
