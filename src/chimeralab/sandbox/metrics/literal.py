"""The three metrics and their parts alone, as fast as the columns can be read."""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from chimeralab.sandbox.columns import TrialColumns, matched_pairs
from chimeralab.sandbox.metrics.dfs import DfsSums, dfs_sums
from chimeralab.sandbox.metrics.gfq import GfqSums, gfq_parts, gfq_sums
from chimeralab.sandbox.metrics.mci import MciSums, mci_parts, mci_sums
from chimeralab.sandbox.metrics.samples import frame_sample, session_sample, values
from chimeralab.sandbox.metrics.sums import Clusters, Sessions
from chimeralab.sandbox.metrics.weights import MetricWeights
from chimeralab.stats.arrays import Floats, Integers

# Blocks of this many rows stay in the processor's cache, and memory does not grow with the trials.
BLOCK_ROWS = 32_768


PUBLISHED = MetricWeights()


def literal_values(
    columns: TrialColumns, weights: MetricWeights = PUBLISHED
) -> dict[str, float | None]:
    """MCI, GFQ and DFS with their parts, each under its name; None where undefined."""
    cuts = _cuts(columns)
    blocks = _blocks(columns, cuts)
    sessions = [Sessions(block.starts, len(block)) for block in blocks]
    mci = MciSums(*_joined(map(mci_sums, blocks, sessions)))
    gfq = GfqSums(*_joined(map(gfq_sums, blocks, sessions)))
    framed = blocks if _pairs_keep_within(columns, cuts) else [columns]
    frames = DfsSums(*np.sum([_frames(block) for block in framed], axis=0))
    parts = mci_parts(mci, weights.mci), gfq_parts(gfq, weights.gfq)
    by_session = session_sample(*parts, np.zeros(len(mci.judged), np.intp))
    return values(by_session) | values(frame_sample(frames, weights.dfs))


def _cuts(columns: TrialColumns) -> Integers:
    """The session starts that are nearest behind each full block."""
    starts = columns.starts
    wanted = np.arange(BLOCK_ROWS, len(columns), BLOCK_ROWS)
    found = np.searchsorted(starts, wanted)
    return np.unique(starts[found[found < len(starts)]])


def _blocks(columns: TrialColumns, cuts: Integers) -> list[TrialColumns]:
    edges = [0, *cuts.tolist(), len(columns)]
    return [columns.keep(slice(*edge)) for edge in pairwise(edges)]


def _pairs_keep_within(columns: TrialColumns, cuts: Integers) -> bool:
    """Whether pairs come in order and no cut goes through one."""
    pair = columns.pair
    if pair is None:
        return True
    in_order = all(bool((block[1:] >= block[:-1]).all()) for block in np.split(pair, cuts))
    return in_order and bool((pair[cuts - 1] < pair[cuts]).all())


def _frames(block: TrialColumns) -> DfsSums:
    return dfs_sums(block, matched_pairs(block), Clusters(1, len(block)))


def _joined(parts: Iterable[tuple[Floats, ...]]) -> list[Floats]:
    """The sums of all blocks, one after another."""
    return [np.concatenate(column) for column in zip(*parts, strict=True)]
