"""The table of what the founding documents state: what it names exists, and nothing is left out."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "seeds.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if re.match(r"\| \d+ \|", line)
]
VERDICTS = ("Partly", "No", "Not tried")
TESTS = sorted({test for row in ROWS for test in re.findall(r"`([^`]+)`", row[3])})


@cache
def list_tests(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_statement_has_one_complete_row() -> None:
    assert sorted(int(row[0]) for row in ROWS) == list(range(1, 96))
    for number, statement, where, shown_by, remark in ROWS:
        assert statement, number
        assert where, number
        assert shown_by or remark, number


@pytest.mark.parametrize("test", TESTS)
def test_every_named_test_exists(test: str) -> None:
    path, _, name = test.partition("::")
    if path.startswith("benchmarks/"):
        assert (ROOT / path).is_file()
        assert f"`python -m {path.removesuffix('.py').replace('/', '.')}`" in (
            ROOT / "docs" / "performance.md"
        ).read_text(encoding="utf-8")
    else:
        assert name.startswith("test_")
        assert name in list_tests(ROOT / "tests" / path)


def test_every_named_file_exists() -> None:
    for number, _, where, _, _ in ROWS:
        paths = re.findall(r"`([^`]+)`", where)
        assert where == ", ".join(f"`{path}`" for path in paths), number
        for path in paths:
            assert any((base / path).is_file() for base in (ROOT / "src/chimeralab", ROOT)), path


def test_verdicts_are_counted_and_have_a_reason() -> None:
    bold = [re.match(r"\*\*(.+?)\.\*\* (.{20,})", row[4]) for row in ROWS]
    assert sum(found is not None for found in bold) == PAGE.count("**") // 2
    partly, no, untried = map(Counter(found[1] for found in bold if found).get, VERDICTS)
    assert {found[1] for found in bold if found} == {*VERDICTS}
    holds = len(ROWS) - sum(found is not None for found in bold)
    assert (
        f"{holds} hold, {partly} hold in part, {no} does not hold, and {untried} can't be tried"
    ) in " ".join(PAGE.split())
