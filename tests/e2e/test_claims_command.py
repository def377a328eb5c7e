"""A text checked against a study: its named numbers exist, and the gate allows its wording."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chimeralab.study import Study
from tests.plans import LOOPERS
from tests.studies import DETECTED, MakeStudy

Chimera = Callable[..., Any]


@pytest.fixture
def study(make_study: MakeStudy) -> Study:
    return make_study(LOOPERS, steps=DETECTED)


def check(chimera: Chimera, study: Study, path: Path, text: str) -> tuple[int, list[Any]]:
    path.write_text(text, encoding="utf-8")
    ran = chimera("claims", path, "--study", study.path, "--json")
    found = json.loads(ran.out)["findings"]
    return ran.code, [(each["line"], each["said"], each["closest"]) for each in found]


def test_text_of_known_names_passes_and_is_filled(
    chimera: Chimera, study: Study, tmp_path: Path
) -> None:
    text, filled = tmp_path / "text.md", tmp_path / "filled.md"
    text.write_text("Of {{ countRuns }} runs, loops collapsed in {{rateLoops}}.\n")
    ran = chimera("claims", text, "--study", study.path, "--fill", filled)
    assert (ran.code, ran.out, "2 numbers resolved, 0 findings" in ran.err) == (0, "", True)
    assert filled.read_text().startswith("Of 24 runs, loops collapsed in ")
    assert "{{" not in filled.read_text()
    assert "would overwrite" in chimera("claims", text, "--study", study.path, "--fill", text).err


def test_unknown_name_is_listed_with_its_line_and_the_closest_one(
    chimera: Chimera, study: Study, tmp_path: Path
) -> None:
    text = "Loops:\n{{rateLoop}} and\n\\rateLops, \\rateLoops, \\textbf{x}, \\newLine\n"
    code, found = check(chimera, study, tmp_path / "text.md", text)
    assert code == 1
    assert found == [(2, "{{rateLoop}}", "rateLoops"), (3, "\\rateLops", "rateLoops")]
    shown = chimera("claims", tmp_path / "text.md", "--study", study.path)
    assert "line 2: {{rateLoop}}: the study has no such number; did you mean rateLoops?" in (
        shown.out
    )


def test_double_braces_of_latex_are_left_alone(
    chimera: Chimera, study: Study, tmp_path: Path
) -> None:
    text = "\\title{{Deep Loops}} \\rateDrifts\n"
    assert check(chimera, study, tmp_path / "text.tex", text) == (0, [])


def test_words_that_the_gate_forbids_are_found_across_lines(
    chimera: Chimera, study: Study, tmp_path: Path
) -> None:
    text = "A Validated detector,\nconfirmed by\nhuman~raters.\n"
    code, found = check(chimera, study, tmp_path / "text.tex", text)
    assert code == 1
    assert found == [(1, "Validated", None), (2, "confirmed by human raters", None)]


def test_report_and_export_write_the_same_numbers(
    chimera: Chimera, study: Study, tmp_path: Path
) -> None:
    assert chimera("report", study.path).code == 0
    ran = chimera("export", study.path, "--out", tmp_path / "out")
    assert str(tmp_path / "out" / "numbers.tex") in ran.out
    for name in ("numbers.json", "numbers.tex"):
        written = (study.path / "report" / name).read_bytes()
        assert (tmp_path / "out" / name).read_bytes() == written


def test_unreadable_input_is_rejected_in_one_sentence(
    chimera: Chimera, study: Study, tmp_path: Path
) -> None:
    ran = chimera("claims", tmp_path / "none.md", "--study", study.path)
    assert (ran.code, "none.md can't be read" in ran.err) == (2, True)
    assert chimera("claims", tmp_path / "none.md").code == 2
