"""The answers to what a plan asked: each estimand on its own runs."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from chimeralab.analysis.comparisons import Comparison, Weights, family, pairs_of
from chimeralab.analysis.estimands import PAIRS, Estimand, Outcomes
from chimeralab.analysis.measures import per_run
from chimeralab.analysis.ranks import order_of
from chimeralab.analysis.runs import LeftOut, Run, Runs
from chimeralab.analysis.settings import Settings
from chimeralab.core.records import Record

# How a conversation ends that is neither complete nor stopped for having collapsed.
CUT_SHORT = ("failed", "overflow", "refusal", "empty")


@dataclass(frozen=True, slots=True)
class Answer(Record):
    """An estimand with its estimates; ``reason`` says why there are none."""

    estimand: Estimand
    summary: str
    runs: int
    comparisons: tuple[Comparison, ...]
    left_out: tuple[LeftOut, ...]
    reason: str | None = None


def answer(runs: Runs, estimand: Estimand, outcomes: Outcomes, settings: Settings) -> Answer:
    """Estimate one estimand; Holm's correction covers its own comparisons."""
    chosen = select(runs, estimand)
    if not chosen.rows:
        missing = "no run is left after what the estimand leaves out"
        return Answer(estimand, estimand.summary, 0, (), chosen.left_out, missing)
    comparisons = family(chosen, estimand.measure, _asked(chosen, estimand, outcomes), settings)
    reason = None if comparisons else "one condition alone has nothing to be compared with"
    return Answer(
        estimand, estimand.summary, len(chosen.rows), comparisons, chosen.left_out, reason
    )


def select(runs: Runs, estimand: Estimand) -> Runs:
    """The runs that an estimand speaks of; the others are counted with their reasons."""
    why = [_reason(row, estimand) for row in runs.rows]
    gone = Counter(
        (row.condition, reason)
        for row, reason in zip(runs.rows, why, strict=True)
        if reason is not None
    )
    more = tuple(LeftOut(*key, count) for key, count in sorted(gone.items()))
    kept = runs.keep(np.array([reason is None for reason in why]))
    return replace(kept, left_out=runs.left_out + more)


def _reason(row: Run, estimand: Estimand) -> str | None:
    if estimand.population and row.seed_bucket not in estimand.population:
        return "outside the population"
    if estimand.failed_turns == "leave_out" and row.outcome in CUT_SHORT:
        return f"cut short ({row.outcome})"
    if estimand.empty_turns == "leave_out" and row.blank_turns:
        return "has empty turns"
    return None


def _asked(runs: Runs, estimand: Estimand, outcomes: Outcomes) -> list[Weights]:
    if estimand.contrast != PAIRS:
        return [c.by_condition for c in outcomes.contrasts if c.name == estimand.contrast]
    # Pairs stand the same way round for every measure: by the share that collapsed.
    shares, _ = per_run(runs, "share", 0)
    assert shares is not None
    return pairs_of(order_of(runs, shares))
