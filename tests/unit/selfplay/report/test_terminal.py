"""`chimera analyse` prints the tables of the report."""

import io

import pytest
from rich.console import Console

from chimeralab.cli import estimate_tables as terminal
from chimeralab.core.numbers import NO_BREAK
from chimeralab.report.files import Report
from chimeralab.selfplay.report.material import Material


@pytest.fixture
def printed(material: Material, monkeypatch: pytest.MonkeyPatch) -> str:
    """The output of `analyse` in a terminal of 80 columns."""
    assert material.results is not None
    written = io.StringIO()
    monkeypatch.setattr(terminal, "out", Console(file=written, width=80))
    terminal.print_analysis(material.results[0], material.words, full=True)
    return written.getvalue()


@pytest.mark.parametrize("name", ["conditions", "first_collapse", "after_onset"])
def test_terminal_shows_every_number_of_the_page(printed: str, report: Report, name: str) -> None:
    [table] = [each for each in report.tables if each.name == name]
    lines = printed.splitlines()
    for condition, *cells in table.rows:
        rows = [line for line in lines if line.startswith(condition[0])]
        texts = [text.replace(NO_BREAK, " ") for text, _ in cells]
        assert any(all(text in row for text in texts) for row in rows), texts


def test_reasons_follow_their_table(printed: str, report: Report) -> None:
    [table] = [each for each in report.tables if each.name == "conditions"]
    assert table.notes
    for mark, reason in table.notes:
        assert f"[{mark}] {reason}" in printed.split("First marked collapse", maxsplit=1)[0]


def test_tables_fit_into_80_columns_without_cuts(printed: str) -> None:
    assert "…" not in printed
    lines = [line.rstrip() for line in printed.splitlines()]
    rows = [line for line in lines if not line.endswith(".")]  # sentences are not wrapped
    assert len(rows) > 20
    assert max(map(len, rows)) <= 80
