"""`chimera detect --notify` and `--github`: what is sent, and that a failure breaks nothing."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

AGAIN = ["Let me check <!channel> that | again."] * 6
WELL = ["The ferry sails at noon.", "Whales sleep upright.", "Our baker retired.", "Rust is red."]
Chimera = Callable[..., Any]


class Hook(HTTPServer):
    """A webhook that keeps what it gets."""

    status = 200

    def __init__(self) -> None:
        self.received: list[tuple[str, Any]] = []
        super().__init__(("127.0.0.1", 0), Receive)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/services/s3cret"


class Receive(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.headers["Content-Type"], json.loads(body)))
        self.send_response(self.server.status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def write_log(path: Path, *talks: list[str]) -> Path:
    rows = (json.dumps({"id": f"talk-{n}", "turns": turns}) for n, turns in enumerate(talks, 1))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_one_message_says_what_loops(chimera: Chimera, hook: Hook, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", AGAIN, WELL)
    ran = chimera("detect", log, "--no-vectors", "--notify", hook.url)
    assert ran.code == 0
    assert "notified 127.0.0.1" in ran.err
    [(kind, message)] = hook.received
    assert (kind, list(message)) == ("application/json", ["text"])
    first, second = message["text"].split("\n")
    assert first.startswith("1 of 2 conversations loops")
    assert second.startswith("• talk-1: message 4 repeats messages 2 and 3")
    assert "&lt;!channel&gt;" in second


def test_only_a_few_of_many_are_listed(chimera: Chimera, hook: Hook, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", *[AGAIN] * 8)
    chimera("detect", log, "--no-vectors", "--notify", hook.url)
    lines = hook.received[0][1]["text"].split("\n")
    assert (len(lines), lines[-1]) == (7, "… and 3 conversations more")


def test_nothing_is_sent_if_all_is_well(chimera: Chimera, hook: Hook, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", WELL)
    assert chimera("detect", log, "--no-vectors", "--notify", hook.url).code == 0
    assert hook.received == []


def test_a_failed_check_is_sent_without_a_loop(
    chimera: Chimera, hook: Hook, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "log.jsonl", ["Hi."])
    checks = ("--fail-on", "nothing-judged")
    assert chimera("detect", log, "--no-vectors", *checks, "--notify", hook.url).code == 1
    assert "nothing could be judged" in hook.received[0][1]["text"]


@pytest.mark.parametrize(("status", "reason"), [(500, "HTTP 500"), (302, "HTTP 302")])
def test_a_webhook_that_fails_is_said_and_breaks_nothing(
    chimera: Chimera, hook: Hook, tmp_path: Path, status: int, reason: str
) -> None:
    hook.status = status
    log = write_log(tmp_path / "log.jsonl", AGAIN)
    ran = chimera("detect", log, "--no-vectors", "--notify", hook.url)
    assert (ran.code, len(hook.received)) == (0, 1)
    assert f"not notified 127.0.0.1: {reason}" in ran.err
    assert "s3cret" not in ran.err


def test_a_webhook_that_is_not_there_breaks_nothing(
    chimera: Chimera, hook: Hook, tmp_path: Path
) -> None:
    hook.socket.close()
    log = write_log(tmp_path / "log.jsonl", AGAIN)
    ran = chimera("detect", log, "--no-vectors", "--fail-on", "loop", "--notify", hook.url)
    assert ran.code == 1
    assert "not notified 127.0.0.1: " in ran.err
    assert "s3cret" not in ran.err


def test_the_url_may_come_from_the_environment(
    chimera: Chimera, hook: Hook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHIMERA_NOTIFY", hook.url)
    chimera("detect", write_log(tmp_path / "log.jsonl", AGAIN), "--no-vectors")
    assert len(hook.received) == 1


@pytest.mark.parametrize("url", ["hooks.slack.com/x", "file:///etc/passwd", "https://", "x"])
def test_what_is_not_a_webhook_is_refused_before_reading(chimera: Chimera, url: str) -> None:
    ran = chimera("detect", "--demo", "--notify", url)
    assert (ran.code, ran.out) == (2, "")
    assert "--notify needs the http or https URL of a webhook" in ran.err


def test_github_gets_annotations_and_a_summary(
    chimera: Chimera, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "summary.md"
    page.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    log = write_log(tmp_path / "log,1.jsonl", WELL, AGAIN)
    ran = chimera("detect", log, "--no-vectors", "--fail-on", "loop", "--github")
    assert ran.code == 1
    [note] = [line for line in ran.err.splitlines() if line.startswith("::")]
    assert note.startswith("::error file=")
    assert "log%2C1.jsonl,line=2,title=talk-2%3A same text again::message 4 repeats" in note
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n### Loops\n\n1 of 2 conversations loops")
    assert "failed: " not in text
    assert "| talk-2 | 6 | same text again | 1–end |" in text


def test_github_shows_a_warning_where_nothing_fails(chimera: Chimera, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", AGAIN)
    ran = chimera("detect", log, "--no-vectors", "--github", "--json")
    assert ran.code == 0
    assert len(ran.rows) == 1
    assert any(line.startswith("::warning file=") for line in ran.err.splitlines())


def test_a_hostile_id_stays_one_line_and_one_cell(
    chimera: Chimera, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    name = "a|b\n::set-output name=x::y <script> [l](javascript:x)"
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"id": name, "turns": AGAIN}) + "\n", encoding="utf-8")
    ran = chimera("detect", log, "--no-vectors", "--github")
    assert [line for line in ran.err.splitlines() if line.startswith("::set")] == []
    [row] = [line for line in page.read_text(encoding="utf-8").splitlines() if "script" in line]
    assert row.count(" | ") == 3
    assert not set(row) & {"<", "[", "`"}
