"""Starting and pausing the runs of a study, each as a child process of the server."""

import contextlib
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO

from chimeralab.core.errors import InputError

SECONDS_TO_STOP = 20
LONGEST_TALE = 2_000


class RunChild:
    """`chimera run` on one study, at most one at a time; what it says is kept for the page.

    It is the ordinary command: a run that is started here can be paused here and gone on with in a
    terminal, and the other way round.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._lock = threading.Lock()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def failure(self) -> str | None:
        """What the last run said when it could not do its work."""
        if self._process is None or self._process.poll() in (None, 0, 1) or self._said is None:
            return None
        self._said.seek(0)
        said = self._said.read().decode("utf-8", "replace").strip().splitlines()
        return (said or ["the run has failed and said nothing"])[-1][:LONGEST_TALE]

    def start(self) -> None:
        """Run what is missing."""
        with self._lock:
            if self.is_running:
                raise InputError("it is being run already")
            if self._said:
                self._said.close()
            self._said = tempfile.TemporaryFile()  # noqa: SIM115 - it is read when the run is over
            self._process = subprocess.Popen(
                [sys.executable, "-m", "chimeralab", "run", str(self._path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
                # Ctrl-C in the server's terminal is for the server, which then pauses the run.
                start_new_session=True,
            )

    def pause(self) -> None:
        """Let the requests in flight be answered, and stop."""
        if not self.is_running or self._process is None:
            raise InputError(
                "it was not started from this page; stop it where it was started, with Ctrl-C"
            )
        self._process.send_signal(signal.SIGINT)

    def wait(self, seconds: float | None = None) -> None:
        """Wait until the run has ended, or until so much time has passed."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)

    def close(self) -> None:
        """Pause the run and wait for it, as the server stops."""
        if self.is_running and self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self.wait(SECONDS_TO_STOP)
        if self._said:
            self._said.close()
