"""A row of a trial survives the round trip through its columns."""

import json
from dataclasses import replace

import pytest

from chimeralab.trial.course import Layout
from chimeralab.trial.scenarios import GENERATORS
from chimeralab.trial.scoring import Scorer
from chimeralab.trial.script import Arm, Script
from chimeralab.trial.session import score
from chimeralab.trial.trials import COLUMNS, Statement, TrialRow

COURSE = Layout().lay_out(GENERATORS["ledger"]().make(3), 3, seed=2)
SCRIPT = Script(COURSE, Arm({}), 11, {})
TRUTHS = [step.truth for step in COURSE.steps]
ROWS = [score(SCRIPT, turn, TRUTHS, {}, Scorer()) for turn in range(1, len(TRUTHS) + 1)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.item)
def test_row_survives_the_round_trip_through_its_columns(row):
    stored = json.loads(json.dumps(row.cells()))
    assert list(stored) == list(COLUMNS)
    assert TrialRow.from_cells(stored, row.session) == row


def test_statements_claims_and_needs_keep_their_stored_form():
    stated = next(row for row in ROWS if row.states)
    says = stated.states
    assert stated.cells()["states"] == f"{says.subject}|{says.relation}|{says.value}"
    claimed = next(row for row in ROWS if row.claim)
    assert claimed.claim is not None
    assert claimed.cells()["claim"] == "|".join(claimed.claim)
    needy = next(row for row in ROWS if len(row.needs) > 1)
    assert needy.cells()["needs"] == " ".join(needy.needs)


@pytest.mark.parametrize(
    "said",
    [
        Statement("Ada", "owns|keeps", "a bell"),
        Statement("[Ada]", "owns", "a bell"),
        Statement("Ada", "owns", "a bell|a lamp"),
    ],
    ids=str,
)
def test_statement_with_a_separator_in_it_survives_the_round_trip(said):
    cells = replace(ROWS[0], recall_truth="x", recall_options=2, recall_states=said).cells()
    assert TrialRow.from_cells(cells, "s").recall_states == said
