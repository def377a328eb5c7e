"""Every import on the page about guards works."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.integrations
PAGE = Path(__file__).parents[2] / "docs" / "guards.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
IMPORTS = [
    line for block in BLOCKS for line in block.splitlines() if line.startswith(("from", "import"))
]


@pytest.mark.parametrize("line", IMPORTS)
def test_every_import_on_the_page_works(line: str) -> None:
    named = line.split(" import ", maxsplit=1)[0].split(maxsplit=1)[1].split(", ")
    for package in (each.partition(".")[0] for each in named):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed; `make test-integrations` brings it")
    exec(line, {})
