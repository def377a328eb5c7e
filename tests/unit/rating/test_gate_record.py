"""The gate record; without a gate, claims are descriptive."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from chimeralab.core.errors import InputError
from chimeralab.rating.audit import JSON, audit, audit_json, write_record
from chimeralab.rating.gate import NO_AUDIT, Gate, check_wording
from chimeralab.rating.labels import LabelTable
from chimeralab.rating.rubric import Label
from chimeralab.rating.study_audit import scope_of
from chimeralab.selfplay.report.tables import reliability_table


def labels(**columns: Sequence[Label | None]) -> LabelTable:
    items = tuple(f"item {n}" for n in range(len(next(iter(columns.values())))))
    return LabelTable(items, {name: tuple(column) for name, column in columns.items()})


def test_without_a_gate_claims_are_descriptive() -> None:
    assert scope_of(None) is NO_AUDIT
    assert "validated" in NO_AUDIT.forbidden
    check_wording(NO_AUDIT.sentence, NO_AUDIT)


@pytest.mark.parametrize(
    ("second", "verdict", "outcome"),
    [
        ([1, 1, 0, 0, 1, 1], "failed", "not reliable"),
        ([1, 0, 1, 0, 1, 0], "passed", "reliable, not validated"),
    ],
)
def test_a_record_names_its_outcome_and_is_never_overwritten(
    tmp_path: Path, second: list[Label], verdict: str, outcome: str
) -> None:
    found = audit(labels(ann=[1, 0, 1, 0, 1, 0], ben=second), Gate(rule="point"))
    write_record(tmp_path / "audit", found)
    record = json.loads((tmp_path / "audit" / JSON).read_text(encoding="utf-8"))
    assert (record["verdict"], record["outcome"]) == (verdict, outcome)
    with pytest.raises(InputError, match="already exists"):
        write_record(tmp_path / "audit", found)


def test_undefined_agreement_is_a_dash_with_its_reason() -> None:
    figures = audit_json(audit(labels(ann=[1, 1, 1], ben=[1, 1, 1])))
    panel = reliability_table(figures, {})
    assert [text for text, _ in panel.rows[0]][:4] == ["all items", "3 of 3", "1.00", "–"]
    assert "no variance" in panel.notes[0][1]


def test_page_shows_ac1_alpha_and_fleiss_of_three_raters_with_the_items_behind_them() -> None:
    gaps = labels(ann=[1, 0, 1, 0, 1, 0], ben=[1, 0, 1, 0, 0, None], cat=[1, 0, 1, 1, 1, 0])
    figures = audit_json(audit(gaps))
    panel = reliability_table(figures, {})
    shown = dict(zip(panel.headings, (text for text, _ in panel.rows[0]), strict=True))
    assert shown["rated"] == "6 of 6"
    assert shown["AC1 (95 % interval)"].startswith(f"{figures['ac1']:.2f} (")
    assert shown["alpha (95 % interval)"].startswith(f"{figures['alpha']:.2f} (")
    assert shown["Fleiss' kappa"] == f"{figures['fleiss']:.2f} (n 5)"
