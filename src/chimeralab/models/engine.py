"""The process of the embedded model: a JSON line per question in, one per answer out.

It is a process of its own because each step of the pipeline holds the GIL, which would stall the
other conversations, the store and the display.
"""

import json
import os
import re
import signal
import struct
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, BinaryIO, TextIO

import numpy as np
import openvino as ov
import openvino_genai as genai  # type: ignore[import-untyped, unused-ignore]

from chimeralab.core.errors import WeightsError


class Engine:
    """The pipeline and the questions in progress."""

    def __init__(self, gguf: str, cache_gb: int, deterministic: bool) -> None:
        path = Path(gguf)
        self._context_tokens, control_tokens = read_gguf(path)
        config = genai.SchedulerConfig()
        config.cache_size = cache_gb
        # Cached and fresh attention differ in the last bits, so with a cache the text depends on
        # earlier questions.
        config.enable_prefix_caching = not deterministic
        self._pipeline = genai.ContinuousBatchingPipeline(path, config, "CPU", {})
        self._tokenizer = self._pipeline.get_tokenizer()
        self._prompt_tokens = PromptTokens(self._tokenizer, control_tokens)
        self._live: dict[int, tuple[Any, int]] = {}  # handle and tokens of the prompt, by id
        # Batching changes the last bits of the numbers, and so the text.
        self._max_batch = 1 if deterministic else sys.maxsize
        self._model = f"{path.name}, openvino-genai {genai.__version__}"

    def has_capacity(self) -> bool:
        return len(self._live) < self._max_batch

    def is_busy(self) -> bool:
        return bool(self._live)

    def start(self, ask: dict[str, Any]) -> dict[str, Any] | None:
        """Start a question; returns an answer only if it can't be started."""
        tokens = self._prompt_tokens.encode(ask["messages"])
        wanted = tokens.size + ask["max_tokens"]
        if wanted > self._context_tokens:
            # The tokenizer stops counting at the length of the context, hence "or more".
            message = (
                f"the history ({tokens.size} tokens or more) and a reply of {ask['max_tokens']} "
                f"exceed the embedded model's context of {self._context_tokens} tokens"
            )
            return {"id": ask["id"], "failure": "overflow", "message": message}
        config = self._pipeline.get_config()
        config.max_new_tokens = ask["max_tokens"]
        config.do_sample = ask["temperature"] > 0
        if config.do_sample:
            config.temperature, config.top_p = ask["temperature"], ask["top_p"]
            config.rng_seed = ask["seed"]
        if options := ask.get("options"):
            config.structured_output_config = genai.StructuredOutputConfig(regex=one_of(options))
        handle = self._pipeline.add_request(ask["id"], tokens, config)
        self._live[ask["id"]] = handle, tokens.size
        return None

    def step(self) -> list[dict[str, Any]]:
        """Generate one token of every question; returns the finished answers."""
        self._pipeline.step()
        running = genai.GenerationStatus.RUNNING
        done = [n for n, (handle, _) in self._live.items() if handle.get_status() != running]
        return [self._answer(number, *self._live.pop(number)) for number in done]

    def _answer(self, number: int, handle: Any, prompt_tokens: int) -> dict[str, Any]:
        if handle.get_status() != genai.GenerationStatus.FINISHED:
            message = "the history exceeds the cache; raise cache_gb"
            return {"id": number, "failure": "overflow", "message": message}
        (output,) = handle.read_all()
        stopped = output.finish_reason == genai.GenerationFinishReason.STOP
        return {
            "id": number,
            "text": self._tokenizer.decode(output.generated_ids),
            "finish": "stop" if stopped else "length",
            "prompt_tokens": prompt_tokens,
            "completion_tokens": len(output.generated_ids),
            "reported_model": self._model,
        }


def one_of(options: Sequence[str]) -> str:
    """A regular expression that matches one of the options, in the engine's dialect.

    >>> one_of(["Rome", "0.5"])
    '(Rome|0\\\\.5)'
    """
    return f"({'|'.join(_SPECIAL.sub(lambda sign: chr(92) + sign[0], each) for each in options)})"


_SPECIAL = re.compile(r"[\\^$.|?*+(){}\[\]/]")


def serve(engine: Engine, lines: Iterable[str], out: TextIO) -> None:
    """Answer questions until the input ends."""
    inbox: SimpleQueue[str | None] = SimpleQueue()

    def read() -> None:
        for line in lines:
            inbox.put(line)
        inbox.put(None)

    Thread(target=read, daemon=True).start()
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


def _start(engine: Engine, waiting: deque[dict[str, Any]]) -> list[dict[str, Any]]:
    refused = []
    while waiting and engine.has_capacity():
        ask = waiting.popleft()
        try:
            answer = engine.start(ask)
        except Exception as error:  # one bad question must not end the others
            answer = {"id": ask["id"], "failure": "server", "message": str(error)}
        if answer is not None:
            refused.append(answer)
    return refused


class PromptTokens:
    """Encodes a history with the chat template of the weights, escaping control tokens."""

    def __init__(self, tokenizer: Any, control_tokens: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._control = re.compile("|".join(map(re.escape, control_tokens)) or "(?!)")

    def encode(self, messages: Sequence[Mapping[str, str]]) -> Any:
        """The tokens of the whole prompt.

        A message that spells a control token such as <|im_end|> could end itself and speak for
        others. Its text is therefore split inside the token, and the parts are encoded one by one:
        the model reads the same characters as plain text.
        """
        used = set().union(*(message["content"] for message in messages))
        separator = next(sign for sign in map(chr, range(0xE000, 0xF900)) if sign not in used)
        escaped = [
            {
                "role": message["role"],
                "content": self._control.sub(
                    lambda token: token[0][0] + separator + token[0][1:], message["content"]
                ),
            }
            for message in messages
        ]
        prompt = self._tokenizer.apply_chat_template(escaped, add_generation_prompt=True)
        encoded = (
            self._tokenizer.encode(part, add_special_tokens=False)
            for part in prompt.split(separator)
        )
        return ov.Tensor(np.concatenate([part.input_ids.data for part in encoded], axis=1))


# The types of values in the metadata of a GGUF file.
_STRING, _ARRAY = 8, 9
_NUMBERS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_CONTROL = 3  # the type of control tokens such as <|im_end|>


def read_gguf(path: Path) -> tuple[int, tuple[str, ...]]:
    """Read the context length and the control tokens of a model."""
    try:
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise ValueError("it does not start with GGUF")
            _version, _tensors, count = struct.unpack("<IQQ", file.read(20))
            about = {_string(file): _value(file, _number(file, "I")) for _ in range(count)}
        length = about[f"{about['general.architecture']}.context_length"]
        tokens = zip(
            about["tokenizer.ggml.tokens"], about["tokenizer.ggml.token_type"], strict=True
        )
        return length, tuple(token for token, kind in tokens if kind == _CONTROL)
    except (OSError, KeyError, ValueError, OverflowError, struct.error) as error:
        raise WeightsError(
            f"{path} can't be read as a GGUF language model ({error}); "
            "remove it to fetch it again, or name another file"
        ) from error


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        kind, length = _number(file, "I"), _number(file, "Q")
        return [_value(file, kind) for _ in range(length)]
    return _number(file, _NUMBERS[kind])


def _string(file: BinaryIO) -> str:
    return file.read(_number(file, "Q")).decode("utf-8", "replace")


def _number(file: BinaryIO, code: str) -> Any:
    (number,) = struct.unpack(f"<{code}", file.read(struct.calcsize(f"<{code}")))
    return number


def main() -> None:
    """Serve until the parent closes the pipe or dies."""
    for name in ("SIGINT", "SIGHUP"):  # the parent handles these and ends us
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # the library's own output must not mix with answers
    options = json.loads(sys.argv[1])
    try:
        engine = Engine(**options)
    except (WeightsError, RuntimeError) as error:
        print(json.dumps({"broken": f"{options['gguf']} can't be loaded: {error}"}), file=answers)
    else:
        serve(engine, sys.stdin, answers)


if __name__ == "__main__":
    main()
