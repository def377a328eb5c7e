"""Reading a study runs none of its code; what runs it asks first, naming file and hash."""

import hashlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chimeralab.study.lock import digest
from tests.documented_parts import SELFPLAY, TRIAL, block
from tests.plans import Files, with_tables
from tests.studies import DETECTED, RUN, MakeStudy

Chimera = Callable[..., Any]

OF_TRIALS = (
    "Scenario",
    "Stressor",
    "Probe",
    "Countermeasure of a trial",
    "Measure of a trial",
)
SEAMS = ("Model", "Detector", "Countermeasure of self-play", "Rater", *OF_TRIALS)
READING = {
    "verify": ("STUDY",),
    "verify --quick": ("STUDY", "--quick"),
    "show": ("STUDY",),
    "show --id": ("STUDY", "--id", "ID", "--out", "page.html"),
    "report": ("STUDY",),
    "export": ("STUDY", "--format", "csv", "--out", "out"),
    "analyse": ("STUDY",),
    "compare": ("STUDY", "STUDY"),
    "measure": ("STUDY",),
    "audit": ("STUDY",),
    "sweep": ("out/conversations.jsonl",),
    "claims": ("text.md", "--study", "STUDY"),
}
WRITING = ("check", "lock", "run", "detect", "rate")
MARK = """
from pathlib import Path as _Path
with (_Path(__file__).parent / "ran").open("a") as _file:
    _file.write("x")
"""


def evil(seam: str) -> Files:
    """A study with a part of its own in this seam, whose import leaves a mark."""
    base = TRIAL if seam in OF_TRIALS else f'{SELFPLAY}[detector]\nuse = "loops"\n'
    plan = with_tables(base, block(seam, "toml"))
    return {
        "plan.toml": plan.replace("mine:", "evil:"),
        "evil.py": block(seam, "python") + MARK,
    }


@pytest.fixture
def finished(make_study: MakeStudy, tmp_path: Path) -> Callable[[str], Path]:
    """A study with evil code in a seam, locked, run, judged and rated by somebody who allowed it.

    A stranger gets it: the mark that the code has left is wiped.
    """
    (tmp_path / "out").mkdir()
    talks = '{"turns": ["a b", "c d", "e f", "g h"]}\n'
    (tmp_path / "out" / "conversations.jsonl").write_text(talks, encoding="utf-8")
    (tmp_path / "text.md").write_text("Nothing.\n", encoding="utf-8")

    def make(seam: str) -> Path:
        own = ("rate mine",) if seam == "Rater" else ()
        steps = RUN if seam in OF_TRIALS else (*DETECTED, "rate rules", *own)
        study = make_study(evil(seam), steps=steps).path
        (study / "ran").unlink()
        return study

    return make


def read_it(stranger: Chimera, command: str, study: Path) -> Any:
    words = {"STUDY": study, "ID": "plain/p1/1"}
    given = (words.get(each, each) for each in READING[command])
    return stranger(command.partition(" ")[0], *given)


@pytest.mark.parametrize("command", READING)
@pytest.mark.parametrize("seam", SEAMS)
def test_no_reading_command_runs_code_of_a_study(
    seam: str,
    command: str,
    finished: Callable[[str], Path],
    stranger: Chimera,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study = finished(seam)
    monkeypatch.chdir(study.parent)
    ran = read_it(stranger, command, study)
    assert not (study / "ran").exists()
    if seam in OF_TRIALS:
        kind = {"show --id", "audit", "compare"}
    else:
        kind = {"measure"} if seam == "Rater" else {"measure", "audit"}
    assert ran.code in ((0, 1, 2) if command in kind else (0,)), ran.err


@pytest.mark.parametrize("command", WRITING)
@pytest.mark.parametrize("seam", SEAMS)
def test_what_runs_code_refuses_without_consent_and_names_file_hash_and_flag(
    seam: str, command: str, make_study: MakeStudy, stranger: Chimera
) -> None:
    study = make_study(evil(seam)).path
    ran = stranger(command, study)
    sha256 = hashlib.sha256((study / "evil.py").read_bytes()).hexdigest()
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    for named in (str(study / "evil.py"), sha256, "--allow-code"):
        assert named in ran.err
    left = {path.name for path in study.iterdir()}
    assert left == {"plan.toml", "evil.py"}


@pytest.mark.parametrize("command", [name for name in READING if name != "sweep"])
def test_reading_an_unlocked_study_runs_no_code(
    command: str,
    make_study: MakeStudy,
    tmp_path: Path,
    stranger: Chimera,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study = make_study(evil("Detector")).path
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.md").write_text("Nothing.\n", encoding="utf-8")
    ran = read_it(stranger, command, study)
    ways = ("`chimera lock STUDY --allow-code`", "`chimera run`", "nothing has been run yet")
    assert any(way in ran.err + ran.out for way in ways)
    assert not (study / "ran").exists()


AGENT = """
def answer(messages):
    return "Yes."
"""
PROGRAM = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"id": json.loads(line)["id"], "answer": "Yes."}), flush=True)
"""


@pytest.mark.parametrize(
    ("table", "code"),
    [
        ('use = "callable"\npath = "evil:answer"', AGENT),
        (f'use = "command"\ncommand = ["{sys.executable}", "evil.py"]\ncan = ["history"]', PROGRAM),
    ],
)
def test_agents_are_code_of_the_study_too(
    table: str, code: str, make_study: MakeStudy, stranger: Chimera, chimera: Chimera
) -> None:
    changes = (
        ('[models.phantom]\nuse = "subject"', f"[agents.phantom]\n{table}"),
        ('each = ["conformity"]', "sham = false"),
        ("items = 4", "items = 2"),
    )
    study = make_study({"plan.toml": TRIAL, "evil.py": MARK + code}, *changes).path
    for command in ("check", "lock", "run"):
        ran = stranger(command, study)
        assert ran.code == 2
        assert str(study / "evil.py") in ran.err
        assert "--allow-code" in ran.err
    assert not (study / "ran").exists()
    for command in ("lock", "run"):
        assert chimera(command, study).code == 0
    (study / "ran").unlink()
    for name in [name for name in sys.modules if name.startswith(str(study))]:
        del sys.modules[name]
    for command in ("verify", "show", "analyse", "measure"):
        assert stranger(command, study).code in (0, 1), command
    assert not (study / "ran").exists()


def test_verdicts_of_a_custom_detector_are_listed_and_recomputed_when_allowed(
    finished: Callable[[str], Path], stranger: Chimera
) -> None:
    study = finished("Detector")
    sha256 = hashlib.sha256((study / "evil.py").read_bytes()).hexdigest()
    read = stranger("verify", study, "--json").json
    assert f"not recomputed: 4 stored verdicts of evil.py, sha256 {sha256}" in read["unchecked"]
    again = stranger("verify", study, "--json", "--allow-code").json
    assert (study / "ran").exists()
    assert not any("not recomputed" in each for each in again["unchecked"])
    assert "4 verdicts recomputed from their texts" in again["checked"]


@pytest.mark.parametrize("seam", ["Stressor", "Measure of a trial"])
def test_counts_of_custom_parts_in_a_trial_are_recomputed_when_allowed(
    seam: str, finished: Callable[[str], Path], stranger: Chimera
) -> None:
    study = finished(seam)
    read = stranger("verify", study, "--json").json
    assert any("not recomputed" in each for each in read["unchecked"])
    again = stranger("verify", study, "--json", "--allow-code").json
    assert (again["findings"], again["unchecked"]) == ([], [])


def test_changed_code_is_named_before_it_runs(
    finished: Callable[[str], Path], stranger: Chimera
) -> None:
    study = finished("Detector")
    with (study / "evil.py").open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    for command in WRITING:
        ran = stranger(command, study, "--allow-code")
        assert (ran.code, "evil.py is not the file that was locked" in ran.err) == (2, True)
    assert not (study / "ran").exists()
    found = stranger("verify", study, "--json").json["findings"]
    assert any("outside_code.evil:Echo" in each["problem"] for each in found)


def test_compiled_copy_next_to_the_plan_is_not_run(
    make_study: MakeStudy, stranger: Chimera
) -> None:
    study = make_study(evil("Detector")).path
    cached = study / "__pycache__" / f"evil.{sys.implementation.cache_tag}.pyc"
    subprocess.run([sys.executable, "-m", "py_compile", "evil.py"], cwd=study, check=True)
    stat = (study / "evil.py").stat()
    text = (study / "evil.py").read_text(encoding="utf-8").replace('"ran"', '"own"')
    (study / "evil.py").write_text(text, encoding="utf-8")
    os.utime(study / "evil.py", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert cached.exists()
    assert stranger("lock", study, "--allow-code").code == 0
    assert ((study / "ran").exists(), (study / "own").exists()) == (False, True)


def test_plan_that_drops_a_key_of_a_custom_part_is_not_the_locked_one(
    finished: Callable[[str], Path], stranger: Chimera
) -> None:
    study = finished("Detector")
    plan = (study / "plan.toml").read_text(encoding="utf-8")
    (study / "plan.toml").write_text(plan.replace("least = 3\n", ""), encoding="utf-8")
    found = stranger("verify", study, "--json").json["findings"]
    assert [each["problem"] for each in found] == [
        "not as locked: detector.settings.least: 3 → nothing"
    ]


def test_unjudged_study_with_a_custom_detector_says_to_judge_it_first(
    make_study: MakeStudy, stranger: Chimera
) -> None:
    study = make_study(evil("Detector"), steps=RUN).path
    (study / "ran").unlink()
    for command in ("report", "analyse"):
        ran = stranger(command, study)
        assert ran.code == 2
        assert f"judge them first with `chimera detect {study}`" in ran.err
    assert not (study / "ran").exists()


def test_missing_code_is_listed_as_unchecked(
    finished: Callable[[str], Path], stranger: Chimera
) -> None:
    study = finished("Detector")
    (study / "evil.py").unlink()
    ran = stranger("verify", study, "--json")
    assert (ran.code, ran.json["findings"]) == (0, [])
    assert any(
        "the code of evil:Echo, which is not available" in each for each in ran.json["unchecked"]
    )


def test_lock_that_does_not_describe_its_parts_is_rejected_in_a_sentence(
    finished: Callable[[str], Path], stranger: Chimera
) -> None:
    study = finished("Detector")
    lock = json.loads((study / "plan.lock").read_text(encoding="utf-8"))
    assert lock["resolved"].pop("outside_parts")
    del lock["sha256"]
    lock["sha256"] = digest(lock)
    (study / "plan.lock").write_text(json.dumps(lock), encoding="utf-8")
    ran = stranger("show", study)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "no lock or run describes it" in ran.err
    assert not (study / "ran").exists()


@pytest.mark.parametrize(
    "said",
    [
        {"settings": {"x=__import__('os')": 1}},
        {"settings": {"class": 1}},
        {"settings": 7},
        {"tells": {"needs": {"lags": "many"}}},
        {"tells": 3},
    ],
)
def test_lock_that_describes_nonsense_is_rejected_in_a_sentence(
    said: dict[str, Any], finished: Callable[[str], Path], stranger: Chimera
) -> None:
    study = finished("Detector")
    lock = json.loads((study / "plan.lock").read_text(encoding="utf-8"))
    lock["resolved"]["outside_parts"][0] |= said
    del lock["sha256"]
    lock["sha256"] = digest(lock)
    (study / "plan.lock").write_text(json.dumps(lock), encoding="utf-8")
    ran = stranger("show", study)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "plan.lock" in ran.err


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 2)])
def test_consent_is_asked_for_on_a_terminal(answer: str, code: int, make_study: MakeStudy) -> None:
    study = make_study(evil("Model")).path
    ours, theirs = pty.openpty()
    lock = [sys.executable, "-m", "chimeralab", "lock", str(study)]
    process = subprocess.Popen(lock, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, answer.encode())
    said = b""
    while True:
        try:
            said += os.read(ours, 4096)
        except OSError:
            break
    os.close(ours)
    assert process.wait() == code
    assert b"evil.py, sha256 " in said.replace(b"\r\n", b" ")
    assert (study / "ran").exists() == (code == 0)
