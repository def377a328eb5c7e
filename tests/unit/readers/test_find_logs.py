"""Paths, folders and patterns to logs."""

import os
from pathlib import Path

import pytest

from chimeralab import readers
from chimeralab.core.errors import InputError, LogError
from chimeralab.readers.logs import find_refusal

TALK = {"turns": ["Hi.", "Hello."]}


@pytest.fixture
def folder(write) -> Path:
    write(TALK, name="logs/b.jsonl")
    write(TALK, name="logs/a.json")
    write(TALK, name="logs/deep/er/c.ndjson")
    write({"name": "no log"}, name="logs/package.json")
    write(b"not a log at all", name="logs/notes.jsonl")
    write(TALK, name="logs/readme.log")
    write(TALK, name="logs/.codex/d.jsonl")
    write(TALK, name="logs/.git/d.jsonl")
    write(b"import this", name="logs/code.py")
    return write(TALK, name="logs/.e.jsonl").parent


FOUND = [".e.jsonl", "a.json", "b.jsonl", "readme.log", ".codex/d.jsonl", "deep/er/c.ndjson"]


def names(paths: list[str], folder: Path) -> list[str]:
    return [Path(path).relative_to(folder).as_posix() for path in paths]


def test_folder_is_searched_recursively_in_name_order(folder):
    skipped: list[LogError] = []
    found = readers.find_logs([folder], on_skip=skipped.append)
    assert names(found, folder) == FOUND
    sources = [error.source for error in skipped]
    assert names(sources, folder) == ["code.py", "notes.jsonl", "package.json"]
    assert [error.group for error in skipped] == [
        "with other endings",
        ".jsonl (no reader)",
        ".json (no reader)",
    ]


def test_explicit_file_is_read_whatever_its_suffix(folder):
    assert names(readers.find_logs([folder / "readme.log"]), folder) == ["readme.log"]


def test_explicit_file_that_is_not_a_log_is_an_error(folder):
    with pytest.raises(LogError, match=r"package\.json, line 1: not a conversation"):
        list(readers.read_all([folder / "package.json"]))


def test_patterns_that_the_shell_did_not_expand_work(folder):
    assert names(readers.find_logs([folder / "*.jsonl"]), folder) == ["b.jsonl", "notes.jsonl"]
    assert names(readers.find_logs([folder / "**" / "*.ndjson"]), folder) == ["deep/er/c.ndjson"]
    assert names(readers.find_logs([folder / "d*"]), folder) == ["deep/er/c.ndjson"]


def test_existing_name_with_brackets_is_not_a_pattern(write):
    log = write(TALK, name="run[1].jsonl")
    assert readers.find_logs([log]) == [str(log)]


def test_arguments_keep_their_order_and_count_once(folder):
    paths = [folder / "b.jsonl", folder, "-"]
    found = readers.find_logs(paths)
    others = [name for name in FOUND if name != "b.jsonl"]
    assert names(found[:-1], folder) == ["b.jsonl", *others]
    assert found[-1] == "-"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere.jsonl", "no such file or folder"),
        ("*.nothing", "no log matches this pattern"),
        (".hidden", "this folder has no logs"),
    ],
)
def test_finding_nothing_is_an_error(tmp_path, path, message):
    (tmp_path / ".hidden").mkdir()
    with pytest.raises(InputError, match=message):
        readers.find_logs([tmp_path / path])


def test_folder_without_logs_says_how_many_files_were_looked_at_and_why(write):
    write(b"", name="logs/empty.jsonl")
    write(b"just words\n", name="logs/a.md")
    write(b"more words\n", name="logs/b.md")
    folder = write(b"\x1f\x8bcut", name="logs/talk.jsonl.gz").parent
    looked = r"has no logs \(4 files looked at, 2 \.md \(no reader\), 1 empty, 1 damaged\)"
    with pytest.raises(InputError, match=looked):
        readers.find_logs([folder])


@pytest.mark.parametrize(
    ("content", "name", "group", "reason"),
    [
        (
            {"simulations": 0},
            "a.json",
            ".json (no reader)",
            "the nearest format is tau2, an object",
        ),
        ({"type": "summary", "summary": "x", "leafUuid": "y"}, "a.jsonl", "claude-code", "no mess"),
        (b'{"a": oops}', "a.json", "damaged", "not valid JSON"),
        (b"\n \n", "a.txt", "empty", "empty"),
        (b"SQLite format 3\0", "a.log", "damaged", "the SQLite database is damaged or in use"),
        (b"Some words.\nAnd more.\n", "a.log", ".log (no reader)", "a text in no known format"),
    ],
)
def test_refusal_has_a_group_and_the_reason_of_the_nearest_reader(
    write, content, name, group, reason
):
    refusal = find_refusal(str(write(content, name=name)))
    assert refusal is not None
    assert refusal.group.startswith(group)
    assert reason in refusal.reason


def test_damaged_inspect_log_in_a_folder_is_not_skipped(write):
    log = write(b"PK\x03\x04 cut off", name="logs/run.eval")
    with pytest.raises(LogError, match=r"run\.eval: the zip archive is damaged"):
        list(readers.read_all([log.parent]))


def test_truncated_log_in_a_folder_is_not_skipped(write):
    log = write(b'{\n "messages": [\n  {"role": "user", "cont', name="logs/cut.json")
    write(b'{\n "name": "pack', name="logs/package.json")
    write(TALK, name="logs/full.jsonl")
    assert names(readers.find_logs([log.parent]), log.parent) == ["cut.json", "full.jsonl"]


def test_session_with_only_notes_is_skipped_in_a_folder(write):
    write({"type": "summary", "summary": "x", "leafUuid": "y"}, name="logs/empty.jsonl")
    log = write(TALK, name="logs/full.jsonl")
    assert readers.find_logs([log.parent]) == [str(log)]


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is out of reach here"
)
def test_unreadable_file_is_not_skipped(write):
    log = write(TALK, name="logs/secret.jsonl")
    log.chmod(0)
    with pytest.raises(LogError, match="Permission denied"):
        list(readers.read_all([log.parent]))


def test_read_all_reads_every_log_found(folder):
    sources = [trajectory.source for trajectory in readers.read_all([folder])]
    assert names([source.rpartition(":")[0] for source in sources], folder) == FOUND


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with a name")
@pytest.mark.parametrize("pattern", ["", "*", "**/*", "*.jsonl"])
def test_only_regular_files_are_opened_in_folders(folder, pattern):
    """Opening a pipe would wait for a writer forever."""
    os.mkfifo(folder / "pipe.jsonl")
    skipped: list[LogError] = []
    found = readers.find_logs([folder / pattern], on_skip=skipped.append)
    assert "b.jsonl" in names(found, folder)
    assert "pipe.jsonl" in names([error.source for error in skipped], folder)
    assert "pipe.jsonl" not in names(found, folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with a name")
def test_explicit_pipe_is_read(tmp_path):
    """As with process substitution: `chimera detect <(command)`."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert readers.find_logs([pipe]) == [str(pipe)]
