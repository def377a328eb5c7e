"""Every column that an export can have is explained."""

import pytest

from chimeralab.bundle.documents import _load_toml, meaning
from chimeralab.selfplay.kind import SelfPlay
from chimeralab.study.export import TABLES
from chimeralab.trial.kind import INDICES, Trial
from chimeralab.trial.measures import METRICS

KINDS = (SelfPlay(), Trial())
EVERY = {
    **TABLES,
    **{name: columns for name, (columns, _) in Trial().export_tables().items()},
    "outcomes": {name: each for kind in KINDS for name, each in kind.outcome_columns().items()},
}


@pytest.mark.parametrize("table", EVERY)
def test_every_column_of_a_table_has_a_meaning(table: str) -> None:
    assert all(meaning(table, column) for column in EVERY[table])


def test_every_index_of_a_trial_has_a_meaning() -> None:
    assert INDICES.keys() == METRICS.keys()


def test_every_meaning_belongs_to_a_column() -> None:
    columns = {name for columns in EVERY.values() for name in columns}
    known = _load_toml("columns.toml")
    assert known.keys() - {"in"} <= columns | {"id", "bucket", "text"}
    assert {name for there in known["in"].values() for name in there} <= known.keys()
