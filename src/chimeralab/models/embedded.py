"""The built-in language model, SmolLM2-135M-Instruct, in a subprocess."""

import asyncio
import atexit
import itertools
import json
import secrets
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from chimeralab import weights
from chimeralab.core.errors import ChimeraError, WeightsError
from chimeralab.models.catalogue import EmbeddedSettings
from chimeralab.models.seam import ModelFailure, Reply, Request


class EmbeddedModel:
    """Answers any number of requests at once. The first one loads the weights."""

    def __init__(self, settings: EmbeddedSettings, gguf: Path) -> None:
        self._settings = settings
        self._gguf = gguf
        self._process: EngineProcess | None = None

    async def reply(self, request: Request) -> Reply:
        settings, seed = self._settings, request.seed
        if self._process is None or self._process.is_over:
            options = {
                "gguf": str(self._gguf),
                "cache_gb": settings.cache_gb,
                "deterministic": settings.deterministic,
            }
            self._process = EngineProcess(options)
        if seed is None:
            seed = 0 if settings.deterministic else secrets.randbits(63)
        messages = [message.as_dict() for message in request.messages]
        question = {"messages": messages, "seed": seed % 2**63, **request.sampling.as_dict()}
        question |= {"options": request.options} if request.options else {}
        answer = await asyncio.wrap_future(self._process.ask(question))
        if "failure" in answer:
            raise ModelFailure(answer["failure"], answer["message"])
        return Reply(cost=0.0, **{key: answer[key] for key in answer if key != "id"})

    async def identify(self) -> dict[str, str]:
        """The hash of the weights, and the commit of the hub that has just these."""
        sha256 = await asyncio.to_thread(weights.hash_gguf, self._gguf)
        told = {"GGUF sha256": sha256} if sha256 else {}
        spec = weights.find_model(self._settings.weights)
        is_pinned = sha256 in {file.sha256 for file in spec.files}
        return told | ({"commit of the hub": spec.revision} if is_pinned else {})

    async def close(self) -> None:
        if self._process is not None:
            await asyncio.to_thread(self._process.close)


class EngineProcess:
    """The client of one engine process.

    Once the engine has died, `is_over` is true and every request fails.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        # -P: a file in the working directory must not shadow a module.
        command = [sys.executable, "-P", "-m", "chimeralab.models.engine", json.dumps(options)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        self._pending: dict[int, Future[dict[str, Any]]] = {}
        self._ids = itertools.count()
        self._lock = Lock()
        self.is_over = False
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()
        atexit.register(self.close)

    def ask(self, question: dict[str, Any]) -> Future[dict[str, Any]]:
        """Send a question; thread-safe."""
        answer: Future[dict[str, Any]] = Future()
        with self._lock:
            if self.is_over:
                raise ModelFailure("server", "the embedded engine has been closed")
            number = next(self._ids)
            self._pending[number] = answer
            # A broken pipe means that the engine died; the listener fails all open requests.
            with suppress(OSError):
                print(json.dumps({"id": number, **question}), file=self._process.stdin, flush=True)
        return answer

    def close(self) -> None:
        """End the engine; open requests fail."""
        atexit.unregister(self.close)
        self._process.kill()
        self._listener.join()
        for pipe in filter(None, (self._process.stdin, self._process.stdout)):
            with suppress(OSError):  # unflushed data of a dead engine
                pipe.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        broken = None
        for line in self._process.stdout:
            answer = json.loads(line)
            broken = answer.get("broken")
            if broken is None:
                with self._lock:
                    future = self._pending.pop(answer["id"])
                if future.set_running_or_notify_cancel():
                    future.set_result(answer)
        code = self._process.wait()
        with self._lock:
            self.is_over = True
        failure: ChimeraError = ModelFailure("server", f"the engine ended (exit code {code})")
        if broken is not None:
            failure = WeightsError(broken)
        for future in self._pending.values():
            if future.set_running_or_notify_cancel():
                future.set_exception(failure)
