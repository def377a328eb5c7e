"""Studies locked and run by a release go on in later patch versions, with the same numbers.

Each folder `studies-VERSION` has what `make_release_studies` made of that version, and is never
made again. A change that breaks one of them needs a migration.
"""

import json
import zipfile
from pathlib import Path

import pytest

from chimeralab import version
from tests.golden.make_release_studies import COMMANDS
from tests.golden.test_earlier_studies import figures

HERE = Path(__file__).parent
RELEASED = sorted(folder.name.partition("-")[2] for folder in HERE.glob("studies-*"))


def unpack(released: str, name: str, to: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unpack a study where the next patch version runs."""
    series, _, patch = released.rpartition(".")
    monkeypatch.setattr(version, "__version__", f"{series}.{int(patch) + 1}")
    monkeypatch.chdir(to)
    with zipfile.ZipFile(HERE / f"studies-{released}" / f"{name}.zip") as kept:
        kept.extractall(to)
    return Path(name)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("released", RELEASED)
def test_study_of_a_release_opens_verifies_and_reports(
    chimera, tmp_path, monkeypatch, released, name
):
    study = unpack(released, name, tmp_path, monkeypatch)
    assert json.loads((study / "plan.lock").read_text())["resolved"]["chimeralab"] == released
    assert chimera("run", study).code == 0
    verified = chimera("verify", study, "--json").json
    assert (verified["findings"], verified["deviations"]) == ([], [])
    assert verified["records"] > 300
    assert chimera("report", study).code == 0
    assert chimera("export", study, "--format", "jsonl", "--out", "exported").code == 0


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("released", RELEASED)
def test_study_of_a_release_gives_the_numbers_that_it_gave_then(
    chimera, tmp_path, monkeypatch, released, name
):
    study = unpack(released, name, tmp_path, monkeypatch)
    for command in COMMANDS[name]:
        first, *options = command.split()
        now = dict(figures(chimera(first, study, *options, "--json").json))
        recorded = study / "recorded" / f"{first}.json"
        then = dict(figures(json.loads(recorded.read_text(encoding="utf-8"))))
        assert len(then) > 50
        assert {place: now.get(place, "absent") for place in then} == {
            place: pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            for place, value in then.items()
        }


def test_plan_that_was_changed_after_the_release_is_refused(chimera, tmp_path, monkeypatch):
    study = unpack(RELEASED[0], "trial", tmp_path, monkeypatch)
    plan = study / "plan.toml"
    plan.write_text(plan.read_text().replace("seed = 5", "seed = 6"), encoding="utf-8")
    ran = chimera("run", study)
    assert (ran.code, "run.seed: 5 → 6" in ran.err) == (2, True)
