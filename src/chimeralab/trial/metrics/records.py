"""What the metrics say of a set of trials, and what each of their numbers means."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import number, p_value
from chimeralab.core.records import Record
from chimeralab.stats.intervals import Interval

Number = float | None
Intervals = Mapping[str, Interval | None]


@dataclass(frozen=True, slots=True)
class MetricWeights(Record):
    """How much each part counts in its metric, as published unless told otherwise.

    ``mci`` weighs recall fidelity, continuity integrity and context binding; ``gfq`` task accuracy
    and confidence-task agreement; ``dfs`` frame invariance and bias resistance.
    """

    mci: tuple[float, float, float] = (0.4, 0.3, 0.3)
    gfq: tuple[float, float] = (0.6, 0.4)
    dfs: tuple[float, float] = (0.5, 0.5)

    def __post_init__(self) -> None:
        for name in ("mci", "gfq", "dfs"):
            weights = getattr(self, name)
            shown = " ".join(f"{weight:g}" for weight in weights)
            total = sum(weights)
            if not all(0 <= weight <= 1 for weight in weights):
                raise InputError(f"{name} weights {shown}: each must lie between 0 and 1")
            if not math.isclose(total, 1, abs_tol=1e-9):
                raise InputError(f"{name} weights {shown}: they sum to {total:g} and must sum to 1")


class Meaning(NamedTuple):
    """What a number says, why it can be undefined, and how it is shown.

    In ``says``, ``{share}`` is the number in percent, ``{rest}`` what it lacks to 1, and ``{all}``
    all metrics. ``undefined`` names the columns that would define the number.
    """

    says: str
    undefined: str = ""
    shown: Callable[[Number], str] = partial(number, digits=3)


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
    """Numbers that see what the three metrics do not.

    One more is a field with its meaning below, and a number of the same name in `summary`; only if
    it needs sums of its own, `sums` has to add them up. The table of `chimera measure` and the
    reasons follow from the meaning.
    """

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


PARTS = {"mci": ("rf", "ci", "cb"), "gfq": ("ta", "cta"), "dfs": ("fi", "br")}
METRIC_MEANINGS: dict[str, dict[str, Meaning]] = {
    "mci": {
        "value": Meaning("memory coherence; these trials allow at most {all.mci.ceiling:.3f}"),
        "rf": Meaning(
            "recall fidelity: {share} of the trials are right", "no trial states `correct`"
        ),
        "ci": Meaning(
            "continuity: confidence moves by {rest:.2f} from trial to trial",
            "no session states `confidence` twice, and a single trial has no step",
        ),
        "cb": Meaning(
            "context binding: right answers, weighted by the context they need",
            "no trial states both `correct` and `weight`",
        ),
        "ceiling": Meaning(
            "the highest index in reach", "no trial states both `correct` and `weight`"
        ),
    },
    "gfq": {
        "value": Meaning("generalization fidelity, on novel trials"),
        "ta": Meaning(
            "task accuracy: {share} of the novel trials are right",
            "no trial marked `novel` states `correct`",
        ),
        "cta": Meaning(
            "agreement: mean confidence that went into right answers",
            "no trial marked `novel` states both `correct` and `confidence`",
        ),
    },
    "dfs": {
        "value": Meaning("decision frame stability"),
        "fi": Meaning(
            "invariance: wording moves an answer by {rest:.2f} ({all.dfs.pairs:,} pairs)",
            "no matched pair: two rows that share `pair`, one with `frame` neutral and one biased,"
            " both with a `response`",
        ),
        "br": Meaning(
            "resistance: error under bias, spread over all {all.dfs.trials:,} trials",
            "no trial states `bias` and, where it is 1, `response` and `truth`",
        ),
    },
}
COMPANION_MEANINGS: dict[str, Meaning] = {
    "cb_normalised": Meaning(
        "share of the context weight that was earned",
        "no trial with `correct` has a `weight` above 0",
    ),
    "ece": Meaning(
        "mean gap between confidence and accuracy; 0 is calibrated",
        "no trial states both `correct` and `confidence`",
    ),
    "brier": Meaning(
        "squared miss of confidence; 0 is perfect, always saying 0.5 gives 0.25",
        "no trial states both `correct` and `confidence`",
    ),
    "auroc": Meaning(
        "chance that a right answer was given with more confidence than a wrong one",
        "needs right and wrong answers that state a `confidence`",
    ),
    "brier_novel": Meaning(
        "the Brier score on novel trials",
        "no trial marked `novel` states both `correct` and `confidence`",
    ),
    "auroc_novel": Meaning(
        "the AUROC of confidence on novel trials",
        "needs right and wrong answers on `novel` trials that state a `confidence`",
    ),
    "generalisation_gap": Meaning(
        "accuracy on familiar trials minus accuracy on novel ones",
        "no session has judged trials both marked and not marked `novel`",
    ),
    "br_biased_only": Meaning(
        "resistance without the neutral trials, which dilute it",
        "no trial with `bias` 1 states `response` and `truth`",
    ),
    "toward_signal_rate": Meaning(
        "share of misleading signals that were followed",
        "no trial with `bias` 1 states `response`, `truth` and a `signal` that differs from the"
        " truth",
    ),
    "mcnemar_b": Meaning(
        "pairs right only when neutral",
        "no matched pair with both halves known to be right or wrong",
        partial(number, digits=0),
    ),
    "mcnemar_c": Meaning(
        "pairs right only when biased",
        "no matched pair with both halves known to be right or wrong",
        partial(number, digits=0),
    ),
    "mcnemar_p": Meaning(
        "p-value of the exact McNemar test of these two counts",
        "no pair whose two halves differ in being right",
        p_value,
    ),
}
