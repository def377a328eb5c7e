"""The process that runs the embedded model: questions come in by line, all are worked on at once.

It is a process of its own because a step of the pipeline holds Python's lock for its whole length,
which would stall every other conversation, the store and the display between two tokens.
"""

import json
import os
import signal
import sys
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TextIO

import openvino_genai as genai  # type: ignore[import-untyped, unused-ignore]

from chimeralab.core.errors import WeightsError
from chimeralab.models.gguf import read_gguf
from chimeralab.models.prompt_tokens import PromptTokens


class EngineOptions(NamedTuple):
    """How the engine is started: which file, how much memory, and whether every run is the same."""

    gguf: str
    cache_gb: int
    deterministic: bool


class _Live(NamedTuple):
    id: int
    handle: Any
    prompt_tokens: int


class Engine:
    """The pipeline and the questions it is working on."""

    def __init__(self, options: EngineOptions) -> None:
        path = Path(options.gguf)
        about = read_gguf(path)
        self._pipeline = genai.ContinuousBatchingPipeline(path, _scheduler(options), "CPU", {})
        self._tokenizer = self._pipeline.get_tokenizer()
        self._prompt_tokens = PromptTokens(self._tokenizer, about.control_tokens)
        self._context_tokens = about.context_tokens
        self._live: list[_Live] = []
        # Neighbours in a batch change the last bits of each other's numbers, and so the text.
        self._at_once = 1 if options.deterministic else sys.maxsize
        self._model = f"{path.name}, openvino-genai {genai.__version__}"

    def has_room(self) -> bool:
        return len(self._live) < self._at_once

    def is_busy(self) -> bool:
        return bool(self._live)

    def take(self, ask: dict[str, Any]) -> dict[str, Any] | None:
        """Start on a question; an answer comes back at once only if it can't be started."""
        tokens = self._prompt_tokens.encode(ask["messages"])
        wanted = tokens.size + ask["max_tokens"]
        if wanted > self._context_tokens:
            # The tokenizer itself stops counting at the length of the context.
            message = (
                f"the history ({tokens.size} tokens or more) and a reply of {ask['max_tokens']} "
                f"do not fit into the {self._context_tokens} tokens of the embedded model"
            )
            return {"id": ask["id"], "failure": "overflow", "message": message}
        handle = self._pipeline.add_request(ask["id"], tokens, self._generation(ask))
        self._live.append(_Live(ask["id"], handle, tokens.size))
        return None

    def step(self) -> list[dict[str, Any]]:
        """Work on everything for one token; the answers that this has finished."""
        self._pipeline.step()
        running = genai.GenerationStatus.RUNNING
        done = [live for live in self._live if live.handle.get_status() != running]
        self._live = [live for live in self._live if live not in done]
        return [self._answer(live) for live in done]

    def _generation(self, ask: dict[str, Any]) -> Any:
        config = self._pipeline.get_config()
        config.max_new_tokens = ask["max_tokens"]
        config.do_sample = ask["temperature"] > 0
        if config.do_sample:
            config.temperature, config.top_p = ask["temperature"], ask["top_p"]
            config.rng_seed = ask["seed"]
        return config

    def _answer(self, live: _Live) -> dict[str, Any]:
        if live.handle.get_status() != genai.GenerationStatus.FINISHED:
            message = "the history does not fit into the cache; raise cache_gb"
            return {"id": live.id, "failure": "overflow", "message": message}
        (output,) = live.handle.read_all()
        stopped = output.finish_reason == genai.GenerationFinishReason.STOP
        return {
            "id": live.id,
            "text": self._tokenizer.decode(output.generated_ids),
            "finish": "stop" if stopped else "length",
            "prompt_tokens": live.prompt_tokens,
            "completion_tokens": len(output.generated_ids),
            "reported_model": self._model,
        }


def _scheduler(options: EngineOptions) -> genai.SchedulerConfig:
    config = genai.SchedulerConfig()
    config.cache_size = options.cache_gb
    # Cached and fresh attention differ in the last bits, so a cache makes the text depend on
    # what was asked before.
    config.enable_prefix_caching = not options.deterministic
    return config


def serve(engine: Engine, lines: Iterable[str], out: TextIO) -> None:
    """Answer questions until the input ends."""
    inbox: SimpleQueue[str | None] = SimpleQueue()
    Thread(target=_read, args=(lines, inbox), daemon=True).start()
    waiting: deque[dict[str, Any]] = deque()
    while True:
        while not inbox.empty() or not (waiting or engine.is_busy()):
            line = inbox.get()
            if line is None:
                return
            waiting.append(json.loads(line))
        answers = _start(engine, waiting)
        if engine.is_busy():
            answers += engine.step()
        for answer in answers:
            print(json.dumps(answer), file=out, flush=True)


def _read(lines: Iterable[str], inbox: SimpleQueue[str | None]) -> None:
    for line in lines:
        inbox.put(line)
    inbox.put(None)


def _start(engine: Engine, waiting: deque[dict[str, Any]]) -> list[dict[str, Any]]:
    refused = []
    while waiting and engine.has_room():
        ask = waiting.popleft()
        try:
            answer = engine.take(ask)
        except Exception as error:  # one odd question must not end all the others
            answer = {"id": ask["id"], "failure": "server", "message": str(error)}
        if answer is not None:
            refused.append(answer)
    return refused


def main() -> None:
    """Started by the embedded model; ends when the starting process closes the pipe or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which then ends us
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the library prints must not end up between the answers
    options = EngineOptions(**json.loads(sys.argv[1]))
    try:
        engine = Engine(options)
    except (WeightsError, RuntimeError) as error:
        print(json.dumps({"broken": f"{options.gguf} can't be loaded: {error}"}), file=answers)
    else:
        serve(engine, sys.stdin, answers)


if __name__ == "__main__":
    main()
