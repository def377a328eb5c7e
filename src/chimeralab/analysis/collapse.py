"""The whole analysis of a table of runs, as one record."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from chimeralab.analysis.answers import Answer, answer, select
from chimeralab.analysis.comparisons import Comparison, Comparisons, compare_all
from chimeralab.analysis.conditions import ConditionSummary, summarise
from chimeralab.analysis.episodes import AfterOnset, after_onset
from chimeralab.analysis.estimands import EXPLORATORY, MEASURES, Outcomes
from chimeralab.analysis.first_collapse import Curve, LogRankTest, curve, log_rank, log_rank_pairs
from chimeralab.analysis.notes import notes
from chimeralab.analysis.planning import Outlook, outlooks
from chimeralab.analysis.ranks import OrderStability, order_of, order_stability
from chimeralab.analysis.runs import LeftOut, Runs
from chimeralab.analysis.settings import Settings, settings_for
from chimeralab.core.errors import InputError
from chimeralab.core.records import Record


@dataclass(frozen=True, slots=True)
class Analysis(Record):
    """What a table of runs shows.

    ``conditions`` and ``measures`` describe every run; ``answers`` are the estimands that the plan
    declared, each on its own population. What was not declared is exploratory.
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
    curves: Mapping[str, Curve]
    rank_stability: OrderStability
    after_onset: Mapping[str, AfterOnset]
    outlook: tuple[Outlook, ...]
    answers: tuple[Answer, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]

    @property
    def contrasts(self) -> tuple[Comparison, ...]:
        """Every pair of conditions on the share of collapsed turns."""
        return self.measures["share"].pairs

    @property
    def weighted(self) -> tuple[Comparison, ...]:
        """The declared contrasts with weights on the share of collapsed turns."""
        return self.measures["share"].weighted


def analyse(runs: Runs, outcomes: Outcomes = EXPLORATORY) -> Analysis:
    """Analyse a table of runs; with declared outcomes, answer these too.

    The tables that describe all conditions take the runs of the first primary estimand.
    """
    outcomes.check(runs.conditions, None if runs.bucket is None else set(runs.bucket.tolist()))
    settings = settings_for(runs, outcomes)
    answers = tuple(answer(runs, each, outcomes, settings) for each in outcomes.estimands)
    described = select(runs, outcomes.primary) if outcomes.primary else runs
    if not described.rows:
        raise InputError(f"{runs.source}: {answers[0].reason}")
    return _described(described, outcomes, settings, answers)


def _described(
    runs: Runs, outcomes: Outcomes, settings: Settings, answers: tuple[Answer, ...]
) -> Analysis:
    rates = runs.collapsed / runs.turns
    order = order_of(runs, rates)
    apart = {name: runs.under(name) for name in runs.conditions}
    return Analysis(
        source=runs.source,
        runs=len(runs.rows),
        seeds=len(np.unique(runs.seed)),
        buckets=None if runs.bucket is None else len(np.unique(runs.bucket)),
        settings=settings,
        conditions={name: summarise(part, settings) for name, part in apart.items()},
        measures={
            measure: compare_all(runs, measure, order, outcomes.contrasts, settings)
            for measure in MEASURES
        },
        logrank=log_rank(runs, settings),
        logrank_pairs=log_rank_pairs(runs, order, settings),
        curves={name: curve(part, settings) for name, part in apart.items()},
        rank_stability=order_stability(runs, rates, order),
        after_onset={name: after_onset(part, settings.level) for name, part in apart.items()},
        outlook=outlooks(runs, order, "share", settings.tau),
        answers=answers,
        left_out=runs.left_out,
        notes=notes(runs, declared=bool(answers)),
    )


def as_json(analysis: Analysis) -> dict[str, Any]:
    """The analysis as plain values, the contrasts on the share of turns at the top as well."""
    return {
        **analysis.as_dict(),
        "contrasts": [each.as_dict() for each in analysis.contrasts],
        "weighted": [each.as_dict() for each in analysis.weighted],
    }
