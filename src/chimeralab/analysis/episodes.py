"""After the onset: how long collapse lasts, and how many runs come out of it again."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from chimeralab.analysis.runs import Run, Runs
from chimeralab.core.records import Record
from chimeralab.stats.arrays import Floats
from chimeralab.stats.design import Design
from chimeralab.stats.intervals import Interval
from chimeralab.stats.shares import share
from chimeralab.stats.survival import durations, kaplan_meier, median_time

NO_TURNS = "the table does not say which turns collapsed; analyse the study itself"
NONE_COLLAPSED = "no run collapsed"


@dataclass(frozen=True, slots=True)
class AfterOnset(Record):
    """What becomes of runs once they have collapsed.

    A run recovered when a turn after its first collapse is not collapsed. ``dwell_share`` is the
    mean share of collapsed turns from the onset on. ``dwell_median`` is the length of an episode
    in turns; one that lasts to the end of its run is censored, not taken for finished.
    ``relapsed_runs`` counts recovered runs that collapsed again.
    """

    runs: int
    collapsed_runs: int
    recovered_runs: int
    recovered_share: float | None
    recovered_ci: Interval | None
    dwell_share: float | None
    episodes: int | None
    episodes_per_run: float | None
    dwell_median: float | None
    relapsed_runs: int | None
    reasons: Mapping[str, str] = field(default_factory=dict)


def after_onset(runs: Runs, level: float = 0.95) -> AfterOnset:
    """Summarise what the table allows: episodes need to know which turns collapsed."""
    happened = ~np.isnan(runs.first)
    left = (runs.turns - runs.first + 1)[happened]
    collapsed = runs.collapsed[happened]
    recovered = (collapsed < left).astype(np.float64)
    found = share(recovered, np.ones(len(recovered)), Design(clusters=runs.seed[happened]), level)
    spans = _spans(runs.rows)
    return AfterOnset(
        runs=len(runs.rows),
        collapsed_runs=int(happened.sum()),
        recovered_runs=found.hits,
        recovered_share=found.value,
        recovered_ci=found.interval,
        dwell_share=float((collapsed / left).mean()) if len(left) else None,
        episodes=None if spans is None else len(spans.turns),
        episodes_per_run=None if spans is None else spans.per_run,
        dwell_median=None if spans is None else spans.median,
        relapsed_runs=None if spans is None else sum(count > 1 for count in spans.by_run),
        reasons=_reasons(found.value is None, found.interval is None, spans),
    )


class Spans(NamedTuple):
    """The lengths of all episodes, whether each ended before its run did, and episodes by run."""

    turns: Floats
    ended: Floats
    by_run: tuple[int, ...]

    @property
    def per_run(self) -> float | None:
        """Episodes of a run that has any."""
        return len(self.turns) / len(self.by_run) if self.by_run else None

    @property
    def median(self) -> float | None:
        """The length that half of the episodes do not outlast (Kaplan-Meier)."""
        if not len(self.turns):
            return None
        ends = np.where(self.ended > 0, self.turns, np.nan)
        return median_time(kaplan_meier(durations(ends, self.turns)))


def _spans(rows: Iterable[Run]) -> Spans | None:
    """None when the table does not know its episodes."""
    turns, ended, by_run = [], [], []
    for row in rows:
        if row.episodes is None:
            return None
        turns += [episode.turns for episode in row.episodes]
        ended += [episode.end < row.total_turns for episode in row.episodes]
        by_run.append(len(row.episodes))
    return Spans(np.array(turns, float), np.array(ended, float), tuple(n for n in by_run if n))


def _reasons(none_collapsed: bool, no_interval: bool, spans: Spans | None) -> dict[str, str]:
    why = {}
    if none_collapsed:
        why = dict.fromkeys(("recovered_share", "recovered_ci", "dwell_share"), NONE_COLLAPSED)
    elif no_interval:
        why["recovered_ci"] = "collapsed runs come from one seed prompt alone"
    if spans is None:
        names = ("episodes", "episodes_per_run", "dwell_median", "relapsed_runs")
        return why | dict.fromkeys(names, NO_TURNS)
    if not spans.by_run:
        return why | dict.fromkeys(("episodes_per_run", "dwell_median"), NONE_COLLAPSED)
    if spans.median is None:
        why["dwell_median"] = "fewer than half of the episodes ended before their runs did"
    return why
