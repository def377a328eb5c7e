"""The benchmarks are found, and only those; each can be imported, and each that is named exists."""

import importlib
import re
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.__main__ import all_benchmarks
from benchmarks.table import ROOT
from chimeralab.core.extras import MissingExtra

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def test_every_module_with_a_main_is_a_benchmark() -> None:
    found = all_benchmarks()
    assert {"speed.guard", "speed.detect", "speed.loops"} <= set(found)
    assert {"validity.recovery", "validity.loops", "validity.loop_score"} <= set(found)
    assert not {"speed.__init__", "validity.parameters", "__main__", "table"} & set(found)


@pytest.mark.parametrize("name", all_benchmarks())
def test_every_benchmark_can_be_imported(name: str) -> None:
    with suppress(MissingExtra):
        importlib.import_module(f"benchmarks.{name}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_benchmark_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"python -m benchmarks[. ](\w+\.\w+)", page.read_text(encoding="utf-8"))
    assert set(named) <= set(all_benchmarks())
