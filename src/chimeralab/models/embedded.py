"""The language model that comes with the lab: SmolLM2-135M-Instruct, without any server."""

import asyncio
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from chimeralab import weights
from chimeralab.core.records import Record
from chimeralab.models.engine_process import EngineProcess
from chimeralab.models.seam import ModelFailure, Reply, Request


@dataclass(frozen=True, slots=True)
class EmbeddedSettings(Record):
    """`use = "embedded"`.

    With `deterministic`, the same seed gives the same text each time, because every question is
    worked on alone and from the start: many times slower. `cache_gb` is what the prefix cache may
    take; both sides of each conversation should fit into it.
    """

    weights: Literal["smollm2"] = "smollm2"
    deterministic: bool = False
    cache_gb: Annotated[int, Field(ge=1)] = 2

    def open(self) -> "EmbeddedModel":
        (file,) = weights.MODELS[self.weights].files
        return EmbeddedModel(self, weights.ensure(self.weights) / file.name)


class EmbeddedModel:
    """Answers any number of questions at once. The weights are loaded with the first one."""

    def __init__(self, settings: EmbeddedSettings, gguf: Path) -> None:
        self._settings = settings
        self._gguf = gguf
        self._process: EngineProcess | None = None

    async def reply(self, request: Request) -> Reply:
        question = self._question(request)
        answer = await asyncio.wrap_future(self._engine().ask(question))
        if "failure" in answer:
            raise ModelFailure(answer["failure"], answer["message"])
        return Reply(cost=0.0, **{key: answer[key] for key in answer if key != "id"})

    async def close(self) -> None:
        if self._process is not None:
            await asyncio.to_thread(self._process.close)

    def _engine(self) -> EngineProcess:
        if self._process is None or self._process.is_over:
            options = {
                "gguf": str(self._gguf),
                "cache_gb": self._settings.cache_gb,
                "deterministic": self._settings.deterministic,
            }
            self._process = EngineProcess(options)
        return self._process

    def _question(self, request: Request) -> dict[str, Any]:
        messages = [message.as_dict() for message in request.messages]
        return {"messages": messages, "seed": self._seed(request), **request.sampling.as_dict()}

    def _seed(self, request: Request) -> int:
        if request.seed is None:
            return 0 if self._settings.deterministic else secrets.randbits(63)
        return request.seed % 2**63
