"""A scored trial and its columns: nothing is lost on the way there and back."""

import json

import pytest

from chimeralab.trial.course import Layout
from chimeralab.trial.marking import score
from chimeralab.trial.scenarios import GENERATORS
from chimeralab.trial.scored import COLUMNS, Scored, Statement
from chimeralab.trial.scoring import Scorer
from chimeralab.trial.script import Arm, Script

COURSE = Layout().lay_out(GENERATORS["ledger"]().make(3), 3, seed=2)
SCRIPT = Script(COURSE, Arm({}), 11, {})
TRUTHS = [step.truth for step in COURSE.steps]
ROWS = [score(SCRIPT, turn, TRUTHS, {}, Scorer()) for turn in range(1, len(TRUTHS) + 1)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.posed.item)
def test_a_row_is_the_same_after_its_columns(row):
    stored = json.loads(json.dumps(row.cells()))
    assert list(stored) == list(COLUMNS)
    assert Scored.from_cells(stored) == row


def test_statements_claims_and_needs_are_stored_as_ever():
    stated = next(row for row in ROWS if row.answered.states)
    says = stated.answered.states
    assert stated.cells()["states"] == f"{says.subject}|{says.relation}|{says.value}"
    claimed = next(row for row in ROWS if row.posed.claim)
    assert claimed.posed.claim is not None
    assert claimed.cells()["claim"] == "|".join(claimed.posed.claim)
    needy = next(row for row in ROWS if len(row.posed.needs) > 1)
    assert needy.cells()["needs"] == " ".join(needy.posed.needs)


@pytest.mark.parametrize(
    "said",
    [
        Statement("Ada", "owns|keeps", "a bell"),
        Statement("[Ada]", "owns", "a bell"),
        Statement("Ada", "owns", "a bell|a lamp"),
    ],
    ids=str,
)
def test_a_statement_with_any_mark_in_it_comes_back_whole(said):
    cells = ROWS[0].cells() | {"recall_truth": "x", "recall_options": 2}
    cells["recall_states"] = COLUMNS["recall_states"].text.write(said)
    assert Scored.from_cells(cells).recalled.states == said


def test_a_bar_in_a_value_that_was_stored_before_stays_in_the_value():
    cells = ROWS[0].cells() | {"states": "Ada|owns|a bell|a lamp"}
    assert Scored.from_cells(cells).answered.states == Statement("Ada", "owns", "a bell|a lamp")
