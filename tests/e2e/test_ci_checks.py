"""Checks for CI by `chimera detect` and pytest: they fail with a reason, never pass silently."""

import json
import os
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chimeralab import InputError
from chimeralab.testing import assert_no_loop

Chimera = Callable[..., Any]
ROOT = Path(__file__).parents[2]
AGAIN = ["Let me check that again."] * 6
WELL = ["The ferry sails at noon.", "Whales sleep upright.", "Our baker retired.", "Rust is red."]
HOSTILE = '</failure><x a="\x00\x1b\ufffe\ud800">]]>'


def write_log(path: Path, *talks: list[str], names: str = "talk-{}") -> Path:
    lines = (json.dumps({"id": names.format(n), "turns": t}) for n, t in enumerate(talks, 1))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--fail-on", "loop"], 1),
        (["--max-share", "0.25"], 0),
        (["--max-share", "0.2"], 1),
        (["--max-share", "0"], 1),
        (["--fail-on", "loop", "--max-share", "0.25"], 0),
        (["--fail-on", "nothing-judged"], 0),
    ],
)
def test_share_of_looping_conversations_can_be_allowed(
    chimera: Chimera, tmp_path: Path, options: list[str], code: int
) -> None:
    log = write_log(tmp_path / "log.jsonl", AGAIN, WELL, WELL, WELL)
    ran = chimera("detect", "--no-vectors", log, *options)
    assert ran.code == code
    assert ("failed: loop in 1 of 4 conversations (25.0 %)" in ran.err) == bool(code)


@pytest.mark.weights
def test_share_is_that_of_collapse_where_collapse_is_checked(
    chimera: Chimera, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "log.jsonl", AGAIN, [*WELL, "Bees dance."])
    for options, code in ((["--max-share", "0.5"], 0), (["--max-share", "0.4"], 1)):
        assert chimera("detect", log, "--fail-on", "collapse", *options).code == code
        assert chimera("detect", log, "--detector", "locked", *options).code == code


@pytest.mark.parametrize("options", [["--fail-on", "loop"], ["--max-share", "1"]])
def test_check_fails_when_nothing_could_be_judged(
    chimera: Chimera, tmp_path: Path, options: list[str]
) -> None:
    log = write_log(tmp_path / "log.jsonl", ["Hi."], ["Hello!", "Hi."])
    ran = chimera("detect", "--no-vectors", log, *options)
    assert ran.code == 1
    assert "failed: nothing could be judged" in ran.err
    assert chimera("detect", "--no-vectors", log).code == 0


@pytest.mark.parametrize("share", ["1.5", "-0.1", "half"])
def test_impossible_share_is_rejected(chimera: Chimera, tmp_path: Path, share: str) -> None:
    log = write_log(tmp_path / "log.jsonl", AGAIN)
    ran = chimera("detect", "--no-vectors", log, f"--max-share={share}")
    assert (ran.code, "--max-share" in ran.err) == (2, True)


# What the usual schemas of JUnit (Jenkins', and Windy Road's of Ant) require and allow.
SUITE = {
    "id", "package", "name", "tests", "failures", "errors", "skipped", "time", "timestamp",
    "hostname",
}  # fmt: skip
ORDER = re.compile(r"properties (testcase )*system-out system-err $")


def test_junit_output_can_be_read_back(chimera: Chimera, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", AGAIN, WELL, ["Hi."])
    path = tmp_path / "results.xml"
    assert chimera("detect", "--no-vectors", log, "--junit", path).code == 0
    root = ET.parse(path).getroot()
    (suite,) = root
    assert (root.tag, root.attrib) == ("testsuites", {})
    assert (suite.tag, set(suite.attrib)) == ("testsuite", SUITE)
    counts = [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert counts == ["3", "1", "0", "1"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp") or "")
    assert ORDER.match("".join(f"{child.tag} " for child in suite))
    looping, healthy, short = suite.iter("testcase")
    assert all(set(case.attrib) == {"classname", "name", "time"} for case in suite[1:-2])
    assert (looping.get("classname"), looping.get("name")) == (str(log), "talk-1")
    (failure,) = looping
    said = "message 4 repeats messages 2 and 3: “Let me check that again.” (same text again since"
    assert (failure.tag, failure.get("type")) == ("failure", "loop")
    assert str(failure.get("message")).startswith(said)
    assert list(healthy) == []
    assert [child.tag for child in short] == ["skipped"]
    assert "1 of 3 conversations loop" in str(suite.findtext("system-out"))


def test_hostile_text_stays_text_in_junit_output(chimera: Chimera, tmp_path: Path) -> None:
    talk = [f"Do it again {HOSTILE} once more."] * 6
    log = write_log(tmp_path / "log.jsonl", talk, names=f"talk {HOSTILE}")
    path = tmp_path / "results.xml"
    assert chimera("detect", "--no-vectors", log, "--junit", path).code == 0
    (failure,) = ET.parse(path).getroot().iter("failure")
    assert "</failure><x a=" in str(failure.text)


def test_junit_output_lists_what_the_check_counts(chimera: Chimera, tmp_path: Path) -> None:
    log, path = write_log(tmp_path / "log.jsonl", AGAIN), tmp_path / "results.xml"
    assert chimera("detect", log, "--fail-on", "collapse", "--junit", path).code == 1
    (failure,) = ET.parse(path).getroot().iter("failure")
    assert failure.get("type") == "collapse"
    assert "turn 5 repeats turn 4: “Let me check that again.”" in str(failure.text)


@pytest.mark.parametrize("name", ["results.txt", "nowhere/results.xml"])
def test_junit_file_that_cannot_be_written_is_rejected_first(
    chimera: Chimera, tmp_path: Path, name: str
) -> None:
    log = write_log(tmp_path / "log.jsonl", AGAIN)
    ran = chimera("detect", "--no-vectors", log, "--json", "--junit", tmp_path / name)
    assert (ran.code, ran.out) == (2, "")


def test_assert_no_loop_says_what_repeats() -> None:
    assert_no_loop(WELL)
    with pytest.raises(AssertionError, match="message 4 repeats messages 2 and 3") as failed:
        assert_no_loop([{"role": "assistant", "content": text} for text in AGAIN])
    assert str(failed.value).startswith("the conversation loops:\n  message 4")


def test_assert_no_loop_fails_when_there_is_nothing_to_judge() -> None:
    for empty in ([], [{"role": "system", "content": "Be brief."}]):
        with pytest.raises(AssertionError, match="nothing to judge"):
            assert_no_loop(empty)
    with pytest.raises(InputError, match="a dict is not a conversation"):
        assert_no_loop({"messages": []})  # type: ignore[arg-type]


def test_assert_no_loop_takes_a_frame_and_names_the_conversation() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"id": ["good", "bad"], "turns": [WELL, AGAIN]})
    with pytest.raises(AssertionError, match="conversation 'bad' loops"):
        assert_no_loop(frame)
    with pytest.raises(AssertionError, match="no conversation to judge"):
        assert_no_loop(frame.head(0).assign(text=[]))


def entry_point() -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    points: dict[str, str] = project["entry-points"]["pytest11"]
    return points


def test_pytest_finds_the_fixture_by_our_entry_point(tmp_path: Path) -> None:
    """As installed: the metadata is laid out as pip does it, whatever is installed here."""
    ((name, module),) = entry_point().items()
    installed = tmp_path / "site" / "chimera_lab-0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: chimera-lab\nVersion: 0\n")
    (installed / "entry_points.txt").write_text(f"[pytest11]\n{name} = {module}\n")
    (tmp_path / "test_agent.py").write_text(
        f"def test_good(assert_no_loop):\n    assert_no_loop({WELL!r})\n"
        f"def test_bad(assert_no_loop):\n    assert_no_loop({AGAIN!r})\n",
        encoding="utf-8",
    )
    paths = [str(installed.parent), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-c",
            os.devnull,
            "test_agent.py",
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert "1 failed, 1 passed" in ran.stdout, ran.stdout
    assert "AssertionError: the conversation loops:" in ran.stdout
    assert "testing/__init__.py" not in ran.stdout  # the line that failed is the test's


def test_plugin_imports_hardly_anything_at_pytest_startup() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules)\n"
        f"import {entry_point()['chimeralab']}\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = ran.stdout.split()
    assert not {"numpy", "pydantic", "click", "rich"} & set(loaded)
    packages = {"chimeralab", "chimeralab.core", "chimeralab.testing"}
    modules = {"chimeralab.core.lazy", "chimeralab.testing.plugin", "chimeralab.version"}
    assert set(loaded) <= packages | modules


def test_workflow_and_hook_of_the_docs_name_what_there_is() -> None:
    yaml = pytest.importorskip("yaml")
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    workflow, hooks = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", page, flags=re.S))
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    (own,) = [s for s in workflow["jobs"]["loops"]["steps"] if "chimera" in s.get("uses", "")]
    assert {*own["with"]} <= {*action["inputs"]}
    known = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    (wanted,) = hooks["repos"][0]["hooks"]
    assert wanted["id"] in [each["id"] for each in known]
