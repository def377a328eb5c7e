"""Laws of the analysis: many detectors at once give what each gives alone."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from chimeralab.core.records import Trajectory, Turn
from chimeralab.detection.locked import READINGS, LockedRule
from chimeralab.detection.measure import MeasuredConversation
from chimeralab.selfplay.analysis import analyse, as_json
from chimeralab.selfplay.outcomes import Outcomes
from chimeralab.selfplay.runs import Run, table_of
from chimeralab.selfplay.specifications import (
    list_detectors,
    mark_turns,
    stack_settings,
    tally,
)

# Values on both sides of every cutoff of the grid, and on them.
SIMILARITIES = [0.5, 0.86, 0.88, 0.89, 0.9, 0.91, 0.92, 0.93, 0.94, 0.95, 1.0]

detectors = st.builds(
    LockedRule,
    s1=st.sampled_from([0.9, 0.92]),
    s2=st.sampled_from([0.88, 0.9]),
    d1=st.sampled_from([0.06, 0.08, 0.1]),
    d2=st.sampled_from([0.08, 0.1, 0.12]),
    window=st.integers(1, 4),
    **{name: st.sampled_from(choices) for name, choices in READINGS.items()},
)


@st.composite
def measured_talks(draw: st.DrawFn) -> MeasuredConversation:
    turns = draw(st.integers(0, 14))
    column = st.lists(st.sampled_from(SIMILARITIES), min_size=turns, max_size=turns)
    lags = np.array([draw(column), draw(column)]).T.reshape(turns, 2)
    lags[:1, 0] = lags[:2, 1] = np.nan
    blank = np.array(draw(st.lists(st.booleans(), min_size=turns, max_size=turns)), dtype=bool)
    said = tuple(Turn(f"turn {n}") for n in range(turns))
    about = {"condition": "A", "prompt": "p", "repeat": 1}
    positions = tuple(range(1, turns + 1))
    return MeasuredConversation(Trajectory("t", said, about), positions, "all", lags, blank)


@given(measured_talks(), st.lists(detectors, min_size=1, max_size=8))
def test_many_detectors_at_once_mark_what_each_marks_alone(
    measured: MeasuredConversation, several: list[LockedRule]
) -> None:
    marks = mark_turns(measured, stack_settings(several))
    for row, detector in zip(marks, several, strict=True):
        assert row.tolist() == [
            signal.collapsed for signal in detector.judge(measured.observations)
        ]


@given(measured_talks(), measured_talks())
@settings(max_examples=25)
def test_tally_counts_what_each_detector_finds_in_its_own_reading(
    whole: MeasuredConversation, skipped: MeasuredConversation
) -> None:
    cells = dict(list(list_detectors().items())[::97])
    found = tally([(whole, skipped)], cells)
    for column, detector in enumerate(cells):
        measured = skipped if detector.empty == "skip" else whole
        turns = [
            signal.turn for signal in detector.judge(measured.observations) if signal.collapsed
        ]
        enough = len(measured.blank) >= detector.turns_needed
        assert found.turns[0, column] == len(measured.blank)
        assert found.collapsed[0, column] == (len(turns) if enough else -1)
        assert found.first[0, column] == (turns[0] if turns else 0)


@st.composite
def tables(draw: st.DrawFn) -> list[Run]:
    """Any table that could be read: unbalanced, censored, constant, short."""
    rows = []
    cells = st.tuples(st.sampled_from("ABC"), st.sampled_from("wxyz"), st.integers(0, 2))
    for condition, seed, repeat in draw(st.sets(cells, min_size=1, max_size=20)):
        turns = draw(st.sampled_from([4, 12, 40]))
        first = draw(st.none() | st.integers(1, turns))
        collapsed = draw(st.integers(1, turns - first + 1)) if first else 0
        bucket = draw(st.sampled_from([None, f"bucket of {seed}"]))
        rows.append(Run(condition, seed, repeat, turns, collapsed, first, bucket))
    return rows


def unexplained(value: object, path: str = "") -> list[str]:
    if isinstance(value, list):
        return [bad for n, item in enumerate(value) for bad in unexplained(item, f"{path}[{n}]")]
    if not isinstance(value, dict):
        return []
    reasons = value.get("reasons", {})
    free = ("buckets", "power", "reason")
    own = [f"{path}/{k}" for k, v in value.items() if v is None and k not in free]
    missing = [name for name in own if not reasons.get(name.rpartition("/")[2])]
    parts = ((k, v) for k, v in value.items() if k != "reasons")
    return missing + [bad for k, v in parts for bad in unexplained(v, f"{path}/{k}")]


@given(tables())
@settings(max_examples=60)
def test_any_table_gives_numbers_or_reasons_and_never_nan(rows: list[Run]) -> None:
    quick = Outcomes(resamples=100, permutations=100)
    found = as_json(analyse(table_of(rows, "any"), quick))
    json.dumps(found, allow_nan=False)
    assert unexplained(found) == []
