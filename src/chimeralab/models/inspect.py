"""Models of any provider that inspect-ai knows, by its names: "anthropic/claude-…", "google/…"."""

import importlib
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chimeralab.core.errors import InputError
from chimeralab.core.text import redact
from chimeralab.models.seam import (
    JSON_TOKENS,
    NO_SCHEMA,
    SCHEMA_REFUSED,
    FailureKind,
    Finish,
    ModelFailure,
    Reply,
    Request,
    answer_schema,
    classify_status,
    make_failure,
    match_option,
    parse_answer,
)

if TYPE_CHECKING:
    from chimeralab.models.catalogue import InspectSettings

_FINISH: dict[str, Finish] = {
    "stop": "stop",
    "max_tokens": "length",
    "content_filter": "refusal",
}


def open_model(settings: "InspectSettings") -> "InspectModel":
    """The model of a provider, or a sentence about what is missing."""
    try:
        inspect = importlib.import_module("inspect_ai.model")
    except ImportError as error:
        raise InputError(
            'use = "inspect" needs inspect-ai; install it with: pip install "chimera-lab[inspect]"'
        ) from error
    try:
        model = inspect.get_model(
            settings.model,
            base_url=settings.base_url,
            memoize=False,
            config=inspect.GenerateConfig(
                attempt_timeout=settings.timeout,
                max_retries=settings.max_retries,
                max_connections=settings.concurrency,
            ),
        )
    except Exception as error:  # each provider has its own ways to say what it lacks
        words = re.sub(r"\s+", " ", redact(str(error)))
        raise InputError(f"inspect-ai can't open {settings.model!r}: {words}") from None
    return InspectModel(model, send_seed=settings.send_seed)


class InspectModel:
    """A model of inspect-ai. Without `send_sampling` it samples as it was set up to."""

    def __init__(self, model: Any, *, send_seed: bool = True, send_sampling: bool = True) -> None:
        self._inspect = importlib.import_module("inspect_ai.model")
        self._limit: type[Exception] = importlib.import_module("inspect_ai.util").LimitExceededError
        self._model = model
        self._in_words = ""  # why the provider is no longer told the options but in words
        self._send_seed, self._send_sampling = send_seed, send_sampling

    async def reply(self, request: Request) -> Reply:
        held = request.options if not self._in_words else ()
        try:
            reply = _reply(await self._generate(request, held))
        except ModelFailure as refused:
            if not held or refused.status not in SCHEMA_REFUSED:
                raise
            self._in_words = NO_SCHEMA.format(who="the provider", why=refused)
            held, reply = (), _reply(await self._generate(request, ()))
        if held:
            said = (parse_answer(reply.text), reply.text.strip())
            return match_option(reply, said, held, "the provider")
        return replace(reply, note=self._in_words) if request.options else reply

    async def _generate(self, request: Request, options: Sequence[str]) -> Any:
        kinds = {
            "system": self._inspect.ChatMessageSystem,
            "user": self._inspect.ChatMessageUser,
            "assistant": self._inspect.ChatMessageAssistant,
        }
        messages = [kinds[message.role](content=message.content) for message in request.messages]
        drawn = request.sampling.as_dict() if self._send_sampling else {}
        if options:
            drawn["max_tokens"] = request.sampling.max_tokens + JSON_TOKENS
            drawn["response_schema"] = self._inspect.ResponseSchema(
                name="answer", json_schema=answer_schema(options), strict=True
            )
        seed = request.seed if self._send_seed else None
        config = self._inspect.GenerateConfig(**drawn, seed=seed)
        try:
            return await self._model.generate(messages, config=config)
        except self._limit:
            raise  # inside an evaluation: it ends the sample, and no model has failed
        except Exception as error:
            raise _failure(error, self._model) from None

    async def close(self) -> None:
        await self._model.api.aclose()


def _reply(output: Any) -> Reply:
    if output.error:
        raise make_failure("server", str(output.error))
    if not output.choices:
        raise make_failure("bad_answer", "the answer has no choices")
    if output.stop_reason == "model_length":
        raise make_failure("overflow", "history and reply exceed the model's context")
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


def _failure(error: Exception, model: Any) -> ModelFailure:
    """Providers raise their own exceptions; nearly all carry the status of the answer."""
    words = f"{type(error).__name__}: {error}"
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    kind: FailureKind = "connection" if "connect" in words.lower() else "server"
    if "timeout" in words.lower() or "timed out" in words.lower():
        kind = "timeout"
    if not isinstance(status, int) or status < 400:
        status = None
    else:
        kind = classify_status(status, words)
    failed = make_failure(kind, f"{model} through inspect-ai: {words}")
    failed.status = status
    return failed
