"""`chimera view`: the address first, clear refusals, and a warning where others can listen."""

import math
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from chimeralab.web.safety import POLICY
from chimeralab.web.serving import check_path

ROOT = Path(__file__).parents[2]
VIEW = [sys.executable, "-m", "chimeralab", "view"]


def refused(*arguments: str) -> str:
    command = [*VIEW, *arguments, "--no-open"]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    assert found.returncode == 2
    assert "Traceback" not in found.stderr
    assert not found.stdout
    return found.stderr


@pytest.mark.kill
def test_address_comes_first_and_leads_to_the_table() -> None:
    process = subprocess.Popen(
        [*VIEW, str(ROOT / "examples"), "--no-open", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", url)
    answer = httpx.get(url, timeout=None)
    assert answer.status_code == 200
    assert re.search(r"<h1>\s*(\d+|None) of \d+ conversations", answer.text) or re.search(
        r"<h1>\s*Conversations\s*</h1>",
        answer.text,  # nothing has been read yet
    )
    assert '<table class="conversations"' in answer.text or "has been read yet" in answer.text
    port = int(url.partition("/?")[0].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as plain:
        plain.sendall(b"\x00garbage\r\n\r\n")
        heard = plain.makefile().read()  # until the server hangs up
    assert heard.startswith("HTTP/1.1 400")
    assert POLICY in heard
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((socket.gethostbyname("127.0.0.2"), port))
    cookies = {f"chimera-{port}": url.partition("token=")[2]}
    origin = url.partition("/?")[0]
    with httpx.stream("GET", f"{origin}/logs/events", cookies=cookies, timeout=None) as stream:
        assert next(stream.iter_lines()).startswith("data: ")
        assert stream.headers["content-security-policy"] == POLICY
        process.send_signal(signal.SIGINT)
        assert process.wait() in (0, 130)
    assert process.stderr is not None
    said = process.stderr.read()
    assert said.endswith("chimera: stopped\n")
    assert "Traceback" not in said


def test_missing_path_is_named() -> None:
    assert "nowhere: no such file or folder" in refused("nowhere")


def test_folder_with_nothing_to_show_is_named(
    tmp_path: Path, stranger: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chimeralab.web.serving.SECONDS_TO_SEARCH", math.inf)
    (tmp_path / "settings.json").write_text('{"colour": "blue"}')
    ran = stranger("view", tmp_path, "--no-open")
    assert (ran.code, ran.out) == (2, "")
    assert f"{tmp_path}: this folder has no logs" in ran.err
    assert ran.err.rstrip().endswith("and no study (a folder with plan.toml)")


def test_slow_search_is_abandoned_and_the_server_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chimeralab.web.serving.SECONDS_TO_SEARCH", -1.0)
    (tmp_path / "settings.json").write_text('{"colour": "blue"}')
    check_path(tmp_path)


@pytest.mark.parametrize("study", ["", "inner/mine"])
def test_study_that_is_only_planned_is_something_to_show(tmp_path: Path, study: str) -> None:
    folder = tmp_path / study
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.toml").write_text("[study]\n")
    check_path(tmp_path)


def test_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert "it is in use" in refused("--port", str(port), str(ROOT / "examples"))


def test_key_without_a_certificate_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("x")
    assert "--tls-cert" in refused(str(ROOT / "examples"), "--tls-key", str(tmp_path / "key.pem"))


@pytest.mark.kill
def test_serving_beyond_this_machine_prints_a_warning() -> None:
    process = subprocess.Popen(
        [*VIEW, str(ROOT / "examples"), "--no-open", "--port", "0", "--host", "0.0.0.0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    warning = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert "without TLS" in warning
    assert "can read the pages" in warning


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for this machine that signs itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("the command openssl, which makes a certificate, is not installed")
    folder = tmp_path_factory.mktemp("tls")
    made, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(made)]
    subprocess.run(command, check=True, capture_output=True)
    return made, key


@pytest.mark.kill
def test_with_a_certificate_everything_is_encrypted(certificate: tuple[Path, Path]) -> None:
    made, key = certificate
    command = [*VIEW, str(ROOT / "examples" / "conversations.jsonl"), "--no-open", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--tls-cert", str(made), "--tls-key", str(key)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        assert re.fullmatch(r"https://127\.0\.0\.1:\d+/\?token=[\w-]{43}", url)
        origin = url.partition("/?")[0]
        trusted = ssl.create_default_context(cafile=str(made))
        answer = httpx.get(url, verify=trusted, timeout=None)
        assert answer.status_code == 200
        assert "; Secure" in answer.headers["set-cookie"]
        assert answer.headers["content-security-policy"] == POLICY
        # Whoever does not trust the certificate is warned, and plain text gets no page.
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(url, timeout=None)
        with pytest.raises(httpx.HTTPError):
            httpx.get(url.replace("https:", "http:"), timeout=None)
        # A write from the same address without encryption is from another page.
        cookies = {"cookie": answer.headers["set-cookie"].partition(";")[0]}
        for source in (origin.replace("https:", "http:"), "https://evil.example"):
            headers = {**cookies, "origin": source}
            refused = httpx.post(f"{origin}/logs", headers=headers, verify=trusted, timeout=None)
            assert refused.status_code == 403
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()


def test_invalid_certificate_is_rejected_before_an_address_is_printed(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "none.pem").write_text("no certificate", encoding="utf-8")
    talks = str(ROOT / "examples" / "conversations.jsonl")
    assert "none.pem" in refused(talks, "--tls-cert", str(tmp_path / "none.pem"))
    made, _ = certificate
    assert "--tls-key" in refused(talks, "--tls-cert", str(made))
