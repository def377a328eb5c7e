"""Servers for browser tests: `chimera view` in a separate process."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from chimeralab.rating.invitations import RatingService
from chimeralab.study import Study


class Server(NamedTuple):
    """A running `chimera view`."""

    url: str

    @property
    def origin(self) -> str:
        return self.url.partition("/?")[0]


@contextmanager
def serving(*paths: Path | str) -> Iterator[Server]:
    process = subprocess.Popen(
        [sys.executable, "-m", "chimeralab", "view", *paths, "--no-open", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", url)
        yield Server(url)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()


class Host:
    """A server on a fixed port that can be killed and restarted."""

    def __init__(self, study: Path, port: int) -> None:
        self.study = study
        self.port = port
        self.origin = f"http://127.0.0.1:{port}"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "chimeralab", "view", str(self.study), "--no-open"]
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith(self.origin)

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.communicate()
            self.process = None

    def invite(self, name: str) -> str:
        """Create the link of a rater."""
        with RatingService(Study(self.study)) as service:
            return f"{self.origin}/rate?token={service.invite(name)}"


@contextmanager
def hosted(study: Path) -> Iterator[Host]:
    with socket.socket() as place:
        # Keep the port bound here, so that no other program gets it while the server is down.
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind(("127.0.0.1", 0))
        host = Host(study, place.getsockname()[1])
        host.start()
        try:
            yield host
        finally:
            host.kill(signal.SIGINT)
