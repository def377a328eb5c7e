"""`chimera logs` and what `detect` judges of them: --recent, --since and --state."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chimeralab.cli.logs import Machine, find_sessions
from chimeralab.core.schema import SCHEMA, json_text
from tests.conftest import Ran
from tests.unit.readers.logs_of import LOGS

Chimera = Callable[..., Ran]
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
CODEX = ".codex/sessions/2026/03/09/rollout-2026-03-09T08-00-00-a.jsonl"
CLAUDE = ".claude/projects/-home-ann-shop/s-2.jsonl"
GEMINI = ".gemini/tmp/shop/chats/session-2026-03-08T10-00-1a.json"
# Runs the command, and ends it in the middle of the state file.
KILL = """
import os, pathlib, signal
from chimeralab.cli.main import main
write = pathlib.Path.write_text
def end(path, text, **options):
    write(path, text[:9], **options)
    os.kill(os.getpid(), signal.SIGKILL)
pathlib.Path.write_text = end
main()
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    move(monkeypatch, tmp_path)
    return tmp_path


def move(patch: pytest.MonkeyPatch, home: Path, **changes: object) -> None:
    """Make the command run on another machine."""
    machine = Machine(home, home, {}, "linux", NOW)._replace(**changes)  # type: ignore[arg-type]
    patch.setattr("chimeralab.cli.logs.this_machine", lambda: machine)


def put(home: Path, name: str, content: bytes, *, days: float) -> Path:
    """Write a file that was changed some days ago."""
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    age(path, days)
    return path


def age(path: Path, days: float) -> None:
    changed = (NOW - timedelta(days=days)).timestamp()
    os.utime(path, (changed, changed))


def ids(ran: Ran) -> list[str]:
    return [row["id"] for row in ran.rows if "id" in row]


def test_sessions_are_listed_newest_first(chimera: Chimera, home: Path) -> None:
    put(home, CODEX, LOGS["codex older"].looping, days=1)
    put(home, CLAUDE, b'{"type": "summary"}\n{"cwd": "/home/ann/shop"}\n', days=2)
    put(home, GEMINI, b"{}", days=0.5)
    put(home, ".gemini/tmp/shop/.project_root", b"/home/ann/store\n", days=3)
    listed = chimera("logs", "--json").json["sessions"]
    assert [session["tool"] for session in listed] == ["gemini-cli", "codex", "claude-code"]
    assert listed[0]["project"] == "/home/ann/store"
    assert listed[2] == {
        "tool": "claude-code",
        "project": "/home/ann/shop",
        "changed": "2026-03-08T12:00:00+00:00",
        "bytes": (home / CLAUDE).stat().st_size,
        "file": str(home / CLAUDE),
    }
    table = chimera("logs").out.splitlines()
    assert table[0].split() == ["changed", "tool", "size", "project", "file"]
    row = ["2026-03-08", "12:00", "claude-code", "1", "kB", "/home/ann/shop"]
    assert table[3].split()[:6] == row


@pytest.mark.parametrize(
    ("system", "environ", "place"),
    [
        ("linux", {}, (".config/Code/User/{}", "cline")),
        ("linux", {"XDG_CONFIG_HOME": "{home}/set"}, ("set/VSCodium/User/{}", "cline")),
        ("linux", {}, (".vscode-server/data/User/{}", "cline")),
        ("darwin", {}, ("Library/Application Support/Cursor/User/{}", "cline")),
        ("win32", {}, ("AppData/Roaming/Code/User/{}", "cline")),
        ("win32", {"APPDATA": "{home}/data"}, ("data/Code - Insiders/User/{}", "cline")),
        ("linux", {"CODEX_HOME": "{home}/x"}, ("x/archived_sessions/rollout-1.jsonl.zst", "codex")),
        ("linux", {"CLAUDE_CONFIG_DIR": "{home}/c"}, ("c/projects/p/s.jsonl", "claude-code")),
        ("linux", {}, (".claude/projects/p/s/subagents/agent-1.jsonl", "claude-code")),
        ("linux", {"GEMINI_CLI_HOME": "{home}/g"}, ("g/" + GEMINI, "gemini-cli")),
        ("win32", {}, (".local/share/opencode/opencode.db", "opencode")),
        ("linux", {"XDG_DATA_HOME": "{home}/d"}, ("d/opencode/opencode.db", "opencode")),
        ("linux", {}, (".copilot/session-state/1/events.jsonl", "copilot")),
        ("linux", {}, (".config/Code/User/workspaceStorage/1/chatSessions/2.json", "copilot")),
        ("linux", {}, (".cline/data/tasks/1/api_conversation_history.json", "cline")),
    ],
)
def test_tools_are_found_where_each_system_keeps_them(
    tmp_path: Path, system: str, environ: Mapping[str, str], place: tuple[str, str]
) -> None:
    name, tool = place
    variables = {key: value.format(home=tmp_path) for key, value in environ.items()}
    task = "globalStorage/saoudrizwan.claude-dev/tasks/1/api_conversation_history.json"
    path = put(tmp_path, name.format(task), b"[]", days=1)
    (session,) = find_sessions(Machine(tmp_path, tmp_path, variables, system, NOW))
    assert (session.tool, session.path) == (tool, path)


def test_history_of_aider_is_found_at_the_root_of_the_repository(
    chimera: Chimera, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(home, "shop/.git/HEAD", b"", days=1)
    put(home, "shop/.aider.chat.history.md", b"", days=1)
    put(home, "other/.aider.chat.history.md", b"", days=1)
    (home / "shop/src").mkdir()
    move(monkeypatch, home, folder=home / "shop/src")
    (session,) = chimera("logs", "--json").json["sessions"]
    assert (session["tool"], session["project"]) == ("aider", str(home / "shop"))


def test_project_is_read_from_what_the_tool_keeps_next_to_the_session(
    chimera: Chimera, home: Path
) -> None:
    user = ".config/Code/User"
    put(home, f"{user}/workspaceStorage/1/chatSessions/2.json", b"{}", days=1)
    workspace = b'{"folder": "file:///home/ann/my%20shop"}'
    put(home, f"{user}/workspaceStorage/1/workspace.json", workspace, days=1)
    put(home, ".copilot/session-state/1/events.jsonl", b"{}", days=2)
    put(home, ".copilot/session-state/1/workspace.yaml", b"id: 1\ncwd: /home/ann/api\n", days=2)
    task = f"{user}/globalStorage/rooveterinaryinc.roo-cline/tasks/1/api_conversation_history.json"
    put(home, task, b'"# Current Workspace Directory (/home/ann/web) Files"', days=3)
    put(home, ".claude/projects/-home-ann/s.jsonl", b"\x00broken", days=4)
    listed = chimera("logs", "--json").json["sessions"]
    projects = ["/home/ann/my shop", "/home/ann/api", "/home/ann/web", "-home-ann"]
    assert [session["project"] for session in listed] == projects


def test_sessions_can_be_limited_to_a_tool_and_a_time(chimera: Chimera, home: Path) -> None:
    put(home, CODEX, b"", days=1)
    put(home, CLAUDE, b"", days=2)
    assert [s["tool"] for s in chimera("logs", "--tool", "codex", "--json").json["sessions"]] == [
        "codex"
    ]
    for since in ("36h", "2026-03-09", "2026-03-09T10:00+02:00"):
        (session,) = chimera("logs", "--since", since, "--json").json["sessions"]
        assert session["tool"] == "codex"
    assert "no sessions of cline since 2026-03-09 12:00" in (
        chimera("logs", "--tool", "cline", "--since", "1d").out
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--recent", "soon"], "--recent 'soon' is neither a date"),
        (["--recent", "7"], "nor a time back (30m, 12h, 7d, 2w)"),
        (["--recent", "-3d"], "'-3d' is neither"),
        (["--recent", "9999999w"], "'9999999w' is neither"),
        (["--recent", "2027-01-01"], "--recent 2027-01-01 is in the future"),
        (["--recent", ""], "--recent '' is neither a date"),
        (["logs", "--since", ""], "--since '' is neither a date"),
        (["--recent", "7d", "--since", "1d"], "--recent can't be combined with PATH or --since"),
        (["--recent", "7d", "logs"], "--recent can't be combined with PATH or --since"),
        (["-", "--since", "1d"], "standard input has no time of change"),
        (["--recent", "7d", "--state", "no/such/state.json"], "no/such does not exist or"),
        (["--recent", "7d", "--engine", "ray", "--out", "x"], "can't be combined with --engine"),
        ([], "Missing argument 'PATH...', or --recent 7d"),
    ],
)
def test_bad_values_are_errors_of_one_sentence(
    chimera: Chimera, home: Path, options: list[str], sentence: str
) -> None:
    ran = chimera("detect", "--no-vectors", *options)
    assert ran.code == 2
    assert sentence in ran.err
    assert ran.out == ""


def test_recent_sessions_are_judged(chimera: Chimera, home: Path) -> None:
    put(home, CODEX, LOGS["codex older"].looping, days=1)
    put(home, CLAUDE, LOGS["claude-code"].healthy, days=8)
    note = b'{"type": "summary", "summary": "x", "leafUuid": "y"}\n'
    put(home, ".claude/projects/p/s-3.jsonl", note, days=1)
    ran = chimera("detect", "--recent", "7d", "--no-vectors", "--json")
    assert ran.code == 0
    assert ids(ran) == ["s-1"]
    last = ran.rows[-1]
    assert [row["group"] for row in last["not_read"]] == ["claude-code (no messages)"]
    assert last["unchanged"] == 1


def test_nothing_recent_is_not_a_failure_unless_asked(chimera: Chimera, home: Path) -> None:
    put(home, CODEX, LOGS["codex older"].looping, days=9)
    asked = ["detect", "--recent", "7d", "--no-vectors", "--fail-on"]
    ran = chimera(*asked, "loop")
    assert ran.code == 0
    assert "nothing new to judge: 1 log unchanged or too old" in ran.err
    assert chimera(*asked, "nothing-judged").code == 1


def test_machine_without_sessions_is_told_where_they_are_searched(
    chimera: Chimera, home: Path
) -> None:
    ran = chimera("detect", "--recent", "7d", "--no-vectors")
    assert ran.code == 0
    assert "no sessions found (`chimera logs --help` says where they are searched)" in ran.err


def test_files_of_recent_sessions_are_named(chimera: Chimera, home: Path) -> None:
    put(home, CLAUDE, LOGS["claude-code"].healthy, days=1)
    assert "s-2.jsonl" in chimera("detect", "--recent", "7d", "--no-vectors", "--all").out


def test_only_logs_changed_since_then_are_judged(chimera: Chimera, home: Path) -> None:
    for name, days in {"new": 1, "old": 9}.items():
        log = json.dumps({"id": name, "turns": ["Yes."] * 5}).encode()
        put(home, f"logs/{name}.jsonl", log, days=days)
    asked = ["detect", home / "logs", "--no-vectors", "--json", "--since"]
    assert ids(chimera(*asked, "2d")) == ["new"]
    assert sorted(ids(chimera(*asked, "2w"))) == ["new", "old"]


def test_state_file_leaves_only_new_and_changed_logs(chimera: Chimera, home: Path) -> None:
    state = home / "seen.json"

    def judge(*more: str) -> Ran:
        asked = ["detect", home / "logs", "--no-vectors", "--json", "--state", state, *more]
        return chimera(*asked)

    looping = json.dumps({"id": "loops", "turns": ["Yes, once more."] * 9}).encode() + b"\n"
    log = put(home, "logs/a.jsonl", looping, days=3)
    put(home, "logs/notes.md", b"Just words.\n", days=3)
    first = judge("--fail-on", "loop")
    assert first.code == 1  # and the state is saved
    assert ids(first) == ["loops"]
    assert len(first.rows[-1]["not_read"]) == 1
    second = judge("--fail-on", "loop")
    assert second.code == 0
    assert second.rows == [{"schema": SCHEMA, "not_read": [], "partly_read": [], "unchanged": 1}]
    put(home, "logs/b.jsonl", b'{"id": "b", "turns": ["Hi."]}', days=2)
    assert ids(judge()) == ["b"]
    log.write_bytes(looping * 2)
    age(log, 1)
    assert ids(judge()) == ["loops", "loops"]
    log.unlink()
    put(home, "logs/b.jsonl", b'{"id": "b", "turns": ["Ho."]}', days=1)
    judge()
    known = json.loads(state.read_text())["logs"]
    assert sorted(Path(name).name for name in known) == ["b.jsonl", "notes.md"]


def test_new_log_that_is_broken_fails_the_run_once(chimera: Chimera, home: Path) -> None:
    put(home, "logs/a.jsonl", b'{"id": "a", "turns": ["Hi."]}', days=3)
    found = home / "found.jsonl"
    asked = ["detect", home / "logs", "--no-vectors", "--state", home / "seen.json"]
    asked += ["--out", found]
    assert chimera(*asked).code == 0
    assert found.read_text().count("\n") == 1
    put(home, "logs/b.jsonl", b'{"messages": [', days=2)
    broken = chimera(*asked)
    assert broken.code == 2
    assert "nothing new to judge: 1 log unchanged or too old, 1 file not read" in broken.err
    assert "1 file not read: 1 damaged" in broken.err
    assert "1 bad entry skipped; use --skip-bad to allow that" in broken.err
    assert found.read_text() == ""  # no verdicts of an earlier night
    assert chimera(*asked).code == 0


def test_state_survives_a_kill_while_it_is_written(chimera: Chimera, home: Path) -> None:
    put(home, "logs/a.jsonl", b'{"id": "a", "turns": ["Hi."]}', days=3)
    state = home / "seen.json"
    asked = ["detect", str(home / "logs"), "--no-vectors", "--json", "--state", str(state)]
    chimera(*asked)
    before = state.read_bytes()
    put(home, "logs/b.jsonl", b'{"id": "b", "turns": ["Ho."]}', days=2)
    killed = subprocess.run([sys.executable, "-c", KILL, *asked], check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    assert state.read_bytes() == before
    assert list(home.glob(".seen.json.*.part"))
    assert ids(chimera(*asked)) == ["b"]
    assert not list(home.glob(".seen.json.*.part"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff\xfe\0",
        json_text({}).encode(),
        json_text({"logs": {"a": 1}}).encode(),
        b"[" * 9**5,
    ],
)
def test_file_that_is_not_a_state_is_left_alone(
    chimera: Chimera, home: Path, content: bytes
) -> None:
    state = put(home, "seen.json", content, days=1)
    put(home, CODEX, LOGS["codex older"].looping, days=1)
    ran = chimera("detect", "--recent", "7d", "--no-vectors", "--state", state)
    assert ran.code == 2
    assert "is not a state file of `chimera detect --state`; name another, or delete it" in ran.err
    assert state.read_bytes() == content
