"""The numbers of a study by name: those of the report, for programs and for LaTeX."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from chimeralab.core.numbers import percent
from chimeralab.report.named_numbers import (
    NamedNumber,
    assign_names,
    control_word,
    list_entries,
    load_numbers,
    write_numbers,
)
from chimeralab.selfplay.kind import loop_entries
from chimeralab.selfplay.report.material import Material


@pytest.fixture(scope="module")
def numbers(material: Material) -> dict[str, NamedNumber]:
    return load_numbers(material.study)


def test_numbers_are_those_of_the_report(
    material: Material, numbers: dict[str, NamedNumber]
) -> None:
    assert material.results is not None
    analysis = material.results[0]
    assert numbers == assign_names(
        list_entries(material.study, analysis, detections=material.detections)
    )
    loops, low = analysis.conditions["loops"], numbers["rateLoopsLow"]
    assert numbers["rateLoops"].value == loops.mean
    assert numbers["rateLoops"].text == f"{100 * loops.mean:.1f}\N{NO-BREAK SPACE}%"
    assert loops.share_ci is not None
    assert low.value == loops.share_ci.low
    first = analysis.contrasts[0]
    pair = f"{first.a.capitalize()}Minus{first.b.capitalize()}"
    assert numbers[f"diff{pair}"].value == first.estimate
    assert numbers[f"holmP{pair}"].value == first.p_holm
    assert numbers["countRuns"].text == "24"


def test_loops_have_numbers_by_condition(
    material: Material, numbers: dict[str, NamedNumber]
) -> None:
    for condition in material.study.plan.conditions:
        found = [d for d in material.detections if d.metadata["condition"] == condition]
        share = sum(bool(d.looping) for d in found) / len(found)
        name = control_word("looping", condition)
        assert numbers[name].value == pytest.approx(share)
        assert numbers[name].text == percent(share)
        assert numbers[control_word("count", "looping", condition)].value == share * len(found)
        low, high = numbers[f"{name}Low"].value, numbers[f"{name}High"].value
        assert low is not None
        assert high is not None
        assert low <= share <= high
    assert numbers["loopingLoops"].value
    before = [replace(d, looping=None) for d in material.detections]
    assert not list(loop_entries(before, list(material.study.plan.conditions)))


def test_study_without_an_audit_has_no_gate_numbers(numbers: dict[str, NamedNumber]) -> None:
    assert not [name for name in numbers if "Gate" in name]


def test_the_files_hold_every_number_once_and_latex_can_read_them(
    numbers: dict[str, NamedNumber], tmp_path: Path
) -> None:
    odd = {"pOdd": NamedNumber(0.0001, "< 0.001", "50 % of\nlines"), **numbers}
    as_json, as_tex = write_numbers(tmp_path, odd)
    assert list(json.loads(as_json.read_text())) == ["schema", *odd]
    lines = as_tex.read_text().splitlines()
    assert lines[0] == r"\newcommand{\pOdd}{$<$ 0.001} % 50 % of lines"
    assert all(re.fullmatch(r"\\newcommand\{\\[A-Za-z]+\}\{[^{}]*\} % .*", line) for line in lines)
    assert any(r"\%}" in line for line in lines)
    assert as_tex.read_text().isascii()
