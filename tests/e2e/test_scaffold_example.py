"""The example that passes a study's numbers to the gates of another program."""

import json
import subprocess
import sys
from pathlib import Path

from tests.plans import SELFPLAY
from tests.studies import DETECTED, MakeStudy

EXAMPLE = Path(__file__).parents[2] / "examples" / "scaffold_result.py"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLE), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_number_with_a_value_is_a_metric(chimera, make_study: MakeStudy, tmp_path) -> None:
    study = make_study(SELFPLAY, steps=DETECTED)
    exported = tmp_path / "tables"
    assert chimera("export", study.path, "--format", "csv", "--out", exported).code == 0
    assert run(exported, tmp_path / "results" / "pilot").returncode == 0
    found = json.loads((tmp_path / "results" / "pilot" / "result.json").read_text())
    numbers = json.loads((exported / "numbers.json").read_text())
    known = {n: each for n, each in numbers.items() if isinstance(each, dict)}
    assert found["metrics"] == {
        name: each["value"] for name, each in known.items() if each["value"] is not None
    }
    assert found["metrics"]["countPlanned"] == len(study.talks)
    assert all(isinstance(value, int | float) for value in found["metrics"].values())
    assert found["artifacts"] == [str(exported / "numbers.json")]
    assert found["status"] == "success"


def test_folder_without_numbers_is_refused_in_one_line(tmp_path) -> None:
    ran = run(tmp_path, tmp_path / "out")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "numbers.json can't be read" in ran.stderr
