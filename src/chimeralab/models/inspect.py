"""Models of any provider that inspect-ai knows, by its names: "anthropic/claude-…", "google/…"."""

import importlib
import os
import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.models.failures import failure, kind_of, without_keys
from chimeralab.models.seam import FailureKind, Finish, ModelFailure, Reply, Request

_FINISH: dict[str, Finish] = {
    "stop": "stop",
    "max_tokens": "length",
    "content_filter": "refusal",
}
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InspectSettings(Record):
    """`use = "inspect"`. Keys are read from the environment, as the provider's page there says.

    `timeout` is in seconds and holds for every try; retries and the waiting between tries are
    inspect-ai's, and so is `concurrency`, the number of questions on their way at once.
    """

    model: Annotated[str, Field(pattern=r"^[^/]+/.+")]
    base_url: str | None = None
    send_seed: bool = True
    timeout: Annotated[int, Field(ge=1)] = 120
    max_retries: Annotated[int, Field(ge=0)] = 4
    concurrency: Annotated[int, Field(ge=1)] = 8

    def open(self) -> "InspectModel":
        return InspectModel(self)


class InspectModel:
    """One model of one provider."""

    def __init__(self, settings: InspectSettings) -> None:
        self._settings = settings
        self._inspect = _inspect_ai()
        try:
            self._model = self._inspect.get_model(
                settings.model,
                base_url=settings.base_url,
                memoize=False,
                config=self._inspect.GenerateConfig(
                    attempt_timeout=settings.timeout,
                    max_retries=settings.max_retries,
                    max_connections=settings.concurrency,
                ),
            )
        except Exception as error:  # each provider has its own ways to say what it lacks
            words = re.sub(r"\s+", " ", without_keys(str(error), _keys()))
            raise InputError(f"inspect-ai can't open {settings.model!r}: {words}") from None

    async def reply(self, request: Request) -> Reply:
        try:
            output = await self._model.generate(self._messages(request), config=self._how(request))
        except Exception as error:
            raise _failure(self._settings.model, error) from None
        return _reply(output)

    async def close(self) -> None:
        await self._model.api.aclose()

    def _messages(self, request: Request) -> list[Any]:
        kinds = {
            "system": self._inspect.ChatMessageSystem,
            "user": self._inspect.ChatMessageUser,
            "assistant": self._inspect.ChatMessageAssistant,
        }
        return [kinds[message.role](content=message.content) for message in request.messages]

    def _how(self, request: Request) -> Any:
        return self._inspect.GenerateConfig(
            temperature=request.sampling.temperature,
            top_p=request.sampling.top_p,
            max_tokens=request.sampling.max_tokens,
            seed=request.seed if self._settings.send_seed else None,
        )


def _inspect_ai() -> Any:
    try:
        return importlib.import_module("inspect_ai.model")
    except ImportError as error:
        raise InputError(
            'use = "inspect" needs inspect-ai; install it with: pip install "chimera-lab[inspect]"'
        ) from error


def _reply(output: Any) -> Reply:
    if output.error:
        raise failure("server", str(output.error), keys=_keys())
    if not output.choices:
        raise failure("bad_answer", "the answer has no choices")
    if output.stop_reason == "model_length":
        raise failure("overflow", "the history and the reply do not fit into the model's context")
    return Reply(
        text=without_keys(output.completion, _keys()),
        finish=_FINISH.get(output.stop_reason, "other"),
        prompt_tokens=_prompt_tokens(output.usage),
        completion_tokens=output.usage.output_tokens if output.usage else None,
        reported_model=output.model or None,
    )


def _prompt_tokens(usage: Any) -> int | None:
    """All that was read; inspect-ai counts apart what a provider's cache took or gave."""
    if usage is None:
        return None
    cached = (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)
    return int(usage.input_tokens + cached)


def _failure(model: str, error: Exception) -> ModelFailure:
    words = f"{type(error).__name__}: {error}"
    return failure(_kind(error, words), f"{model} through inspect-ai: {words}", keys=_keys())


def _kind(error: Exception, words: str) -> FailureKind:
    """Providers raise their own exceptions; nearly all carry the status of the answer."""
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    if isinstance(status, int) and status >= 400:
        return kind_of(status, words)
    if "timeout" in words.lower() or "timed out" in words.lower():
        return "timeout"
    return "connection" if "connect" in words.lower() else "server"


def _keys() -> tuple[str, ...]:
    return tuple(value for name, value in os.environ.items() if _SECRET.search(name))
