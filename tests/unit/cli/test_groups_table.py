"""The table of `chimera measure --by arm` never truncates a number."""

import re

import numpy as np
import pytest
from rich.console import Console

from chimeralab.cli.measure import print_metrics
from chimeralab.cli.terminal import groups_table
from chimeralab.trial.columns import columns_of
from chimeralab.trial.metrics import Metrics, measure
from chimeralab.trial.trials import Trial

NUMBERS = re.compile(r"\d\.\d\d\s+\(\d\.\d\d–\d\.\d\d\)")


def measured(scenarios: int) -> Metrics:
    rng = np.random.default_rng(1)
    trials = [
        Trial(
            f"s{n}",
            turn,
            correct=bool(rng.integers(2)),
            confidence=rng.random(),
            weight=0.5,
            scenario=f"c{n}",
            novel=True,
        )
        for n in range(scenarios)
        for turn in range(6)
    ]
    return measure(columns_of(trials), rng=rng, resamples=50)


@pytest.mark.parametrize("width", [66, 80, 95, 96, 100, 140])
def test_no_number_is_cut_at_any_width(width: int) -> None:
    groups = {"amnesia+infallibility+conformity": measured(8), "x" * 60: measured(1)}
    console = Console(width=width, record=True)
    console.print(groups_table("arm", groups, width))
    shown = console.export_text()
    assert "…" not in shown
    found = groups["amnesia+infallibility+conformity"]
    for metric in (found.mci, found.gfq):
        assert metric.interval is not None
        assert f"{metric.value:.2f}" in shown
        assert f"({metric.interval.low:.2f}–{metric.interval.high:.2f})" in shown


def test_wide_terminal_shows_intervals_next_to_values() -> None:
    console = Console(width=100, record=True)
    console.print(groups_table("arm", {"control": measured(8)}, 100))
    [row] = [line for line in console.export_text().splitlines() if "control" in line]
    assert len(NUMBERS.findall(row)) == 2


@pytest.mark.parametrize(
    ("scenarios", "said", "unsaid"),
    [
        (1, "there is only one cluster", "too narrow"),
        (3, "too narrow", "No intervals"),
        (8, "8 clusters", "few"),
    ],
)
def test_notes_explain_the_intervals(scenarios: int, said: str, unsaid: str) -> None:
    console = Console(width=200, record=True)
    print_metrics(console, measured(scenarios))
    note = console.export_text().splitlines()[-1]
    assert said in note
    assert unsaid not in note
