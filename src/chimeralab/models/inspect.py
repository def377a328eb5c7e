"""Models of any provider that inspect-ai knows, by its names: "anthropic/claude-…", "google/…"."""

import importlib
import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from chimeralab.core.code import SentKey
from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.core.secrets import redact
from chimeralab.models.seam import FailureKind, Finish, Reply, Request, failure, kind_of

_FINISH: dict[str, Finish] = {
    "stop": "stop",
    "max_tokens": "length",
    "content_filter": "refusal",
}


@dataclass(frozen=True, slots=True)
class InspectSettings(Record):
    """`use = "inspect"`. Keys are read from the environment, as the provider's page there says.

    `timeout` is in seconds and applies to every try; retries and the waiting between tries are
    inspect-ai's, and so is `concurrency`, the number of questions on their way at once.
    """

    needs_network: ClassVar[bool] = True

    model: Annotated[str, Field(pattern=r"^[^/]+/.+")]
    base_url: str | None = None
    send_seed: bool = True
    timeout: Annotated[int, Field(ge=1)] = 120
    max_retries: Annotated[int, Field(ge=0)] = 4
    concurrency: Annotated[int, Field(ge=1)] = 8

    @property
    def sent_key(self) -> SentKey | None:
        """The key of the provider, where the plan says to which address it goes."""
        provider = self.model.partition("/")[0].upper().replace("-", "_")
        return SentKey(f"{provider}_API_KEY", self.base_url) if self.base_url else None

    def open(self) -> "InspectModel":
        return InspectModel(self)


class InspectModel:
    """One model of one provider."""

    def __init__(self, settings: InspectSettings) -> None:
        self._settings = settings
        try:
            self._inspect = importlib.import_module("inspect_ai.model")
        except ImportError as error:
            raise InputError(
                'use = "inspect" needs inspect-ai; install it with: '
                'pip install "chimera-lab[inspect]"'
            ) from error
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
            words = re.sub(r"\s+", " ", redact(str(error)))
            raise InputError(f"inspect-ai can't open {settings.model!r}: {words}") from None

    async def reply(self, request: Request) -> Reply:
        kinds = {
            "system": self._inspect.ChatMessageSystem,
            "user": self._inspect.ChatMessageUser,
            "assistant": self._inspect.ChatMessageAssistant,
        }
        messages = [kinds[message.role](content=message.content) for message in request.messages]
        config = self._inspect.GenerateConfig(
            temperature=request.sampling.temperature,
            top_p=request.sampling.top_p,
            max_tokens=request.sampling.max_tokens,
            seed=request.seed if self._settings.send_seed else None,
        )
        try:
            output = await self._model.generate(messages, config=config)
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            where = f"{self._settings.model} through inspect-ai"
            raise failure(_kind(error, words), f"{where}: {words}") from None
        return _reply(output)

    async def close(self) -> None:
        await self._model.api.aclose()


def _reply(output: Any) -> Reply:
    if output.error:
        raise failure("server", str(output.error))
    if not output.choices:
        raise failure("bad_answer", "the answer has no choices")
    if output.stop_reason == "model_length":
        raise failure("overflow", "the history and the reply do not fit into the model's context")
    usage, prompt_tokens = output.usage, None
    if usage is not None:
        # inspect-ai counts what a provider's cache took or gave apart from the rest.
        cached = (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)
        prompt_tokens = int(usage.input_tokens + cached)
    return Reply(
        text=redact(output.completion),
        finish=_FINISH.get(output.stop_reason, "other"),
        prompt_tokens=prompt_tokens,
        completion_tokens=usage.output_tokens if usage else None,
        reported_model=output.model or None,
    )


def _kind(error: Exception, words: str) -> FailureKind:
    """Providers raise their own exceptions; nearly all carry the status of the answer."""
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    if isinstance(status, int) and status >= 400:
        return kind_of(status, words)
    if "timeout" in words.lower() or "timed out" in words.lower():
        return "timeout"
    return "connection" if "connect" in words.lower() else "server"
