"""What holds for the sandbox metrics on any trials."""

from collections.abc import Sequence
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimeralab.sandbox.columns import AnswerRange, AnswerScale, columns_of
from chimeralab.sandbox.metrics import LiveMetrics, Metrics, literal_values, measure, measure_live
from chimeralab.sandbox.trials import Trial

Table = tuple[list[Trial], AnswerRange | None]
ANSWERS: dict[str, list[Any]] = {
    "categories": ["red", "green", "blue"],
    "binary": [0, 1, False, True],
    "numbers": [*range(11)],
}


def random_table(seed: int) -> Table:
    """Trials of a few sessions in any interleaving, with gaps; every pair id at most twice."""
    rng = Random(seed)
    kind = rng.choice(sorted(ANSWERS))
    gaps = rng.choice([0.0, 0.3])
    halves = [(f"p{n // 2}", ("neutral", "biased")[n % 2]) for n in range(rng.randint(1, 30))]
    rng.shuffle(halves)
    # A pair lies in one scenario, whichever sessions its halves are in.
    scenarios = rng.choice([[None], ["x", "y", "z"], ["x", None]])
    home = {pair: rng.choice(scenarios) for pair, _ in halves}

    def cell(choices: Sequence[Any]) -> Any:
        return None if rng.random() < gaps else rng.choice(choices)

    trials = [
        Trial(
            session=rng.choice("abc"),
            trial=number,
            correct=cell([True, False]),
            confidence=cell([0.0, 0.25, 0.8, 1.0, rng.random()]),
            weight=cell([0.0, 0.5, rng.random()]),
            novel=cell([True, False]),
            bias=cell([True, False]),
            response=cell(ANSWERS[kind]),
            truth=cell(ANSWERS[kind]),
            signal=cell(ANSWERS[kind]),
            pair=cell([pair]),
            frame=cell([frame]),
            scenario=home[pair],
        )
        for number, (pair, frame) in enumerate(halves)
    ]
    return trials, AnswerRange(0, 10) if kind == "numbers" else None


tables = st.integers(0, 2**32).map(random_table)


def numbers(metrics: Metrics) -> dict[str, float | None]:
    plain = metrics.as_dict()
    groups = {name: plain[name] for name in ("mci", "gfq", "dfs", "companions", "coverage")}
    return {
        f"{group}.{name}": value
        for group, values in groups.items()
        for name, value in values.items()
        if not name.endswith(("interval", "intervals"))
    }


def whole(table: Table) -> Metrics:
    trials, span = table
    return measure(columns_of(trials, AnswerScale(span)), resamples=0)


@given(tables)
def test_trial_by_trial_equals_whole_columns(table: Table) -> None:
    trials, span = table
    live = LiveMetrics(span)
    for trial in trials:
        live.update(trial)
    streamed, at_once = measure_live(live, resamples=0), whole(table)
    assert numbers(streamed) == pytest.approx(numbers(at_once))
    assert streamed.undefined == at_once.undefined
    assert streamed.clusters == at_once.clusters


@given(tables, st.integers(1, 9))
def test_quick_form_equals_the_full_one_in_blocks_of_any_size(table: Table, block: int) -> None:
    trials, span = table
    columns, full = columns_of(trials, AnswerScale(span)), whole(table)
    with patch("chimeralab.sandbox.metrics.literal.BLOCK_ROWS", block):
        quick = literal_values(columns)
    found = (full.mci.value, full.mci.ceiling, full.gfq.value, full.dfs.value, full.dfs.br)
    names = ("mci", "mci.ceiling", "gfq", "dfs", "dfs.br")
    assert [quick[name] for name in names] == pytest.approx(list(found))


@given(tables, st.randoms(use_true_random=False))
def test_order_of_rows_and_of_pairs_does_not_matter(table: Table, random: Random) -> None:
    trials, span = table
    shuffled = list(trials)
    random.shuffle(shuffled)
    assert numbers(whole((shuffled, span))) == pytest.approx(numbers(whole(table)))


@given(tables, st.integers(1, 20))
def test_neutral_trials_never_lower_literal_bias_resistance(table: Table, more: int) -> None:
    trials, span = table
    added = [Trial("neutral", n, bias=False) for n in range(more)]
    before, after = whole(table).dfs.br, whole((trials + added, span)).dfs.br
    assert before is None or (after is not None and after >= before - 1e-12)


@given(tables)
def test_metrics_and_parts_stay_between_0_and_1(
    table: Table,
) -> None:
    metrics = whole(table)
    for metric in (metrics.mci, metrics.gfq, metrics.dfs):
        for name in ("value", "rf", "ci", "cb", "ceiling", "ta", "cta", "fi", "br"):
            value = getattr(metric, name, None)
            assert value is None or -1e-12 <= value <= 1 + 1e-12
    mci = metrics.mci
    assert mci.value is None or mci.value <= (mci.ceiling or 0) + 1e-12


@given(tables)
def test_every_null_has_a_reason_and_every_reason_a_null(
    table: Table,
) -> None:
    metrics = whole(table)
    plain = numbers(metrics)
    names = {name.removeprefix("companions.").removesuffix(".value"): name for name in plain}
    for short, name in names.items():
        assert (plain[name] is None) == (short in metrics.undefined)


@given(tables)
def test_parts_add_up_to_their_metric(table: Table) -> None:
    metrics = whole(table)
    if metrics.mci.value is not None:
        mci = metrics.mci
        parts = (mci.rf or 0, mci.ci or 0, mci.cb or 0)
        assert mci.value == pytest.approx(float(np.dot(metrics.weights.mci, parts)))
    if metrics.gfq.value is not None:
        assert metrics.gfq.value == pytest.approx(
            0.6 * (metrics.gfq.ta or 0) + 0.4 * (metrics.gfq.cta or 0)
        )
