"""The command line: help, encodings and system errors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from chimeralab.cli import main as main_module
from chimeralab.cli.main import COMMANDS, SECTIONS, cli


@pytest.mark.parametrize("name", COMMANDS)
def test_every_listed_command_exists_and_has_help(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.help
    assert command.name == name


@pytest.mark.weights
def test_output_survives_a_terminal_without_unicode(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"id": "\u00fcber", "turns": ["a \u2013 b", "c", "d", "e", "f", "g"]}', "utf-8")
    code = "from chimeralab.cli.main import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", code, "detect", "--all", str(log)],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0
    assert b"?ber" in ran.stdout
    assert b"Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(30, "Read-only file system", "out"), "out: Read-only file system"),
        (OSError(5, "Input/output error"), "system error: Input/output error"),
        (MemoryError(), "out of memory"),
    ],
)
def test_system_errors_are_one_line(
    error: Exception, message: str, chimera, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(main_module.cli, "main", fail)
    ran = chimera("detect")
    assert ran.code == 2
    assert ran.err == f"chimera: {message}\n"


def test_error_that_quotes_a_file_cannot_steer_the_terminal(chimera, tmp_path: Path) -> None:
    hostile = "\x1b]0;owned\x07\u202e" + "a" * 5_000
    table = tmp_path / "labels.csv"
    table.write_text(f"item,rater,label\nt1,ann,{hostile}\n", encoding="utf-8")
    plan = tmp_path / "plan.toml"
    plan.write_text(f"[{json.dumps(hostile)}]\n", encoding="utf-8")
    for command in (("audit", table), ("check", tmp_path)):
        ran = chimera(*command)
        assert ran.code == 2
        assert not set(ran.err) & {"\x1b", "\x07", "\u202e"}
        assert len(ran.err) < 1_100


def test_help_lists_every_command_once_under_a_section(chimera) -> None:
    ran = chimera("--help")
    lines = ran.out.splitlines()
    for title, section in SECTIONS.items():
        at = lines.index(f"{title}:") + 1
        assert [line.split()[0] for line in lines[at : at + len(section)]] == list(section)
    assert sum(map(len, SECTIONS.values())) == len(COMMANDS)
