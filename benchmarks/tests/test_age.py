"""A result is old once a commit has changed what it measures, or if that can't be told."""

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.__main__ import all_benchmarks, main
from benchmarks.age import MEASURES, benchmark_of, head, measured_at, measured_paths, old_rows
from benchmarks.table import BEGIN, END, ROOT, Result, keep, read_rows

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
MEASURED = "src/chimeralab/detection/words.py"


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, encoding="utf-8")


def commit(root: Path, path: str, text: str) -> str:
    """Commit a file; the short hash."""
    write(root, path, text)
    git(root, "add", path)
    git(root, "commit", "-q", "-m", "a change")
    return git(root, "rev-parse", "--short", "HEAD")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q")
    git(root, "config", "user.name", "A. Tester")
    git(root, "config", "user.email", "tester@example.org")
    commit(root, MEASURED, "first")
    return root


def ages(root: Path, commit: str) -> list[str]:
    """The age of a result of `speed.loops`, if it is old."""
    row = {"command": "python -m benchmarks.speed.loops", "commit": commit}
    return list(old_rows(root, {"loops": row}))


@needs_git
def test_result_is_old_once_what_it_measures_has_changed(repository: Path) -> None:
    measured = measured_at(repository, "speed.loops")
    commit(repository, "src/chimeralab/web/app.py", "something else")
    assert ages(repository, measured) == []
    commit(repository, MEASURED, "second")
    assert ages(repository, measured) == [f"speed.loops, measured at {measured}, 1 commit since"]
    commit(repository, "benchmarks/speed/loops.py", "another way to measure")
    assert ages(repository, measured) == [f"speed.loops, measured at {measured}, 2 commits since"]
    assert ages(repository, measured_at(repository, "speed.loops")) == []


@needs_git
def test_result_measured_with_uncommitted_changes_is_old(repository: Path) -> None:
    first = head(repository)
    write(repository, "docs/page.md", "not measured")
    assert measured_at(repository, "speed.loops") == first
    write(repository, MEASURED, "not committed")
    assert measured_at(repository, "speed.loops") == f"{first}+"
    assert ages(repository, f"{first}+") == [
        f"speed.loops, measured at {first} with uncommitted changes, 0 commits since"
    ]


@needs_git
def test_result_of_an_unknown_commit_is_old(repository: Path) -> None:
    assert ages(repository, "") == ["speed.loops, measured at an unknown commit"]
    assert ages(repository, "abcdef0") == [
        "speed.loops, measured at abcdef0, which is not in this repository"
    ]


@needs_git
def test_old_results_are_named_by_benchmark_and_commit(repository: Path) -> None:
    first = head(repository)
    second = commit(repository, MEASURED, "second")
    commit(repository, MEASURED, "third")
    rows = {
        name: {"command": f"python -m benchmarks.{benchmark}", "commit": measured}
        for name, benchmark, measured in [
            ("b", "speed.loops", first),
            ("a", "speed.loops", first),
            ("c", "speed.loops", second),
            ("d", "speed.encoders", first),
        ]
    }
    assert old_rows(repository, rows) == {
        f"speed.loops, measured at {first}, 2 commits since": ["a", "b"],
        f"speed.loops, measured at {second}, 1 commit since": ["c"],
    }


@needs_git
def test_repository_of_another_project_is_not_asked(repository: Path) -> None:
    unpacked = repository / "unpacked"
    unpacked.mkdir()
    assert head(repository)
    assert head(unpacked) == ""


def test_without_git_the_age_is_said_to_be_unknown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.argv", ["benchmarks", "--stale"])
    main()
    [said] = capsys.readouterr().out.splitlines()
    assert said.startswith("The age of the results is unknown")


@needs_git
def test_stale_names_the_results_of_the_benchmarks_given(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.__main__.ROOT", repository)
    row = {"command": "python -m benchmarks.speed.loops", "commit": ""}
    rows = {"loops": row, "guard": row | {"command": "python -m benchmarks.speed.guard"}}
    monkeypatch.setattr("benchmarks.__main__.read_rows", lambda: rows)
    monkeypatch.setattr("sys.argv", ["benchmarks", "--stale", "speed.guard"])
    main()
    assert capsys.readouterr().out.splitlines() == [
        "1 of 1 results are older than the code they measure",
        "speed.guard, measured at an unknown commit: guard",
    ]


def test_every_benchmark_says_what_it_measures() -> None:
    assert list(MEASURES) == all_benchmarks()
    missing = [p for name in MEASURES for p in measured_paths(name) if not (ROOT / p).exists()]
    assert missing == []


def test_every_result_names_its_benchmark_and_commit() -> None:
    rows = read_rows()
    assert {benchmark_of(str(row["command"])) for row in rows.values()} <= set(all_benchmarks())
    assert [name for name, row in rows.items() if not row["commit"]] == []


def test_a_new_result_and_its_line_on_the_page_name_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, page = tmp_path / "results.json", tmp_path / "page.md"
    results.write_text("{}", encoding="utf-8")
    page.write_text(f"Before\n{BEGIN}\n{END}\nafter\n", encoding="utf-8")
    monkeypatch.setattr("benchmarks.table.RESULTS", results)
    monkeypatch.setattr("benchmarks.table.PAGE", page)
    monkeypatch.setattr("benchmarks.table.measured_at", lambda root, benchmark: f"{benchmark} 1a2b")
    keep(Result("loops", "3", "4", True, "python -m benchmarks.speed.loops"))
    assert read_rows()["loops"]["commit"] == "speed.loops 1a2b"
    header, _, line = page.read_text(encoding="utf-8").splitlines()[2:5]
    assert header.endswith(" commit |")
    assert line.endswith(" speed.loops 1a2b |")
