"""`action.yml`, with its steps executed as they are written; the one that installs is left out.

`make newcomer` runs them all, in an empty environment.
"""

import json
import os
import runpy
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

yaml: Any = pytest.importorskip("yaml", reason="comes with [inspect]")
ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
AGAIN = ["Let me check that again."] * 6
WELL = ["The ferry sails at noon.", "Whales sleep upright.", "Our baker retired.", "Rust is red."]


@pytest.fixture
def act(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs the action in a folder with two logs, one in a folder with a space in its name."""
    monkeypatch.chdir(tmp_path)
    for name, turns in {"logs/well.jsonl": WELL, "logs/more here/again.jsonl": AGAIN}.items():
        log = tmp_path / name
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(json.dumps({"id": log.stem, "turns": turns}) + "\n", encoding="utf-8")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    run = runpy.run_path(str(ROOT / "tools" / "action.py"))["run_action"]
    environ = {**os.environ, "PATH": path, "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    return lambda **inputs: run(
        {name.replace("_", "-"): value for name, value in inputs.items()}, environ, install=False
    )


def test_a_loop_fails_the_job_and_is_annotated(act: Callable[..., Any], tmp_path: Path) -> None:
    done = act(junit="loops.xml")
    assert done.returncode == 1
    assert "::error file=logs/more here/again.jsonl,line=1,title=again%3A same text" in done.stderr
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "| again | 6 | same text again |" in summary
    assert "loop in 1 of 2 conversations" in summary
    assert len(ET.parse(tmp_path / "loops.xml").findall(".//failure")) == 1


@pytest.mark.parametrize(
    "inputs",
    [{"fail_on": ""}, {"max_share": "0.5"}, {"paths": "logs/well.jsonl"}],
    ids=["warnings only", "half may loop", "a healthy log"],
)
def test_a_job_passes(act: Callable[..., Any], inputs: dict[str, str]) -> None:
    done = act(**inputs)
    assert done.returncode == 0
    assert ("::warning" in done.stderr) == (inputs == {"fail_on": ""})


def test_several_checks_and_further_options_are_passed_on(act: Callable[..., Any]) -> None:
    done = act(fail_on="loop nothing-judged", args="--json --ignore wait")
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 2


def test_inputs_are_never_part_of_a_script() -> None:
    scripts = [step["run"] for step in ACTION["runs"]["steps"] if "run" in step]
    assert len(scripts) == 2
    assert not any("${{" in script for script in scripts)


def test_every_input_is_on_the_page() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert [name for name in ACTION["inputs"] if f"`{name}`" not in page] == []
