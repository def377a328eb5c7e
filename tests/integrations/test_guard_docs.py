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
    package = line.split()[1].partition(".")[0]
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed; `make test-integrations` brings it")
    exec(line, {})
