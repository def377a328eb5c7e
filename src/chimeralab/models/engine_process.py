"""The near end of the engine: hands questions over, and gives each answer to whoever asked."""

import atexit
import itertools
import json
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock, Thread
from typing import Any

from chimeralab.core.errors import ChimeraError, WeightsError
from chimeralab.models.seam import ModelFailure

Answer = dict[str, Any]


class EngineProcess:
    """One running engine. When it has died, `is_over` is true and every question fails."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        # -P: a file in the working directory must not stand in for a module of the engine
        command = [sys.executable, "-P", "-m", "chimeralab.models.engine", json.dumps(options)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        self._asked: dict[int, Future[Answer]] = {}
        self._ids = itertools.count()
        self._lock = Lock()
        self.is_over = False
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()
        atexit.register(self.close)

    def ask(self, question: dict[str, Any]) -> Future[Answer]:
        """The answer, once it is there. May be called from any thread."""
        answer: Future[Answer] = Future()
        with self._lock:
            if self.is_over:
                raise ModelFailure("server", "the embedded engine has been closed")
            number = next(self._ids)
            self._asked[number] = answer
            # A broken pipe means that it has died; the listener tells everyone who has asked.
            with suppress(OSError):
                print(json.dumps({"id": number, **question}), file=self._process.stdin, flush=True)
        return answer

    def close(self) -> None:
        """End the engine; questions still open fail."""
        atexit.unregister(self.close)
        self._process.kill()
        self._listener.join()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        broken = None
        for line in self._process.stdout:
            answer = json.loads(line)
            broken = answer.get("broken")
            if broken is None:
                self._resolve(answer)
        self._give_up(broken)

    def _resolve(self, answer: Answer) -> None:
        with self._lock:
            future = self._asked.pop(answer["id"])
        if future.set_running_or_notify_cancel():
            future.set_result(answer)

    def _give_up(self, broken: str | None) -> None:
        code = self._process.wait()
        with self._lock:
            self.is_over = True
        failure: ChimeraError = ModelFailure("server", f"the engine ended (exit code {code})")
        if broken is not None:
            failure = WeightsError(broken)
        for future in self._asked.values():
            if future.set_running_or_notify_cancel():
                future.set_exception(failure)
