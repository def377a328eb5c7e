"""A detector judged by a rater: how often it finds what is there, and stays silent when not."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from chimeralab.stats.agreement import Labels, cell_rows
from chimeralab.stats.clusters import Share, share
from chimeralab.stats.design import SampleDesign
from chimeralab.stats.panel import Panel, panel


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Verdicts against a reference.

    Sensitivity and specificity start from what the reference says, the predictive values from
    what the detector says. When items were picked by the verdict, only weights make the first
    two right.
    """

    sensitivity: Share
    specificity: Share
    positive_predictive_value: Share
    negative_predictive_value: Share
    agreement: Panel
    reasons: Mapping[str, str] = field(default_factory=dict)


def diagnose(
    verdicts: Labels,
    reference: Labels,
    *,
    rng: np.random.Generator,
    design: SampleDesign | None = None,
    resamples: int = 100_000,
) -> Diagnosis:
    """Sensitivity, specificity and kappa with their intervals (Yerushalmy 1947).

    >>> result = diagnose([1, 1, 0, 0, 1], [1, 1, 1, 0, 0], rng=np.random.default_rng(1))
    >>> round(result.sensitivity.value, 3), result.specificity.value
    (0.667, 0.5)
    """
    both, false_alarm, miss, neither = cell_rows(verdicts, reference).T
    shares = {
        "sensitivity": share(both, both + miss, design),
        "specificity": share(neither, neither + false_alarm, design),
        "positive_predictive_value": share(both, both + false_alarm, design),
        "negative_predictive_value": share(neither, neither + miss, design),
    }
    return Diagnosis(
        agreement=panel(verdicts, reference, rng=rng, design=design, resamples=resamples),
        reasons={name: _EMPTY[name] for name, part in shares.items() if part.value is None},
        **shares,
    )


_EMPTY = {
    "sensitivity": "the reference has no 1",
    "specificity": "the reference has no 0",
    "positive_predictive_value": "the detector gave no 1",
    "negative_predictive_value": "the detector gave no 0",
}
