"""The example of docs/inspect.md and the commands on its log work as printed."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_scout", reason="Inspect and Scout are an extra")

from inspect_scout import scan_results_df

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "inspect.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLE, GARDEN, VALIDATION = (code for kind, code in BLOCKS if kind == "python")
PRINTED = next(text for kind, text in BLOCKS if kind == "text")
COMMANDS = [line for kind, code in BLOCKS if kind == "sh" for line in code.splitlines()]


def command(folder: Path, *words: str) -> str:
    """Run a command of the environment that the tests run in."""
    program = Path(sys.executable).with_name(words[0])
    ran = subprocess.run(
        [str(program), *words[1:]],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def documented(start: str) -> list[str]:
    return next(line.partition("#")[0].split() for line in COMMANDS if line.startswith(start))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the example was run."""
    place = tmp_path_factory.mktemp("inspect")
    (place / "example.py").write_text(EXAMPLE, encoding="utf-8")
    said = command(place, "python", "example.py")
    assert said.endswith(PRINTED)
    return place


def results(folder: Path) -> Any:
    [location] = (folder / "scans").iterdir()
    return scan_results_df(str(location)).scanners["loops"]


def test_scout_scans_the_log_of_the_example_and_ratings_validate_it(folder: Path) -> None:
    # The rules do not rate tool calls alone, but a person can.
    ratings = "id,rater,label\ntask/1_epoch_1,human:ann,1\n"
    (folder / "ratings.csv").write_text(ratings, encoding="utf-8")
    command(folder, "python", "-c", VALIDATION)
    # One process of Scout is enough, and starts sooner than four.
    scan = documented("scout scan chimeralab/loops -T logs -V")
    command(folder, *scan, "--max-processes", "1", "--display", "plain")
    [row] = results(folder).to_dict("records")
    assert row["value"] in (True, "true")
    assert "noticed at [M7], which repeats [M3], [M5]" in row["explanation"]
    assert str(row["validation_result"]).lower() == "true"


def test_trial_runs_by_its_name(folder: Path) -> None:
    command(folder, *documented("chimera new trial"))
    words = documented("inspect eval chimeralab/stress_trial")
    # A phantom is tested here, so that the model is never asked.
    words[words.index("--model") + 1] = "mockllm/model"
    printed = command(folder, *words, "--limit", "3", "--display", "plain")
    assert "accuracy" in printed


def test_solver_of_the_page_makes_a_task(tmp_path: Path) -> None:
    (tmp_path / "garden.py").write_text(GARDEN, encoding="utf-8")
    assert "garden" in command(tmp_path, "inspect", "list", "tasks", "garden.py")
