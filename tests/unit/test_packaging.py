"""What is installed: wheels named for what is in them, and exact versions for every requirement."""

import re
import runpy
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from chimeralab.embedding import build
from chimeralab.version import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8")
# The benchmarks take the newest of what they compare with.
UNPINNED = "bench"


def requirements() -> Iterator[Requirement]:
    """All that the package, its extras and its groups ask for."""
    groups = {
        **PROJECT["project"]["optional-dependencies"],
        **{name: g for name, g in PROJECT["dependency-groups"].items() if name != UNPINNED},
        "": PROJECT["project"]["dependencies"],
    }
    for each in (each for group in groups.values() for each in group):
        if isinstance(each, str):
            yield Requirement(each)


def test_every_requirement_has_an_exact_version_that_fits() -> None:
    pinned: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([\w.]+)", CONSTRAINTS, re.MULTILINE):
        pinned.setdefault(canonicalize_name(name), []).append(version)
    own = canonicalize_name(PROJECT["project"]["name"])
    unfit = [
        str(each)
        for each in requirements()
        if canonicalize_name(each.name) != own
        and not any(
            each.specifier.contains(v) for v in pinned.get(canonicalize_name(each.name), [])
        )
    ]
    assert unfit == [], "`make constraints` updates constraints.txt"


def test_this_version_has_dated_notes_of_three_kinds() -> None:
    release = runpy.run_path(str(ROOT / "tools" / "release.py"))
    notes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert release["read_version"]() == __version__
    release["check_changelog"](notes, __version__)
    with pytest.raises(SystemExit, match=r"no dated notes for 9\.9"):
        release["check_changelog"](notes, "9.9")
    section = notes.split("\n## ")[1]
    assert re.findall(r"^### (.+)$", section, re.MULTILINE) == ["Added", "Changed", "Fixed"]


def test_every_version_has_its_hashes_and_no_address() -> None:
    entries = re.split(r"\n(?=\S)", CONSTRAINTS.strip())
    assert len(entries) > 50
    assert [each.split()[0] for each in entries if "--hash=sha256:" not in each] == []
    assert "://" not in CONSTRAINTS


@pytest.fixture
def built(tmp_path: Path) -> Iterator[Path]:
    wheels = pytest.importorskip("hatchling.builders.wheel", reason="hatchling builds the wheel")
    builder = wheels.WheelBuilder(str(ROOT))
    return (Path(each) for each in builder.build(directory=str(tmp_path), versions=["standard"]))


def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {Path(name).name for name in archive.namelist()}


def test_a_wheel_with_the_library_is_named_for_its_system(built: Iterator[Path]) -> None:
    [wheel] = built
    if "none-any" in wheel.name:
        pytest.skip("nothing can be compiled here")
    assert wheel.name.endswith(f"-py3-none-{build.platform_tag()}.whl")
    assert {build.LIBRARY.name, f"{build.LIBRARY.name}.sha256"} <= contents(wheel)


def test_a_wheel_has_the_examples_of_the_demo(built: Iterator[Path]) -> None:
    [wheel] = built
    assert {each.name for each in (ROOT / "examples").glob("*.jsonl")} <= contents(wheel)


def test_without_a_compiler_the_wheel_is_for_every_system(
    built: Iterator[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "/bin/false")
    [wheel] = built
    assert wheel.name.endswith("-py3-none-any.whl")
    assert build.LIBRARY.name not in contents(wheel)
    assert "minilm_check.npz" in contents(wheel)
