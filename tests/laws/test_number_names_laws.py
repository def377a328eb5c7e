"""Laws of named numbers: LaTeX can read each name, and no two numbers share one."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from chimeralab.core.result_words import MARK
from chimeralab.report.named_numbers import assign_names
from chimeralab.selfplay.analysis import analyse
from chimeralab.selfplay.kind import selfplay_entries
from chimeralab.selfplay.outcomes import Estimand, Outcomes
from chimeralab.selfplay.runs import Run, table_of

# Names that differ in signs, case and digits alone are the ones that could fall together.
conditions = st.lists(
    st.text("aAbB12_-. é−", min_size=1, max_size=4), min_size=1, max_size=4, unique=True
)


@settings(max_examples=30)
@given(conditions)
def test_no_two_numbers_of_an_analysis_share_a_name(conditions: list[str]) -> None:
    runs = [
        Run(condition, f"p{seed}", 0, 9, (seed + n) % 9, 1 if (seed + n) % 9 else None)
        for n, condition in enumerate(conditions)
        for seed in range(3)
    ]
    asked = Outcomes((Estimand("incidence", "primary"),), resamples=20, permutations=20)
    entries = list(selfplay_entries(analyse(table_of(runs, "runs"), asked), conditions, MARK))
    names = assign_names(entries)
    assert len(names) == len(entries) > 6 * len(conditions)
    assert all(re.fullmatch("[a-z][A-Za-z]+", name) for name in names)
    assert [each.what for each in names.values()] == [what for _, _, _, what in entries]


@given(st.lists(st.lists(st.text(max_size=5), max_size=3), max_size=12))
def test_any_words_make_names_that_latex_can_read(words: list[list[str]]) -> None:
    names = assign_names((each, 1.0, "1", "") for each in words)
    assert len(names) == len(words)
    assert all(re.fullmatch("[A-Za-z]+", name) for name in names)
