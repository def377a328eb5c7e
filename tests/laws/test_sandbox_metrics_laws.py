"""Laws of the sandbox metrics on random trials."""

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chimeralab.trial.columns import AnswerScale, columns_of
from chimeralab.trial.metrics import Metrics, measure, measure_once
from chimeralab.trial.trials import Trial

Table = tuple[list[Trial], tuple[float, float] | None]
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
    scenarios: Sequence[Any] = rng.choice([[None], ["x", "y", "z"], ["x", None]])
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
    return trials, (0, 10) if kind == "numbers" else None


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


def mean(cells: Sequence[float]) -> float | None:
    return sum(cells) / len(cells) if cells else None


def weigh(weights: Sequence[float], parts: Sequence[float | None]) -> float | None:
    if any(part is None for part in parts):
        return None
    return sum(weight * (part or 0) for weight, part in zip(weights, parts, strict=True))


def literal_sessions(trials: Sequence[Trial]) -> dict[str, float | None]:
    """MCI and GFQ by their formulas, session by session."""
    found: dict[str, list[dict[str, float | None]]] = {"mci": [], "gfq": []}
    gaps: list[float] = []
    earned: list[float] = []
    for name in dict.fromkeys(trial.session for trial in trials):
        rows = [trial for trial in trials if trial.session == name]
        stated = [t.confidence for t in rows if t.confidence is not None]
        judged = [t for t in rows if t.correct is not None]
        weighed = [(t.weight, t.correct) for t in judged if t.weight is not None]
        step = mean([abs(b - a) for a, b in pairwise(stated)])
        rf, ci = mean([bool(t.correct) for t in judged]), None if step is None else 1 - step
        cb = mean([w * bool(c) for w, c in weighed])
        ceiling = None if cb is None else 0.7 + 0.3 * (mean([w for w, _ in weighed]) or 0)
        value = weigh((0.4, 0.3, 0.3), (rf, ci, cb))
        found["mci"].append({"value": value, "rf": rf, "ci": ci, "cb": cb, "ceiling": ceiling})
        all_weight = sum(w for w, _ in weighed)
        earned += [sum(w for w, c in weighed if c) / all_weight] if all_weight else []
        novel = [t for t in judged if t.novel]
        ta = mean([bool(t.correct) for t in novel])
        cta = mean([t.confidence * bool(t.correct) for t in novel if t.confidence is not None])
        found["gfq"].append({"value": weigh((0.6, 0.4), (ta, cta)), "ta": ta, "cta": cta})
        seen = mean([bool(t.correct) for t in judged if t.novel is False])
        gaps += [seen - ta] if seen is not None and ta is not None else []
    numbers = {
        "companions.generalisation_gap": mean(gaps),
        "companions.cb_normalised": mean(earned),
    }
    indexed = [each for each in found["mci"] if each["value"] is not None]
    if indexed:  # the ceiling is of the sessions that have an index
        for each in found["mci"]:
            each["ceiling"] = each["ceiling"] if each in indexed else None
    for metric, sessions in found.items():
        for part in sessions[0]:
            cells = [each[part] for each in sessions]
            numbers[f"{metric}.{part}"] = mean([cell for cell in cells if cell is not None])
    return numbers


def literal_frames(
    trials: Sequence[Trial], span: tuple[float, float] | None
) -> dict[str, float | None]:
    """DFS and its companions by their formulas, pair by pair and trial by trial."""

    def apart(one: Any, other: Any) -> float | None:
        if one is None or other is None:
            return None
        if isinstance(one, str):
            return float(one != other)
        return abs(one - other) / (span[1] - span[0] if span else 1)

    def right(trial: Trial) -> bool | None:
        missed = apart(trial.response, trial.truth)
        stated = trial.correct
        return stated if stated is not None or missed is None else missed == 0

    halves: dict[Any, dict[str, Trial]] = {}
    for trial in trials:
        if trial.pair is not None and trial.frame is not None:
            halves.setdefault(trial.pair, {})[trial.frame] = trial
    pairs = [(each["neutral"], each["biased"]) for each in halves.values() if len(each) == 2]
    shifts = [apart(one.response, other.response) for one, other in pairs]
    known = [shift for shift in shifts if shift is not None]
    rights = [(right(one), right(other)) for one, other in pairs]
    compared = [each for each in rights if None not in each]
    biased = [trial for trial in trials if trial.bias]
    errors = [apart(trial.response, trial.truth) for trial in biased]
    judged = [error for error in errors if error is not None]
    n = sum(trial.bias is False for trial in trials) + len(judged)
    fi = None if not known else 1 - sum(known) / len(known)
    br = None if not n or (biased and not judged) else 1 - sum(judged) / n
    misled = [
        (apart(t.response, t.signal) or 0) < (error or 0)
        for t, error in zip(biased, errors, strict=True)
        if error is not None and t.signal is not None and apart(t.signal, t.truth)
    ]
    return {
        "dfs.value": weigh((0.5, 0.5), (fi, br)),
        "dfs.fi": fi,
        "dfs.br": br,
        "dfs.pairs": len(known),
        "dfs.unanswered": len(pairs) - len(known),
        "dfs.unpaired": sum(len(each) == 1 for each in halves.values()),
        "dfs.trials": n,
        "companions.br_biased_only": None if not judged else 1 - sum(judged) / len(judged),
        "companions.toward_signal_rate": mean(misled),
        "companions.mcnemar_b": compared.count((True, False)) if compared else None,
        "companions.mcnemar_c": compared.count((False, True)) if compared else None,
    }


@given(tables)
def test_vectorised_metrics_equal_the_formulas(table: Table) -> None:
    trials, span = table
    literal = literal_sessions(trials) | literal_frames(trials, span)
    found = numbers(whole(table))
    assert {name: found[name] for name in literal} == pytest.approx(literal)


@given(tables, st.integers(1, 9))
def test_block_size_does_not_matter(table: Table, rows: int) -> None:
    trials, span = table
    columns, full = columns_of(trials, AnswerScale(span)), whole(table)
    with patch("chimeralab.trial.sums.BLOCK_ROWS", rows):
        found = measure(columns, resamples=0)
    assert numbers(found) == pytest.approx(numbers(full))
    assert (found.undefined, found.clusters, found.notes) == (
        full.undefined,
        full.clusters,
        full.notes,
    )


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
@example(random_table(1034))  # a session without continuity has a ceiling, and no index
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
def test_parts_add_up_to_their_metric_or_a_note_says_otherwise(table: Table) -> None:
    metrics = whole(table)
    uneven = [name for name in ("MCI", "GFQ") if any(n.startswith(name) for n in metrics.notes)]
    if metrics.mci.value is not None and "MCI" not in uneven:
        mci = metrics.mci
        parts = (mci.rf or 0, mci.ci or 0, mci.cb or 0)
        assert mci.value == pytest.approx(float(np.dot(metrics.weights.mci, parts)))
    if metrics.gfq.value is not None and "GFQ" not in uneven:
        assert metrics.gfq.value == pytest.approx(
            0.6 * (metrics.gfq.ta or 0) + 0.4 * (metrics.gfq.cta or 0)
        )


class Once:
    """Trials that can be read a single time, with how many were read."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self._trials = iter(trials)
        self.read = 0

    def __iter__(self) -> "Once":
        return self

    def __next__(self) -> Trial:
        trial = next(self._trials)
        self.read += 1
        return trial


@given(tables, st.sampled_from([0, 200]))
def test_metrics_of_a_stream_read_once_are_those_of_the_columns(table, resamples):
    trials, span = table
    trials = sorted(trials, key=lambda trial: (trial.session, trial.trial))
    columns = columns_of(trials, AnswerScale(span))
    of_columns = measure(columns, rng=np.random.default_rng(1), resamples=resamples)
    stream = Once(trials)
    of_stream = measure_once(
        stream, scale=AnswerScale(span), rng=np.random.default_rng(1), resamples=resamples
    )
    assert stream.read == len(trials)
    assert flat(of_stream.as_dict()) == pytest.approx(flat(of_columns.as_dict()), nan_ok=True)


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """Every leaf of nested dicts and lists under its path; texts and None as they are."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found: dict[str, Any] = {}
    for key, item in items:
        nested = isinstance(item, dict | list | tuple)
        found |= flat(item, f"{name}.{key}") if nested else {f"{name}.{key}": item}
    return found
