"""The analysis of a table of runs: estimates by condition, comparisons, and declared estimands."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.detection.locked import LOCKED
from chimeralab.selfplay.comparisons import (
    Comparisons,
    LogRankTest,
    OrderStability,
    Outlook,
    compare_all,
    compare_family,
    estimate_outlook,
    log_rank,
    order_stability,
    rank_conditions,
)
from chimeralab.selfplay.conditions import (
    AfterOnset,
    ConditionSummary,
    OnsetCurve,
    after_onset,
    estimate_curve,
    summarise,
)
from chimeralab.selfplay.outcomes import (
    EXPLORATORY,
    MEASURES,
    PAIRS,
    Estimand,
    Outcomes,
    Settings,
    settings_for,
)
from chimeralab.selfplay.runs import ExcludedRuns, Run, Runs, at_risk_turns
from chimeralab.stats.effects import (
    ContrastSpec,
    Effect,
    Family,
    Role,
    Weights,
    deduplicate_effects,
    list_pairs,
)

ONE_CONDITION = "one condition alone has nothing to be compared with"
# Outcomes of conversations that neither completed nor were stopped on collapse.
CUT_SHORT = ("failed", "overflow", "refusal", "empty")


@dataclass(frozen=True, slots=True)
class EstimandAnswer(Record):
    """An estimand with its estimates, or the ``reason`` why there are none."""

    estimand: Estimand
    summary: str
    runs: int
    comparisons: tuple[Effect, ...]
    left_out: tuple[ExcludedRuns, ...]
    reason: str | None = None


def answer(
    runs: Runs, estimand: Estimand, outcomes: Outcomes, settings: Settings
) -> EstimandAnswer:
    """Estimate one estimand, Holm-corrected over its own comparisons."""
    chosen = select(runs, estimand)
    if not chosen.rows:
        missing = "the estimand leaves out every run"
        return EstimandAnswer(estimand, estimand.summary(), 0, (), chosen.left_out, missing)
    if estimand.contrast == PAIRS:
        # The share of collapsed turns sets the direction of pairs for every measure.
        specs = list_pairs(rank_conditions(chosen, chosen.collapsed / chosen.turns))
    else:
        named = (each for each in outcomes.contrasts if each.name == estimand.contrast)
        specs = [ContrastSpec(each.by_condition) for each in named]
    comparisons = compare_family(chosen, estimand.measure, specs, settings)
    reason = None if comparisons else ONE_CONDITION
    return EstimandAnswer(
        estimand, estimand.summary(), len(chosen.rows), comparisons, chosen.left_out, reason
    )


def primary_contrasts(outcomes: Outcomes, order: Sequence[str]) -> list[Weights]:
    """What the first primary estimand compares; every pair when nothing was declared."""
    primary = outcomes.primary
    if primary and primary.contrast != PAIRS:
        named = {contrast.name: contrast.by_condition for contrast in outcomes.contrasts}
        return [named[primary.contrast]]
    return [spec.weights for spec in list_pairs(order)]


def select(runs: Runs, estimand: Estimand) -> Runs:
    """Keep the runs of an estimand; the others are counted by reason."""

    def reason_of(row: Run) -> str | None:
        if estimand.population and row.seed_bucket not in estimand.population:
            return "outside the population"
        if estimand.failed_turns == "leave_out" and row.outcome in CUT_SHORT:
            return f"cut short ({row.outcome})"
        if estimand.empty_turns == "leave_out" and row.blank_turns:
            return "has empty turns"
        return None

    why = [reason_of(row) for row in runs.rows]
    gone = Counter(
        (row.condition, reason)
        for row, reason in zip(runs.rows, why, strict=True)
        if reason is not None
    )
    more = tuple(ExcludedRuns(*key, count) for key, count in sorted(gone.items()))
    kept = runs.keep(np.array([reason is None for reason in why]))
    return replace(kept, left_out=runs.left_out + more)


@dataclass(frozen=True, slots=True)
class Analysis(Record):
    """The estimates from a table of runs.

    ``conditions`` and ``measures`` describe all runs; ``answers`` are the declared estimands, each
    on its own population. Everything else is exploratory.
    """

    source: str
    runs: int
    seeds: int
    buckets: int | None
    settings: Settings
    conditions: Mapping[str, ConditionSummary]
    measures: Mapping[str, Comparisons]
    logrank: LogRankTest
    logrank_pairs: tuple[LogRankTest, ...]
    curves: Mapping[str, OnsetCurve]
    rank_stability: OrderStability
    after_onset: Mapping[str, AfterOnset]
    outlook: tuple[Outlook, ...]
    answers: tuple[EstimandAnswer, ...]
    left_out: tuple[ExcludedRuns, ...]
    notes: tuple[str, ...]

    @property
    def contrasts(self) -> tuple[Effect, ...]:
        """Every pair of conditions on the share of collapsed turns."""
        return self.measures["share"].pairs

    @property
    def weighted_contrasts(self) -> tuple[Effect, ...]:
        """The weighted contrasts on the share of collapsed turns."""
        return self.measures["share"].weighted

    @property
    def primary(self) -> tuple[Effect, ...]:
        """The comparisons of every primary estimand."""
        return tuple(_of_role(self.answers, "primary"))

    @property
    def order_if_seen(self) -> tuple[str, ...]:
        """The order of the conditions if unseen cycles counted; empty unless it would change."""
        means = {name: each.mean for name, each in self.conditions.items()}
        seen = {
            name: each.mean_if_seen
            for name, each in self.conditions.items()
            if each.mean_if_seen is not None
        }
        changed = len(seen) == len(means) and any(
            np.sign(means[a] - means[b]) != np.sign(seen[a] - seen[b])
            for a, b in combinations(means, 2)
        )
        return tuple(sorted(seen, key=lambda name: (-seen[name], name))) if changed else ()

    def reorder(self, order: Sequence[str]) -> "Analysis":
        """The same with the conditions in this order."""
        return replace(
            self,
            conditions={name: self.conditions[name] for name in order},
            curves={name: self.curves[name] for name in order},
            after_onset={name: self.after_onset[name] for name in order},
        )

    def rows(self, measure: str) -> list[Effect]:
        """Every comparison of one measure once, primary ones first, then secondary ones."""
        found = self.measures[measure]
        primary, secondary = (
            [each for each in _of_role(self.answers, role) if each.measure == measure]
            for role in ("primary", "secondary")
        )
        return list(deduplicate_effects(primary, (*found.weighted, *found.pairs), secondary))


def analyse(runs: Runs, outcomes: Outcomes = EXPLORATORY) -> Analysis:
    """Analyse a table of runs, and estimate the declared outcomes.

    Descriptions of all conditions use the runs of the first primary estimand.
    """
    outcomes.check(runs.conditions, None if runs.bucket is None else set(runs.bucket.tolist()))
    settings = settings_for(runs, outcomes)
    answers = tuple(answer(runs, each, outcomes, settings) for each in outcomes.estimands)
    described = select(runs, outcomes.primary) if outcomes.primary else runs
    if not described.rows:
        raise InputError(f"{runs.source}: {answers[0].reason}")
    runs = described
    rates = runs.collapsed / runs.turns
    order = rank_conditions(runs, rates)
    measures: dict[str, Comparisons] = {
        measure: compare_all(runs, measure, order, outcomes.contrasts, settings)
        for measure in dict.fromkeys((*MEASURES, *(each.measure for each in outcomes.estimands)))
    }
    if answers and outcomes.family == "role":
        others = [*_of_role(answers, "exploratory")]
        others += [e for each in measures.values() for e in (*each.weighted, *each.pairs)]
        declared = _of_role(answers, "primary"), others, _of_role(answers, "secondary")
        role = Family(list(deduplicate_effects(*declared)))
        measures = {
            name: replace(
                each, pairs=role.correct(each.pairs), weighted=role.correct(each.weighted)
            )
            for name, each in measures.items()
        }
        answers = tuple(
            replace(each, comparisons=role.correct(each.comparisons)) for each in answers
        )
    apart = {name: runs.under(name) for name in runs.conditions}
    pairs = list(combinations(order, 2))
    return Analysis(
        source=runs.source,
        runs=len(runs.rows),
        seeds=len(np.unique(runs.seed)),
        buckets=None if runs.bucket is None else len(np.unique(runs.bucket)),
        settings=settings,
        conditions={name: summarise(part, settings) for name, part in apart.items()},
        measures=measures,
        logrank=log_rank(runs, settings),
        logrank_pairs=tuple(log_rank(runs.under(a, b), settings) for a, b in pairs),
        curves={name: estimate_curve(part, settings) for name, part in apart.items()},
        rank_stability=order_stability(runs, rates, order),
        after_onset={name: after_onset(part, settings.level) for name, part in apart.items()},
        outlook=tuple(estimate_outlook(runs, a, b, "share", settings.tau) for a, b in pairs),
        answers=answers,
        left_out=runs.left_out,
        notes=tuple(notes(runs, declared=bool(answers))),
    )


def _of_role(answers: Iterable[EstimandAnswer], role: Role) -> Iterator[Effect]:
    for each in answers:
        if each.estimand.role == role:
            yield from each.comparisons


def as_json(analysis: Analysis) -> dict[str, Any]:
    """The analysis as plain values, with the contrasts on the share also at the top level."""
    return {
        **analysis.as_dict(),
        "contrasts": [each.as_dict() for each in analysis.contrasts],
        "weighted": [each.as_dict() for each in analysis.weighted_contrasts],
        "order_if_seen": analysis.order_if_seen,
    }


def notes(runs: Runs, *, declared: bool) -> Iterator[str]:
    """Caveats about a table of runs."""
    if not declared:
        yield "no outcome was declared before the runs: everything here is exploratory"
    yield from _note_imbalance(runs)
    longest = runs.turns.max()
    shorter = int((runs.turns < longest).sum())
    if shorter:
        yield (
            f"{shorter} of {len(runs.rows)} runs ended before turn {longest:g}: their shares of "
            "turns are of shorter runs; the restricted mean accounts for that"
        )
    if np.isnan(runs.unseen).any():
        yield (
            "whether runs have cycles that the rule can't count is unknown: the table has no "
            "unseen_turns for them"
        )
    for name in runs.conditions:
        rates = (runs.collapsed / runs.turns)[runs.condition == name]
        if len(rates) > 1 and np.ptp(rates) == 0:
            yield (
                f"{name} has a share of {rates[0]:.4g} in every run: how much it varies is "
                "unknown, so it has no interval"
            )
    if np.isnan(runs.at_risk).any() and not isinstance(at_risk_turns(runs), str):
        first = LOCKED.first_turn_at_risk
        yield f"turns at risk are those of the locked detector: from turn {first} on"


def _note_imbalance(runs: Runs) -> Iterator[str]:
    sizes = runs.cell_sizes
    usual, _ = Counter(sizes.values()).most_common(1)[0]
    odd = {cell: n for cell, n in sizes.items() if n != usual}
    if odd:
        (condition, seed), n = min(odd.items())
        yield (
            f"unbalanced: {len(odd)} of {len(sizes)} cells do not have {usual} runs "
            f"({condition} x {seed} has {n}); means weigh every run equally, "
            "differences every prompt"
        )
    prompts = {name: {seed for c, seed in sizes if c == name} for name in runs.conditions}
    every = set.union(*prompts.values())
    short = {name: len(every - own) for name, own in prompts.items() if own != every}
    if short:
        parts = ", ".join(f"{name} lacks {count}" for name, count in short.items())
        yield f"not every prompt was run under every condition: {parts} of {len(every)}"
    alone = [name for name, own in prompts.items() if len(own) == 1]
    if alone:
        yield f"only one seed prompt under {', '.join(alone)}: nothing is known about other prompts"
