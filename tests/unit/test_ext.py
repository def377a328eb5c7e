"""`chimeralab.ext`: one place from which plug-ins import."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from chimeralab import ext

ROOT = Path(__file__).parents[2]
PYTHON = re.compile(r"^```python\n(.+?)^```", re.MULTILINE | re.DOTALL)
PAGES = {
    "docs/extending.md": PYTHON.findall,
    "docs/agents.md": lambda text: PYTHON.findall(text.partition("## A class of your own")[2]),
    "examples/own_rater.py": lambda text: [text],
    "examples/own_trial.py": lambda text: [text],
}


@pytest.mark.parametrize("name", ext.__all__)
def test_every_name_resolves_to_the_object_of_its_home(name: str) -> None:
    value = getattr(ext, name)
    assert value.__name__ == name
    assert getattr(import_module(value.__module__), name) is value


def test_every_name_is_documented_in_one_row() -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    reference = page.partition("## chimeralab.ext")[2]
    rows = re.findall(r"^\| `(\w+)` \| .+\. \|$", reference, re.MULTILINE)
    assert sorted(rows) == ext.__all__


@pytest.mark.parametrize("page", PAGES)
def test_plug_ins_import_from_ext_alone(page: str) -> None:
    code = PAGES[page]((ROOT / page).read_text(encoding="utf-8"))
    assert code
    for node in ast.walk(ast.parse("\n".join(code))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("chimeralab"):
            assert node.module in ("chimeralab", "chimeralab.ext")
        elif isinstance(node, ast.Import):
            assert not any(each.name.startswith("chimeralab.") for each in node.names)


def test_pages_name_no_other_module_of_the_package() -> None:
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    assert set(re.findall(r"chimeralab\.(\w+)", text)) <= {"ext", "detect"}


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        ext.Nothing  # noqa: B018


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_import_loads_none_of_the_names() -> None:
    code = (
        "import sys, chimeralab.ext; print([m for m in sys.modules if m.startswith('chimeralab.')])"
    )
    loaded = ast.literal_eval(run(code))
    assert set(loaded) == {
        "chimeralab.core", "chimeralab.core.lazy", "chimeralab.ext", "chimeralab.version"
    }  # fmt: skip


def test_names_of_the_lab_say_which_extra_they_need() -> None:
    hide = "import sys; sys.modules['scipy'] = None\n"
    code = hide + (
        "from chimeralab import ext\n"
        "ext.Reader, ext.Detector, ext.Model, ext.Watch, ext.RaterFacts\n"
        "try: ext.SelfPlay\n"
        "except ext.MissingExtra as error: print(error)\n"
    )
    assert run(code).endswith('pip install "chimera-lab[lab]"')
