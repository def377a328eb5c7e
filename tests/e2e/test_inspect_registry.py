"""What Inspect finds through the entry point, and what that imports."""

import json
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from chimeralab.core.extras import extras

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HIDING = """
import json, sys
hidden = set(json.loads(sys.argv[1]))

class Hiding:
    def __init__(self, finders):
        self.finders = finders

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            return None
        found = (finder.find_spec(name, path, target) for finder in self.finders)
        return next((spec for spec in found if spec), None)

    def find_distributions(self, *asked):
        for finder in self.finders:
            if hasattr(finder, "find_distributions"):
                yield from finder.find_distributions(*asked)

sys.meta_path[:] = [Hiding(sys.meta_path[:])]
"""
REGISTERED = """
from inspect_ai._util.registry import registry_find, registry_info
import chimeralab.integrations.inspect._registry
found = [registry_info(part) for part in registry_find(lambda info: True)]
print(json.dumps(sorted(f"{i.type} {i.name}" for i in found if i.name.startswith("chimeralab/"))))
"""


def brought_by(*names: str) -> set[str]:
    """The modules that come with these distributions, as far as installed here."""
    wanted, brought = [Requirement(name) for name in names], set[str]()
    while wanted:
        each = wanted.pop()
        name = canonicalize_name(each.name)
        if name in brought or (each.marker and not each.marker.evaluate({"extra": ""})):
            continue
        try:
            wanted += map(Requirement, requires(name) or ())
        except PackageNotFoundError:
            continue
        brought.add(name)
    owners = packages_distributions().items()
    return {module for module, by in owners if brought & set(map(canonicalize_name, by))}


def lab_alone() -> list[str]:
    """What the lab needs and neither the light install nor Inspect brings."""
    pytest.importorskip("inspect_scout", reason="Inspect and Scout are an extra")
    asked = (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["inspect"])
    return sorted({*extras()["lab"]} - brought_by(*asked))


def run(code: str, hidden: list[str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", HIDING + code, json.dumps(hidden)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_entry_point_names_a_module() -> None:
    value = PROJECT["entry-points"]["inspect_ai"]["chimeralab"]
    pytest.importorskip("inspect_ai", reason="inspect-ai is an extra")
    assert import_module(value)


def test_registry_loads_with_inspect_alone_and_tasks_name_what_is_missing() -> None:
    code = """
from chimeralab import InputError
from chimeralab.integrations.inspect import self_play_study, stress_trial
for task in (self_play_study, stress_trial):
    try:
        task("study")
    except InputError as error:
        print(error)
"""
    found, *said = run(REGISTERED + code, [*lab_alone(), "inspect_scout"]).splitlines()
    assert set(json.loads(found)) >= {
        "hooks chimeralab/guard",
        "scorer chimeralab/collapse_rate",
        "scorer chimeralab/looping",
        "solver chimeralab/self_play",
        "task chimeralab/self_play_study",
        "task chimeralab/stress_trial",
    }
    assert len(said) == 2
    assert all('pip install "chimera-lab[lab]"' in words for words in said)


def test_scanners_are_there_where_scout_is_running() -> None:
    found = json.loads(run("import inspect_scout\n" + REGISTERED, lab_alone()))
    assert {"scanner chimeralab/collapse", "scanner chimeralab/loops"} <= set(found)


def test_parts_without_inspect_or_scout_name_the_extra() -> None:
    code = """
from chimeralab import InputError
import chimeralab.integrations.inspect as ours
for name in ("loops", "looping", "self_play", "self_play_study", "stress_trial", "guarded"):
    try:
        getattr(ours, name)
    except InputError as error:
        print(error)
"""
    said = run(code, ["inspect_ai", "inspect_scout"])
    assert said.count('pip install "chimera-lab[inspect]"') == 6


def test_importing_the_package_imports_no_third_party_host() -> None:
    code = """
import chimeralab
from chimeralab import Guard, detect
assert not {"inspect_ai", "inspect_scout", "chimeralab.integrations"} & set(sys.modules)
"""
    run(code, [])
