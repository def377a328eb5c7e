"""What the documentation site adds to the pages of `docs/`."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import chimeralab
from chimeralab import ext

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "site.py"))


def test_reference_describes_every_public_name(site: dict[str, Any]) -> None:
    text = "\n".join(site["reference"]())
    public = {*chimeralab.__all__, *ext.__all__} - {"__version__"}
    assert set(re.findall(r"^### (\w+)$", text, re.MULTILINE)) == public


def test_links_out_of_docs_lead_to_what_is_added(site: dict[str, Any]) -> None:
    rewrite = site["on_page_markdown"]
    assert rewrite("[a](../CHANGELOG.md#x) [b](loops.md)") == "[a](CHANGELOG.md#x) [b](loops.md)"
    assert rewrite("[c](docs/guards.md#y)") == "[c](guards.md#y)"


def test_navigation_of_the_site_has_every_page() -> None:
    named = set(re.findall(r"[\w-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    pages = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert named == pages | {"reference.md", "CHANGELOG.md"}
