"""A detector of the user's own goes through every step of a study under its own name."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chimeralab import weights
from chimeralab.embedding import encoder
from tests.plans import LOOPERS, Files, changed
from tests.studies import MakeStudy

Chimera = Callable[..., Any]

# A detector that follows the locked rule but never marks a turn: all else is inherited.
NEVER = '''
from dataclasses import dataclass

from chimeralab import LockedRule, Signal


@dataclass(frozen=True)
class Never(LockedRule):
    """Nothing is ever collapsed."""

    def start(self):
        return Asleep()


class Asleep:
    turn = 0

    def update(self, seen):
        self.turn += 1
        return Signal(self.turn, seen.s1, seen.s2)
'''

# A rule of another kind: it reads the words of the turns and asks for no vectors.
ECHO = '''
from dataclasses import dataclass

from chimeralab import Detector, Needs, Signal


@dataclass(frozen=True)
class Echo(Detector):
    """A turn is collapsed when its words were said before."""

    least: int = 2

    @property
    def needs(self):
        return Needs(turns=self.least)

    def start(self):
        return Listening(self.least)


class Listening:
    def __init__(self, least):
        self.least, self.turns, self.first = least, 0, {}

    def update(self, seen):
        self.turns += 1
        words = seen.turn.text.lower()
        before = self.first.setdefault(words, self.turns)
        again = before < self.turns and self.turns >= self.least
        return Signal(self.turns, collapsed=again, repeats=before if again else None)
'''

STEPS = ("check", "lock", "run", "detect", "analyse", "report", "verify")


def judged_by(name: str, code: str) -> Files:
    """A small study whose plan names a detector of its own."""
    detector = f'[detector]\nuse = "mine:{name}"\n'
    return changed(LOOPERS | {"mine.py": code}, detector, ("turns = 14", "turns = 12"))


def after_all_steps(chimera: Chimera, study: Path) -> dict[str, str]:
    """Take the study through every step; gives what they say of the detector, place by place."""
    printed = {}
    for step in STEPS:
        ran = chimera(step, study)
        assert ran.code == 0, (step, ran.err)
        printed[step] = ran.err
    report = (study / "report" / "index.html").read_text(encoding="utf-8")
    rows = chimera("detect", study, "--json").rows
    return {
        "terminal": printed["detect"],
        "report": " ".join(report.split()),
        "name": json.dumps(sorted({row["detector"]["name"] for row in rows})),
        "point": json.dumps(sorted({row["detector"]["operating_point"] for row in rows})),
    }


def test_subclass_of_the_locked_detector_is_reported_under_its_own_name(
    chimera: Chimera, make_study: MakeStudy
) -> None:
    study = make_study(judged_by("Never", NEVER)).path
    said = after_all_steps(chimera, study)
    assert said["name"] == '["Never"]'
    assert said["point"] == '["default"]'
    assert "detectors: loops-2, Never (default settings)" in said["terminal"]
    assert "Never, default operating point (mine:Never)" in said["report"]
    judged = "Collapse was judged by Never (mine:Never, a detector of our own)"
    assert f"{judged}: Nothing is ever collapsed." in said["report"]
    assert "the detector Never has no thresholds to vary" in said["report"]
    assert "locked operating point" not in said["report"]
    assert not any(row["collapsed"] for row in chimera("detect", study, "--json").rows)
    refused = chimera("analyse", study, "--robustness")
    assert refused.code == 2
    assert "the detector Never has none" in refused.err


@pytest.fixture
def no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an encoder was opened")

    monkeypatch.setattr(encoder.Encoder, "__init__", refuse)
    monkeypatch.setattr(weights, "locate", lambda name: None)


@pytest.mark.usefixtures("no_encoder")
def test_rule_of_another_kind_goes_through_all_steps_without_an_encoder(
    chimera: Chimera, make_study: MakeStudy, tmp_path: Path
) -> None:
    study = make_study(judged_by("Echo", ECHO)).path
    said = after_all_steps(chimera, study)
    assert said["name"] == '["Echo"]'
    assert "Echo (default settings)" in said["terminal"]
    assert "A turn is collapsed when its words were said before" in said["report"]
    assert "MiniLM" not in said["report"]
    rows = {row["id"]: row for row in chimera("detect", study, "--json", "--trace").rows}
    found = [row for row in rows.values() if row["collapsed"]]
    assert found
    for row in found:
        assert row["evidence"][0]["repeats"] < row["evidence"][0]["turn"]
        assert row["evidence"][0]["similarity"] is None
        assert row["encoder"] == {"model": None, "sha256": None, "precision": None}
    page = tmp_path / "page.html"
    shown = chimera("show", study, "--id", found[0]["id"], "--out", page)
    assert shown.code == 0
    assert "the detector of this study is code in mine.py, sha256 " in shown.err
    assert "Echo" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("code", "lacks"),
    [
        (
            "class Bare:\n    window: int = 3",
            r"lacks start, needs, name, .*; a class that inherits from chimeralab.Detector",
        ),
        (
            "class Bare(Detector):\n    window: int = 3",
            r"lacks a start\(\) that returns a stream with update\(\)",
        ),
        (
            "class Bare(Detector):\n    def start(self): return Stream()",
            r"lacks an update\(\) that returns a chimeralab.Signal",
        ),
        (
            "class Bare(Detector):\n    def start(self): return 1 / 0",
            r"lacks a start\(\) and update\(\) that accept a turn \(ZeroDivisionError: ",
        ),
        (
            "class Bare(Detector):\n    needs: int = 3\n    def start(self): return Stream()",
            "lacks an attribute needs of type chimeralab.Needs",
        ),
    ],
)
def test_invalid_detector_is_rejected_before_the_lock(
    chimera: Chimera, make_study: MakeStudy, code: str, lacks: str
) -> None:
    head = "from dataclasses import dataclass\nfrom chimeralab import Detector\n"
    stream = "class Stream:\n    def update(self, seen): ...\n"
    code = f"{head}{stream}@dataclass(frozen=True)\n{code}\n"
    study = make_study(judged_by("Bare", code)).path
    for step in ("check", "lock"):
        ran = chimera(step, study)
        assert ran.code == 2
        assert re.search(
            f"use = 'mine:Bare' in \\[detector\\] is not a detector: it {lacks}", ran.err
        )
    assert not (study / "plan.lock").exists()
