"""What the documents say can be followed: links lead somewhere, commands and modules exist."""

import importlib
import re
import tomllib
from pathlib import Path

import pytest
from click import Context, Group

from chimeralab.cli.main import cli
from chimeralab.core.extras import MissingExtra
from chimeralab.study.folder import templates
from chimeralab.version import __version__

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
PLANS = sorted(ROOT.glob("src/chimeralab/**/templates/*/plan.toml"))
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"(?:`|^\$ |^)chimera ([a-z][a-z-]+)(?: ([a-z][a-z-]*)\b)?", re.MULTILINE)
MODULE = re.compile(r"\bchimeralab(?:\.\w+)+")


# `chimera rate PATH` is short for `chimera rate run PATH`.
RATED_PATHS = {"logs", "mine", "my-study", "talks"}


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_and_image_leads_somewhere(page: Path) -> None:
    targets = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    for target in targets:
        path, _, anchor = target.partition("#")
        found = (page.parent / path) if path else page
        assert found.exists(), target
        if anchor:
            assert anchor in anchors(found), target


@pytest.mark.parametrize("page", [*PAGES, *PLANS], ids=name_of)
def test_every_command_that_is_named_exists(page: Path) -> None:
    for name, sub in COMMAND.findall(page.read_text(encoding="utf-8")):
        command = cli.get_command(Context(cli), name)
        assert command is not None, f"chimera {name}"
        if isinstance(command, Group) and sub:
            paths = RATED_PATHS if name == "rate" else set()
            assert sub in {*command.commands, *paths}, f"chimera {name} {sub}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_module_that_is_named_can_be_imported(page: Path) -> None:
    for dotted in set(MODULE.findall(page.read_text(encoding="utf-8"))):
        module, rest = dotted, []
        while module and not _imports(module):
            module, _, last = module.rpartition(".")
            rest.append(last)
        assert len(rest) <= 1, dotted
        assert all(hasattr(importlib.import_module(module), name) for name in rest), dotted


def _imports(name: str) -> bool:
    try:
        importlib.import_module(name)
    except MissingExtra:
        return True
    except ModuleNotFoundError:
        return False
    return True


def test_the_index_leads_to_every_page() -> None:
    linked = LINK.findall((ROOT / "docs" / "index.md").read_text(encoding="utf-8"))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"} <= set(linked)


def test_where_a_change_goes_names_files_that_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split("## Where a change goes")[1]
    named = re.findall(r"`([\w/]+(?:\.(?:py|toml|sql|html|md)|/))`", table)
    assert len(named) > 40
    for path in named:
        places = (ROOT / "src" / "chimeralab" / path, ROOT / path)
        assert any((p.parent if p.stem == "NAME" else p).exists() for p in places), path
    assert len(re.findall(r"^\| (?!change)\w", table, re.MULTILINE)) == 22


def test_the_page_on_studies_lists_every_template() -> None:
    page = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z-]+)` \| ", page, re.MULTILINE)) >= set(templates())


def test_the_citation_names_this_version() -> None:
    assert f'version: "{__version__}"' in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.parametrize("plan", PLANS, ids=name_of)
def test_every_template_is_toml_once_it_is_named(plan: Path) -> None:
    assert tomllib.loads(plan.read_text(encoding="utf-8").replace("@NAME@", '"mine"'))["study"]
