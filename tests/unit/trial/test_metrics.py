"""Companions and intervals, compared with scikit-learn and our own statistics."""

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

from chimeralab.stats.clusters import mean_bootstrap
from chimeralab.stats.intervals import expand_level
from chimeralab.trial.columns import AnswerScale, TrialColumns, columns_of
from chimeralab.trial.measures import COMPANION_TEXTS
from chimeralab.trial.metrics import calibrations, measure
from chimeralab.trial.sums import MAX_LEVELS, level_counts
from chimeralab.trial.trials import Trial

RNG = np.random.default_rng(7)
SESSIONS, LENGTH = 24, 15
SCENARIO = np.arange(SESSIONS) // 2
CORRECT = RNG.random((SESSIONS, LENGTH)) < RNG.uniform(0.3, 0.9, (SESSIONS, 1))
CONFIDENCE = RNG.random((SESSIONS, LENGTH)).round(1)
TRIALS = [
    Trial(
        f"s{s}",
        t,
        correct=bool(CORRECT[s, t]),
        confidence=float(CONFIDENCE[s, t]),
        weight=1.0,
        novel=t % 3 == 0,
        scenario=f"c{SCENARIO[s]}",
    )
    for s in range(SESSIONS)
    for t in range(LENGTH)
]


def test_calibration_companions_agree_with_scikit_learn() -> None:
    companions = measure(columns_of(TRIALS), resamples=0).companions
    right, stated = CORRECT.ravel(), CONFIDENCE.ravel()
    assert companions.brier == pytest.approx(brier_score_loss(right, stated))
    assert companions.auroc == pytest.approx(roc_auc_score(right, stated))
    novel = np.tile(np.arange(LENGTH) % 3 == 0, SESSIONS)
    assert companions.auroc_novel == pytest.approx(roc_auc_score(right[novel], stated[novel]))


def test_calibration_from_counts_equals_that_from_answers() -> None:
    scenarios = np.repeat(SCENARIO, LENGTH)
    answers = TrialColumns(
        scenarios, correct=CORRECT.ravel().astype(float), confidence=CONFIDENCE.ravel()
    )
    (totals, numbers), _ = calibrations(level_counts(answers, scenarios, SESSIONS // 2))
    rows = numbers(totals)
    for cluster in range(SESSIONS // 2):
        chosen = cluster == SCENARIO
        stated, right = CONFIDENCE[chosen].ravel(), CORRECT[chosen].ravel()
        assert rows["brier"][cluster] == pytest.approx(brier_score_loss(right, stated))
        assert rows["auroc"][cluster] == pytest.approx(roc_auc_score(right, stated))
        tenths = np.clip(np.ceil(10 * stated.round(1)), 1, 10)
        gaps = [abs((stated - right)[tenths == bin_].sum()) for bin_ in range(1, 11)]
        assert rows["ece"][cluster] == pytest.approx(sum(gaps) / len(stated))


def test_many_levels_of_confidence_are_rounded_to_two_decimals() -> None:
    stated = RNG.random(5_000)
    right = RNG.random(5_000) < stated
    session = np.zeros(5_000, np.intp)
    answers = TrialColumns(session, correct=right.astype(float), confidence=stated)
    counts = level_counts(answers, session, 1, MAX_LEVELS)
    assert len(counts[0]) == 101
    (totals, numbers), _ = calibrations(counts)
    rows = numbers(totals)
    assert rows["brier"][0] == pytest.approx(brier_score_loss(right, stated), abs=0.002)
    assert rows["auroc"][0] == pytest.approx(roc_auc_score(right, stated), abs=0.002)


def test_interval_of_recall_is_the_cluster_bootstrap_of_session_means() -> None:
    metrics = measure(columns_of(TRIALS), resamples=10_000)
    rng = np.random.default_rng(1)
    level = expand_level(12)
    oracle = mean_bootstrap(CORRECT.mean(axis=1), SCENARIO, rng=rng, level=level)
    assert oracle is not None
    assert metrics.clusters == {"sessions": 12, "trials": 12}
    assert metrics.mci.part_intervals["rf"] == pytest.approx(oracle, abs=0.01)


def test_sessions_that_mix_scenarios_are_their_own_clusters() -> None:
    trials = [Trial(f"s{s}", t, correct=True, scenario=f"c{t}") for s in range(5) for t in range(3)]
    assert measure(columns_of(trials), resamples=0).clusters == {"sessions": 5, "trials": 3}


def test_sessions_that_share_a_pair_are_one_cluster() -> None:
    trials = [
        Trial(name, 1, bias=frame == "biased", response=1, truth=1, pair=pair, frame=frame)  # type: ignore[arg-type]
        for name, pair, frame in [
            ("a", "p", "neutral"),
            ("b", "p", "biased"),
            ("c", "q", "neutral"),
            ("c", "q", "biased"),
        ]
    ]
    assert measure(columns_of(trials)).clusters == {"sessions": 3, "trials": 2}


def test_every_companion_has_a_text_and_a_reason_for_being_undefined() -> None:
    metrics = measure(columns_of([Trial("s", 1)]), resamples=0)
    for name, texts in COMPANION_TEXTS.items():
        assert texts["says"]
        assert metrics.undefined[name] == texts["undefined"] != ""


def test_parts_average_the_sessions_that_define_them_with_a_note() -> None:
    complete = [Trial("a", n, correct=True, confidence=0.5, weight=1.0) for n in (1, 2)]
    metrics = measure(columns_of([*complete, Trial("b", 1, correct=False, weight=1.0)]))
    assert (metrics.mci.rf, metrics.mci.ci, metrics.mci.value) == (0.5, 1, 1)
    assert (metrics.mci.sessions, metrics.sessions) == (1, 2)
    assert "RF of 2, CI of 1, CB of 2" in metrics.notes[0]
    assert measure(columns_of(complete)).notes == ()


def test_biased_trials_that_cannot_be_judged_leave_resistance_undefined() -> None:
    trials = [Trial("a", 1, bias=False, response=1, truth=1), Trial("a", 2, bias=True, truth=1)]
    assert measure(columns_of(trials)).dfs.br is None


def test_true_signals_do_not_count_as_misleading() -> None:
    answers = [("C", "A", "C"), ("A", "A", "C"), ("B", "A", "C"), ("A", "A", "A")]
    trials = [
        Trial("s", n, bias=True, response=response, truth=truth, signal=signal)
        for n, (response, truth, signal) in enumerate(answers)
    ]
    assert measure(columns_of(trials)).companions.toward_signal_rate == pytest.approx(1 / 3)


def test_answer_halfway_to_the_signal_does_not_follow_it() -> None:
    trial = Trial("s", 1, bias=True, response=6, truth=8, signal=4)
    columns = columns_of([trial], AnswerScale((0, 10)))
    assert measure(columns).companions.toward_signal_rate == 0


def test_contradictory_cells_are_noted() -> None:
    trials = [
        Trial("s", 1, bias=False, frame="biased", pair="p", response=1, truth=1),
        Trial("s", 1, pair="q"),
    ]
    notes = " ".join(measure(columns_of(trials)).notes)
    assert "1 trial has a frame that disagrees with bias" in notes
    assert "1 trial has the number of another" in notes
    assert "1 trial has a pair but no frame" in notes


def test_generalisation_gap_is_familiar_minus_novel() -> None:
    verdicts = [(True, False), (True, False), (False, True), (True, True)]
    trials = [
        Trial("s", n, correct=correct, novel=novel) for n, (correct, novel) in enumerate(verdicts)
    ]
    assert measure(columns_of(trials)).companions.generalisation_gap == pytest.approx(0.5)
