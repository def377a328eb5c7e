"""Studies made by version 0.1.0, carried over, verify and give the numbers that they gave then."""

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chimeralab import version
from tests.golden.carry_over import carry_over

STUDIES = Path(__file__).parent / "studies"
LOCKED_WITH = "0.1.0"


@pytest.fixture
def earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Unpacks a study, and lets this code pass for the version that locked it."""

    def unpack(name: str) -> Path:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(version, "__version__", LOCKED_WITH)
        with zipfile.ZipFile(STUDIES / f"{name}.zip") as kept:
            kept.extractall(tmp_path)
        carry_over(Path(name))
        return Path(name)

    return unpack


def figures(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every number, flag and null of a JSON document, by its path."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from figures(item, f"{place}.{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            check = isinstance(item, dict) and "passed" in item and f"{item['name']} {item['arm']}"
            yield from figures(item, f"{place}[{check or number}]")
    elif not isinstance(value, str):
        yield place, value


def assert_same_figures(now: Any, study: Path, command: str, but: str = "nothing") -> None:
    recorded = figures(json.loads((study / "recorded" / f"{command}.json").read_text()))
    then = {place: value for place, value in recorded if not place.endswith(but)}
    present = dict(figures(now))
    assert len(then) > 50
    assert {place: present.get(place, "absent") for place in then} == {
        place: pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
        for place, value in then.items()
    }


@pytest.mark.parametrize("name", ["selfplay", "trial"])
def test_earlier_study_verifies_reports_and_exports(chimera, earlier, name):
    study = earlier(name)
    verified = chimera("verify", study, "--json").json
    assert (verified["findings"], verified["deviations"]) == ([], [])
    assert verified["records"] > 500
    assert chimera("report", study).code == 0
    for kind in ("csv", "jsonl", "parquet"):
        assert chimera("export", study, "--format", kind, "--out", f"export-{kind}").code == 0
    assert chimera("run", study).code == 0
    chained = chimera("verify", study, "--json").json
    assert (chained["findings"], chained["deviations"]) == ([], [])
    assert chained["records"] > 500


def test_earlier_selfplay_study_gives_the_same_numbers(chimera, earlier):
    study = earlier("selfplay")
    detected = chimera("detect", study)
    assert detected.code == 0
    assert "0 new verdicts" in detected.err
    assert chimera("rate", study).code == 0
    # The detector and the rater agree on every item of four prompts, which no longer counts for
    # less than one disagreement would.
    perfect = "agreement.kappa_ci_score[0]"
    assert_same_figures(chimera("audit", study, "--json").json, study, "audit", but=perfect)
    assert_same_figures(chimera("analyse", study, "--json").json, study, "analyse")


def test_earlier_trial_gives_the_same_numbers(chimera, earlier):
    study = earlier("trial")
    # Effects are corrected in one family per role, no longer in one per measure.
    assert_same_figures(chimera("analyse", study, "--json").json, study, "analyse", but="p_holm")
    measured = chimera("measure", study, "--by", "arm", "--json")
    assert measured.code == 0
    assert_same_figures(measured.json, study, "measure")
