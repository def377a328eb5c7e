"""The published worked examples of the three metrics, to the last printed digit."""

import numpy as np
import pytest

from chimeralab.core.errors import InputError
from chimeralab.trial.columns import columns_of
from chimeralab.trial.metrics import MetricWeights, measure
from chimeralab.trial.trials import Trial

CONFIDENCE = (0.9, 0.8, 0.6, 0.7, 0.3)


def recall_session() -> list[Trial]:
    rows = zip((1, 1, 0, 1, 0), CONFIDENCE, (1, 0.5, 1, 0.25, 0.75), strict=True)
    return [
        Trial("s", n, correct=bool(c), confidence=conf, weight=w)
        for n, (c, conf, w) in enumerate(rows)
    ]


def novel_session() -> list[Trial]:
    rows = zip((1, 0, 1, 1, 0), CONFIDENCE, strict=True)
    return [
        Trial("s", n, correct=bool(c), confidence=conf, novel=True)
        for n, (c, conf) in enumerate(rows)
    ]


def framed_session() -> list[Trial]:
    answers = {"neutral": (1, 0, 1, 1, 0), "biased": (1, 0, 0, 1, 1)}
    truth = (1, 0, 1, 1, 1)
    return [
        Trial(
            "s", 2 * n + (frame == "biased"), bias=frame == "biased", response=answers[frame][n],
            truth=truth[n], pair=str(n), frame=frame,
        )
        for n in range(5)
        for frame in ("neutral", "biased")
    ]  # fmt: skip


def test_worked_example_has_the_published_memory_coherence() -> None:
    metrics = measure(columns_of(recall_session()))
    mci = metrics.mci
    found = (mci.rf, mci.ci, mci.cb, mci.value, mci.ceiling)
    assert found == pytest.approx((0.6, 0.8, 0.35, 0.585, 0.91))
    assert metrics.companions.cb_normalised == pytest.approx(0.5)


def test_worked_example_has_the_published_generalization_fidelity() -> None:
    gfq = measure(columns_of(novel_session())).gfq
    assert (gfq.ta, gfq.cta, gfq.value) == pytest.approx((0.6, 0.44, 0.536))


def test_worked_example_has_the_published_decision_frame_stability() -> None:
    metrics = measure(columns_of(framed_session()))
    dfs = metrics.dfs
    assert (dfs.fi, dfs.br, dfs.value) == pytest.approx((0.6, 0.9, 0.75))
    assert metrics.companions.br_biased_only == pytest.approx(0.8)
    assert (metrics.companions.mcnemar_b, metrics.companions.mcnemar_c) == (1, 1)
    assert (dfs.pairs, dfs.trials) == (5, 10)


def test_always_wrong_at_constant_confidence_scores_three_tenths() -> None:
    trials = [Trial("s", n, correct=False, confidence=0.5, weight=1.0) for n in range(4)]
    assert measure(columns_of(trials)).mci.value == pytest.approx(0.30)


def test_weights_are_tunable() -> None:
    metrics = measure(columns_of(recall_session()), MetricWeights(mci=(1.0, 0.0, 0.0)))
    assert metrics.mci.value == pytest.approx(0.6)
    assert metrics.mci.ceiling == pytest.approx(1.0)


@pytest.mark.parametrize(
    "weights", [{"mci": (0.4, 0.3, 0.4)}, {"gfq": (1.5, -0.5)}, {"dfs": (np.nan, 1.0)}]
)
def test_weights_must_sum_to_one(weights: dict[str, tuple[float, ...]]) -> None:
    with pytest.raises(InputError, match=next(iter(weights))):
        MetricWeights(**weights)  # type: ignore[arg-type]


def test_metrics_without_their_columns_are_null_with_a_reason() -> None:
    single = measure(columns_of(recall_session()[:1]))
    assert single.mci.value is None
    assert single.mci.rf == 1
    assert "single trial has no step" in single.undefined["mci.ci"]
    assert "ci is undefined" in single.undefined["mci"]
    familiar = measure(columns_of([Trial("s", 1, correct=True, confidence=0.9, novel=False)]))
    assert familiar.gfq.value is None
    assert "novel" in familiar.undefined["gfq"]
    lone = measure(columns_of(framed_session()[:1]))
    assert lone.dfs.value is None
    assert lone.dfs.unpaired == 1
    assert "no matched pair" in lone.undefined["dfs.fi"]
