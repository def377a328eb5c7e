"""What the metrics say of a set of trials, as frozen records."""

from collections.abc import Mapping
from dataclasses import dataclass

from chimeralab.core.records import Record
from chimeralab.sandbox.metrics.weights import MetricWeights
from chimeralab.stats.intervals import Interval

Number = float | None
Intervals = Mapping[str, Interval | None]


@dataclass(frozen=True, slots=True)
class Mci(Record):
    """Memory Coherence Index: mean over the sessions that define it."""

    value: Number
    rf: Number
    ci: Number
    cb: Number
    ceiling: Number
    sessions: int
    interval: Interval | None
    part_intervals: Intervals


@dataclass(frozen=True, slots=True)
class Gfq(Record):
    """Generalization Fidelity Quotient: mean over the sessions that define it."""

    value: Number
    ta: Number
    cta: Number
    sessions: int
    interval: Interval | None
    part_intervals: Intervals


@dataclass(frozen=True, slots=True)
class Dfs(Record):
    """Decision Frame Stability over all pairs and trials.

    ``pairs`` are matched and answered, ``unanswered`` matched but not answered twice, ``unpaired``
    halves without their other half; ``trials`` is the N of bias resistance.
    """

    value: Number
    fi: Number
    br: Number
    pairs: int
    unanswered: int
    unpaired: int
    trials: int
    interval: Interval | None
    part_intervals: Intervals


@dataclass(frozen=True, slots=True)
class Companions(Record):
    """Numbers that see what the three metrics do not."""

    cb_normalised: Number
    ece: Number
    brier: Number
    auroc: Number
    brier_novel: Number
    auroc_novel: Number
    generalisation_gap: Number
    br_biased_only: Number
    toward_signal_rate: Number
    mcnemar_b: int | None
    mcnemar_c: int | None
    mcnemar_p: Number
    interval: Intervals


@dataclass(frozen=True, slots=True)
class Coverage(Record):
    """How many of the trials state a value."""

    correct: int
    confidence: int
    weight: int


@dataclass(frozen=True, slots=True)
class Metrics(Record):
    """What a set of trials says. ``undefined`` gives the reason for every number that is None."""

    sessions: int
    trials: int
    mci: Mci
    gfq: Gfq
    dfs: Dfs
    companions: Companions
    undefined: Mapping[str, str]
    coverage: Coverage
    clusters: Mapping[str, int]
    weights: MetricWeights
    resamples: int
    notes: tuple[str, ...] = ()
