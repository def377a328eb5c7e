"""MCI, GFQ and DFS as published: what their trials add up to, and what follows from the sums."""

from typing import NamedTuple

import numpy as np

from chimeralab.stats.arrays import Floats, Integers, ratios
from chimeralab.stats.resample import cluster_totals
from chimeralab.trial.metrics.intervals import Estimator
from chimeralab.trial.metrics.sums import Block, absolute_steps, answer_gap, filled


class MciSums(NamedTuple):
    """What the trials of each session add up to, an entry per session."""

    judged: Floats
    right: Floats
    stated: Floats
    movement: Floats
    weighed: Floats
    weight: Floats
    weighted_right: Floats


class MciParts(NamedTuple):
    """The index and its parts, an entry per session; NaN where undefined."""

    value: Floats
    rf: Floats
    ci: Floats
    cb: Floats
    ceiling: Floats
    cb_normalised: Floats


def mci_sums(block: Block) -> MciSums:
    """The sums of every session; a cell that is missing takes no part."""
    columns, total = block.columns, block.sessions.total
    correct, weight = filled(columns.correct, len(columns)), filled(columns.weight, len(columns))
    confidence = filled(columns.confidence, len(columns))
    steps = absolute_steps(
        confidence.number if columns.confidence is None else columns.confidence, columns.session
    )
    return MciSums(
        judged=total(correct.known),
        right=total(correct.number),
        stated=total(confidence.known),
        movement=total(steps),
        weighed=total(correct.known, weight.known),
        weight=total(correct.known, weight.number),
        weighted_right=total(correct.number, weight.number),
    )


def mci_parts(sums: MciSums, weights: tuple[float, float, float]) -> MciParts:
    """Memory Coherence Index: recall that is right, steady in confidence, bound to its context.

    Source: the sandbox's methods, section 3.2.1. Recall fidelity, continuity integrity, context
    binding, and the highest index in reach.

    >>> sums = MciSums(*np.array([[5.0], [3.0], [5.0], [0.8], [5.0], [3.5], [1.75]]))
    >>> mci_parts(sums, (0.4, 0.3, 0.3)).value.round(3)
    array([0.585])
    """
    rf = ratios(sums.right, sums.judged)
    ci = 1 - ratios(sums.movement, np.maximum(sums.stated - 1, 0))
    cb = ratios(sums.weighted_right, sums.weighed)
    highest = ratios(sums.weight, sums.weighed)
    value = weighted(weights, rf, ci, cb)
    ceiling = weighted(weights, np.ones_like(rf), np.ones_like(rf), highest)
    # Both are means over sessions: of the same ones, or an index could pass its ceiling.
    known = ~np.isnan(value)
    return MciParts(
        value=value,
        rf=rf,
        ci=ci,
        cb=cb,
        ceiling=np.where(known, ceiling, np.nan) if known.any() else ceiling,
        cb_normalised=ratios(sums.weighted_right, sums.weight),
    )


class GfqSums(NamedTuple):
    """What the trials of each session add up to, an entry per session."""

    novel: Floats
    novel_right: Floats
    novel_stated: Floats
    confident_right: Floats
    seen: Floats
    seen_right: Floats


class GfqParts(NamedTuple):
    """The quotient and its parts, an entry per session; NaN where undefined."""

    value: Floats
    ta: Floats
    cta: Floats
    gap: Floats


def gfq_sums(block: Block) -> GfqSums:
    """The sums of every session; a cell that is missing takes no part."""
    columns, total = block.columns, block.sessions.total
    rows = len(columns)
    correct, confidence = filled(columns.correct, rows), filled(columns.confidence, rows)
    novel = filled(columns.novel, rows)
    novel_judged = total(novel.number, correct.known)
    novel_right = total(novel.number, correct.number)
    return GfqSums(
        novel=novel_judged,
        novel_right=novel_right,
        novel_stated=total(novel.number, correct.known, confidence.known),
        confident_right=total(novel.number, correct.number, confidence.number),
        seen=total(novel.known, correct.known) - novel_judged,
        seen_right=total(novel.known, correct.number) - novel_right,
    )


def gfq_parts(sums: GfqSums, weights: tuple[float, float]) -> GfqParts:
    """Generalization Fidelity Quotient: right, and sure of it, on what was never met before.

    Source: the sandbox's methods, section 3.2.2. Task accuracy and confidence-task agreement on
    novel trials, and how much better the familiar trials went.

    >>> sums = GfqSums(*np.array([[5.0], [3.0], [5.0], [2.2], [0.0], [0.0]]))
    >>> gfq_parts(sums, (0.6, 0.4)).value.round(3)
    array([0.536])
    """
    ta = ratios(sums.novel_right, sums.novel)
    cta = ratios(sums.confident_right, sums.novel_stated)
    seen = ratios(sums.seen_right, sums.seen)
    return GfqParts(value=weighted(weights, ta, cta), ta=ta, cta=cta, gap=seen - ta)


class DfsSums(NamedTuple):
    """What pairs and trials add up to, an entry per stretch or per cluster."""

    pairs: Floats
    shift: Floats
    trials: Floats
    flagged: Floats
    biased: Floats
    error: Floats


class DfsParts(NamedTuple):
    """The metric and its parts; NaN where undefined."""

    value: Floats
    fi: Floats
    br: Floats
    br_biased_only: Floats


def dfs_sums(block: Block) -> DfsSums:
    """The sums of every stretch.

    A pair counts when both halves are answered. A neutral trial adds nothing to the error and
    always counts; a biased one counts when its answer and the truth are known.
    """
    columns, pairs, total = block.columns, block.pairs, block.stretches.total
    answers, shifts = columns.response, None
    if answers is not None:
        shifts = answer_gap(columns, answers[pairs.neutral], answers[pairs.biased])
    shift = filled(shifts, len(pairs.neutral))
    bias = filled(columns.bias, len(columns))
    error = filled(answer_gap(columns, answers, columns.truth), len(columns))
    flagged, biased = total(bias.number), total(bias.number, error.known)
    return DfsSums(
        pairs=block.pair_total(shift.known),
        shift=block.pair_total(shift.number),
        trials=total(bias.known) - flagged + biased,
        flagged=flagged,
        biased=biased,
        error=total(bias.number, error.number),
    )


def dfs_parts(sums: DfsSums, weights: tuple[float, float]) -> DfsParts:
    """Decision Frame Stability: the same decision in a neutral and in a biased wording.

    Source: the sandbox's methods, section 3.2.3. It writes one N for both parts; here frame
    invariance runs over the matched pairs and bias resistance over all trials. The last number is
    bias resistance without the neutral trials.

    >>> sums = DfsSums(*np.array([[5.0], [2.0], [10.0], [5.0], [5.0], [1.0]]))
    >>> [float(part[0].round(3)) for part in dfs_parts(sums, (0.5, 0.5))]
    [0.75, 0.6, 0.9, 0.8]
    """
    fi = 1 - ratios(sums.shift, sums.pairs)
    # Where biased trials were run but none can be judged, the neutral ones alone say nothing.
    trials = np.where((sums.flagged > 0) & (sums.biased == 0), 0, sums.trials)
    br = 1 - ratios(sums.error, trials)
    biased_only = 1 - ratios(sums.error, sums.biased)
    return DfsParts(value=weighted(weights, fi, br), fi=fi, br=br, br_biased_only=biased_only)


def session_means(mci: MciParts, gfq: GfqParts, cluster: Integers) -> Estimator:
    """Means over the sessions where each number is defined: a part that one trial defines counts
    there, though its metric needs more."""
    columns: dict[str, Floats] = {}
    for metric, parts, names in (
        ("mci", mci, ("rf", "ci", "cb", "ceiling")),
        ("gfq", gfq, ("ta", "cta")),
    ):
        columns[metric] = parts.value
        columns |= {f"{metric}.{name}": getattr(parts, name) for name in names}
    columns |= {"cb_normalised": mci.cb_normalised, "generalisation_gap": gfq.gap}
    table = np.column_stack(list(columns.values()))
    known = ~np.isnan(table)
    sums = np.hstack([np.where(known, table, 0.0), known])
    means = len(columns)
    return Estimator(
        cluster_totals(sums, cluster),
        lambda totals: dict(
            zip(columns, ratios(totals[:, :means], totals[:, means:]).T, strict=True)
        ),
    )


def frame_numbers(sums: DfsSums, weights: tuple[float, float]) -> Estimator:
    """Decision frame stability over all pairs and trials."""

    def numbers(totals: Floats) -> dict[str, Floats]:
        value, fi, br, biased_only = dfs_parts(DfsSums(*totals.T), weights)
        return {"dfs": value, "dfs.fi": fi, "dfs.br": br, "br_biased_only": biased_only}

    return Estimator(np.column_stack(sums), numbers)


def weighted(weights: tuple[float, ...], *parts: Floats) -> Floats:
    """The sum of weighted parts, entry by entry; a part that counts nothing may be undefined.

    >>> weighted((1.0, 0.0), np.array([0.5]), np.array([np.nan]))
    array([0.5])
    """
    counted = [weight * part for weight, part in zip(weights, parts, strict=True) if weight]
    return np.asarray(np.sum(counted, axis=0))
