"""A study in which something else than a file stands is read to its end, or refused in a sentence.

Opening a pipe would wait for a writer forever, and a device gives bytes without end.
"""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from chimeralab.study.database import MANIFEST
from tests.damage import complaints, full_selfplay, run
from tests.plans import SELFPLAY
from tests.studies import StudyCache

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name on this system"),
    pytest.mark.timeout(600),
]


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(8 << 30)


PUT: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a folder": Path.mkdir,
    "8 GB of nothing": sparse,
}
FILES = (
    "plan.lock", "study.count", "steps/audit.lock", "estimates.json", "audit/gate-record.json",
    "study.db", "study.db-journal", "study.db-wal",
)  # fmt: skip


def put(kind: str, path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    PUT[kind](path)


MAYBE = ("estimates.json", "study.db-journal", "study.db-wal")
CASES = [("a pipe", name) for name in FILES] + [(kind, "plan.lock") for kind in PUT]


@pytest.mark.parametrize(("kind", "name"), dict.fromkeys(CASES))
def test_commands_end_whatever_stands_for_a_file(
    studies: StudyCache, tmp_path: Path, kind: str, name: str
) -> None:
    study = full_selfplay(studies, tmp_path / "study")
    assert name in MAYBE or (study / name).is_file()
    put(kind, study / name)
    ran = {"verify": run("verify", study, "--quick"), "audit": run("audit", study)}
    assert complaints(ran) == []
    assert ran["verify"].code == 1 or name == "estimates.json"


@pytest.mark.parametrize("kind", PUT)
def test_prompts_of_a_plan_are_a_file(kind: str, tmp_path: Path) -> None:
    files = {"plan.toml": re.sub("items = .*", 'file = "prompts.jsonl"', SELFPLAY["plan.toml"])}
    study = tmp_path / "study"
    study.mkdir()
    (study / "plan.toml").write_text(files["plan.toml"], encoding="utf-8")
    put(kind, study / "prompts.jsonl")
    ran = run("lock", study)
    assert (ran.code, ran.crash) == (2, "")
    assert "prompts.jsonl can't be read" in ran.err


@pytest.mark.parametrize("kind", ["a pipe", "a device"])
def test_bundle_without_real_files_is_refused(
    studies: StudyCache, tmp_path: Path, kind: str
) -> None:
    study = full_selfplay(studies, tmp_path / "study")
    assert run("export", study, "--format", "bundle", "--out", tmp_path / "bundle").code == 0
    for name in (MANIFEST, "versions.json"):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(tmp_path / "bundle", copy)
        put(kind, copy / name)
        ran = run("verify", copy, "--quick")
        assert complaints({"verify": ran}) == []
        assert ran.code in (1, 2)
