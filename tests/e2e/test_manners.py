"""How the command behaves in a terminal, in a pipe and with shell completion."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from tests.unit.readers.logs_of import LOGS

Chimera = Callable[..., Any]
LONG = "run-2026-11-16T08:15:42Z/agent-7f3c/attempt-03/worker-12.host-4"
TALK = ["The ferry sails at noon.", "Whales sleep upright.", "Our baker retired."]
COMMAND = [sys.executable, "-m", "chimeralab"]


def write_log(path: Path, *ids: str, **fields: object) -> Path:
    lines = (json.dumps({"id": name, "turns": TALK, **fields}) for name in ids)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chimeralab.cli.terminal.out._width", 80)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("options", [["--no-vectors"], []])
def test_long_ids_are_shortened_from_the_left_in_80_columns_and_whole_in_json(
    chimera: Chimera, tmp_path: Path, options: list[str]
) -> None:
    log = write_log(tmp_path / "log.jsonl", LONG)
    rows = chimera("detect", log, "--all", *options).out.splitlines()
    table = [row for row in rows if row.startswith(("conversation ", "…"))]
    assert (len(table), max(map(len, table)) <= 80) == (2, True)
    shown = table[1].split()[0]
    assert (shown[0], LONG.endswith(shown[1:]), len(shown) >= 20) == ("…", True, True)
    assert chimera("detect", log, *options, "--json").json["id"] == LONG
    page = tmp_path / "page.html"
    assert chimera("show", log, "--id", shown, "--no-vectors", "--out", page).code == 0
    assert LONG in page.read_text(encoding="utf-8")


@pytest.mark.usefixtures("narrow")
def test_long_ids_of_a_sample_are_folded_and_never_cut(chimera: Chimera, tmp_path: Path) -> None:
    rows = chimera("rate", write_log(tmp_path / "log.jsonl", LONG)).out.splitlines()
    table = rows[1 : rows.index("") if "" in rows else None]
    assert max(map(len, table)) <= 80
    column = rows[0].index("judged")
    assert "".join(row[:column].rstrip() for row in table).startswith(LONG)


def fill_folder(folder: Path) -> None:
    """Write 300 files as people have them: logs of all formats, broken ones, and others."""
    kinds = sorted(LOGS)
    for n in range(300):
        talk = LOGS[kinds[n % len(kinds)]]
        name, content = {
            5: (f"out-{n}.log", b"2026-01-01 INFO started\n" * 50),
            6: (f"README-{n}.md", b"# Title\n\nSome words.\n"),
            7: (f"cut-{n}.jsonl.gz", gzip.compress(LOGS["plain"].healthy)[:-20]),
            8: (f"broken-{n}.jsonl", b'{"turns": 5}\n' * 3 + LOGS["plain"].looping * (n % 3 > 0)),
            9: (f"other-{n}.json", (b"", b"{}", b"\xff\xfe\x00", b"import this")[n // 10 % 4]),
        }.get(n % 10, (f"session-{n}.jsonl", talk.looping if n % 4 else talk.healthy))
        path = folder / f"team-{n % 7}" / f"run-{n % 11}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@pytest.mark.parametrize("height", [24, 50])
def test_folder_of_300_mixed_files_gives_one_readable_screen(
    chimera: Chimera, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, height: int
) -> None:
    fill_folder(tmp_path / "logs")
    monkeypatch.chdir(tmp_path)
    for name, value in {"_width": 80, "_height": height, "_force_terminal": True}.items():
        monkeypatch.setattr(f"chimeralab.cli.terminal.out.{name}", value)
    ran = chimera("detect", "logs", "--no-vectors")
    lines = Text.from_ansi(ran.out + ran.err).plain.splitlines()
    assert height - 10 < sum(max(1, -(-len(line) // 80)) for line in lines) < height
    assert ran.code == 2
    (unread,) = (line for line in lines if " files not read: " in line)
    total, *groups = map(int, re.findall(r"\d+(?= files| \.| damaged| empty| [a-z-]+ \()", unread))
    assert total == sum(groups)
    assert "30 .log (no reader)" in unread
    assert "more logs partly read" in ran.err
    assert lines[-1].endswith("bad entries skipped; use --skip-bad to allow that")
    assert sum("partly read" in line for line in lines) >= 3


def test_closed_pipe_ends_the_command_as_sigpipe_would(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", "talk")
    for options in (["--json"], [], ["--help"]):
        reading, writing = os.pipe()
        os.close(reading)
        arguments = [*COMMAND, "detect", "--no-vectors", str(log), *options]
        ran = subprocess.run(arguments, stdout=writing, stderr=subprocess.PIPE, check=False)
        os.close(writing)
        assert (ran.returncode, b"Traceback" in ran.stderr) == (141, False)


@pytest.mark.parametrize("command", [("detect", "--no-vectors"), ("sweep",)])
def test_grouping_by_a_missing_field_is_an_error(
    chimera: Chimera, tmp_path: Path, command: tuple[str, ...]
) -> None:
    log = write_log(tmp_path / "log.jsonl", "talk", model="small")
    ran = chimera(*command, log, "--group-by", "nofield")
    assert ran.code == 2
    assert "no conversation has a field 'nofield' to group by; fields: model" in ran.err


def test_nothing_is_written_if_grouping_fails(chimera: Chimera, tmp_path: Path) -> None:
    log, kept = write_log(tmp_path / "log.jsonl", "talk"), tmp_path / "out.csv"
    ran = chimera("detect", "--no-vectors", log, "--group-by", "nofield", "--out", kept)
    assert (ran.code, kept.exists()) == (2, False)


def test_mistyped_cache_path_creates_no_folders(chimera: Chimera, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", "talk")
    ran = chimera("detect", log, "--cache", tmp_path / "cahce" / "of" / "vectors.db")
    assert ran.code == 2
    assert f"there is no folder {tmp_path / 'cahce' / 'of'}" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["detct", "logs"], "unknown command 'detct' (did you mean 'detect'?)"),
        (["models", "pul"], "unknown command 'pul' (did you mean 'pull'?)"),
        (["rubric", "shwo"], "unknown command 'shwo' (did you mean 'show'?)"),
    ],
)
def test_mistyped_command_gets_a_suggestion(chimera: Chimera, asked: list[str], said: str) -> None:
    ran = chimera(*asked)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
@pytest.mark.parametrize("options", [["--no-vectors"], []])
def test_the_first_verdict_is_printed_before_the_last_log_can_be_read(
    tmp_path: Path, options: list[str]
) -> None:
    first, last = write_log(tmp_path / "first.jsonl", "first"), tmp_path / "last.jsonl"
    os.mkfifo(last)
    arguments = [*COMMAND, "detect", "--json", *options, str(first), str(last)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        assert running.stdout is not None
        # The second log is a pipe without a writer, so that reading it blocks.
        assert json.loads(running.stdout.readline())["id"] == "first"
        write_log(last, "last")
        assert json.loads(running.stdout.readline())["id"] == "last"
    assert running.returncode == 0


def test_rate_and_detect_use_the_same_conversation_names(chimera: Chimera, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", "talk")
    (rated,) = chimera("rate", "--json", log, "--out", tmp_path / "labels.jsonl").rows
    (judged,) = chimera("detect", "--json", "--no-vectors", log).rows
    (written,) = (tmp_path / "labels.jsonl").read_text().splitlines()
    assert rated["id"] == judged["id"] == json.loads(written)["id"] == "talk"
    assert "item" not in rated.keys() | judged.keys() | json.loads(written).keys()


def test_what_rate_prints_can_be_audited(chimera: Chimera, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", "a", "b")
    printed = chimera("rate", "--json", log).out
    again = printed.replace('"rater": "rules"', '"rater": "ann"')
    (tmp_path / "labels.jsonl").write_text(printed + again, encoding="utf-8")
    audited = chimera("audit", tmp_path / "labels.jsonl", "--json")
    assert audited.json["raters"] == ["rules", "ann"]


@pytest.fixture
def completed(tmp_path: Path) -> Callable[[str], list[str]]:
    """What bash offers for a line, once our completion is set up as the docs say."""
    if shutil.which("bash") is None:
        pytest.skip("no bash on this system")
    program = "import sys; sys.argv[0] = 'chimera'; from chimeralab.cli.main import main; main()"
    script = tmp_path / "bin" / "chimera"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{program}" "$@"\n')
    script.chmod(0o755)

    def complete(line: str) -> list[str]:
        words = line.split(" ")
        asked = f"""
            eval "$(_CHIMERA_COMPLETE=bash_source chimera)"
            COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}
            _chimera_completion chimera "{words[-1]}" "{words[-2]}"
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        path = f"{script.parent}{os.pathsep}{os.environ['PATH']}"
        ran = subprocess.run(
            ["bash", "-c", asked],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
        )
        assert ran.stderr == ""
        return ran.stdout.split()

    return complete


def test_shells_complete_commands_options_and_values(
    completed: Callable[[str], list[str]],
) -> None:
    assert completed("chimera det") == ["detect"]
    assert completed("chimera detect --max-s") == ["--max-share"]
    assert completed("chimera detect --detector l") == ["locked", "loops"]
