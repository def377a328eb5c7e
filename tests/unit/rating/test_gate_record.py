"""The record of a gate says what may be claimed, and nothing may be when nobody has rated."""

import json
from pathlib import Path

import pytest

from chimeralab.core.errors import InputError
from chimeralab.rating.audit import audit
from chimeralab.rating.claims import NO_AUDIT, check_wording
from chimeralab.rating.gate import Gate
from chimeralab.rating.gate_record import JSON, read_reliability, scope_of, write_record
from chimeralab.rating.labels import LabelTable
from chimeralab.report.selfplay.tables import reliability_table


def record(folder: Path, labels: dict[str, list[int]]) -> Path:
    items = [f"item {n}" for n in range(len(next(iter(labels.values()))))]
    table = LabelTable(items=tuple(items), labels=labels)
    write_record(folder / "audit", audit(table, Gate(threshold=0.8)))
    return folder / "audit" / JSON


def test_without_a_record_claims_are_descriptive(tmp_path: Path) -> None:
    assert read_reliability(tmp_path) is None
    assert scope_of(None) is NO_AUDIT
    assert "validated" in NO_AUDIT.forbidden
    check_wording(NO_AUDIT.sentence, NO_AUDIT)


def test_a_gate_that_failed_keeps_claims_descriptive(tmp_path: Path) -> None:
    record(tmp_path, {"ann": [1, 0, 1, 0, 1, 0], "ben": [1, 1, 0, 0, 1, 1]})
    scope = scope_of(read_reliability(tmp_path))
    assert scope.name == "descriptive"
    assert scope.marked == "marked as collapsed"
    with pytest.raises(InputError, match="validated"):
        check_wording("a validated finding", scope)


def test_a_gate_that_passed_lets_collapse_be_called_so(tmp_path: Path) -> None:
    record(tmp_path, {"ann": [1, 0, 1, 0, 1, 0], "ben": [1, 0, 1, 0, 1, 0]})
    found = read_reliability(tmp_path)
    assert found is not None
    assert found.verdict == "passed"
    assert scope_of(found).marked == "collapsed"


def test_a_record_can_not_allow_more_than_its_own_verdict(tmp_path: Path) -> None:
    path = record(tmp_path, {"ann": [1, 0, 1, 0], "ben": [1, 0, 1, 0]})
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values | {"verdict": "failed"}))
    assert scope_of(read_reliability(tmp_path)).forbidden == NO_AUDIT.forbidden


@pytest.mark.parametrize("text", ["{", "[]", '{"verdict": "passed"}', "null"])
def test_a_damaged_record_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / JSON).write_text(text)
    with pytest.raises(InputError, match="not a gate record"):
        read_reliability(tmp_path)


def test_undefined_agreement_is_a_dash_with_its_reason(tmp_path: Path) -> None:
    record(tmp_path, {"ann": [1, 1, 1], "ben": [1, 1, 1]})
    found = read_reliability(tmp_path)
    assert found is not None
    panel = reliability_table(found)
    assert [cell.text for cell in panel.rows[0]][:4] == ["all items", "3 of 3", "1.00", "–"]
    assert "no variance" in panel.notes[0].text
