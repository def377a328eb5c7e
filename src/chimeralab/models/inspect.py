"""Models of any provider of inspect-ai, by its names: "anthropic/claude-…", "google/…"."""

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
    """Open the model of a provider."""
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
    except Exception as error:  # providers raise errors of their own
        words = re.sub(r"\s+", " ", redact(str(error)))
        raise InputError(f"inspect-ai can't open {settings.model!r}: {words}") from None
    return InspectModel(model, send_seed=settings.send_seed)


class InspectModel:
    """A model of inspect-ai. Without `send_sampling` it keeps its own sampling settings."""

    def __init__(self, model: Any, *, send_seed: bool = True, send_sampling: bool = True) -> None:
        self._inspect = importlib.import_module("inspect_ai.model")
        self._limit_error: type[Exception] = importlib.import_module(
            "inspect_ai.util"
        ).LimitExceededError
        self._model = model
        self._no_schema = ""  # why the provider is no longer sent a JSON schema
        self._send_seed, self._send_sampling = send_seed, send_sampling

    async def reply(self, request: Request) -> Reply:
        options = request.options if not self._no_schema else ()
        try:
            reply = _reply(await self._generate(request, options))
        except ModelFailure as refused:
            if not options or refused.status not in SCHEMA_REFUSED:
                raise
            self._no_schema = NO_SCHEMA.format(who="the provider", why=refused)
            options, reply = (), _reply(await self._generate(request, ()))
        if options:
            texts = (parse_answer(reply.text), reply.text.strip())
            return match_option(reply, texts, options, "the provider")
        return replace(reply, note=self._no_schema) if request.options else reply

    async def _generate(self, request: Request, options: Sequence[str]) -> Any:
        kinds = {
            "system": self._inspect.ChatMessageSystem,
            "user": self._inspect.ChatMessageUser,
            "assistant": self._inspect.ChatMessageAssistant,
        }
        messages = [kinds[message.role](content=message.content) for message in request.messages]
        sampling = request.sampling.as_dict() if self._send_sampling else {}
        if options:
            sampling["max_tokens"] = request.sampling.max_tokens + JSON_TOKENS
            sampling["response_schema"] = self._inspect.ResponseSchema(
                name="answer", json_schema=answer_schema(options), strict=True
            )
        seed = request.seed if self._send_seed else None
        config = self._inspect.GenerateConfig(**sampling, seed=seed)
        try:
            return await self._model.generate(messages, config=config)
        except self._limit_error:
            raise  # a limit of an evaluation ends the sample; the model has not failed
        except Exception as error:
            raise _failure(error, self._model) from None

    async def close(self) -> None:
        await self._model.api.aclose()


def _reply(output: Any) -> Reply:
    usage, prompt_tokens = output.usage, None
    if usage is not None:
        # inspect-ai counts cached tokens separately.
        cached = (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)
        prompt_tokens = int(usage.input_tokens + cached)
    counts = Reply(
        "", prompt_tokens=prompt_tokens, completion_tokens=usage.output_tokens if usage else None
    )
    if output.error:
        raise make_failure("server", str(output.error), billed=counts if usage else None)
    if not output.choices:
        raise make_failure("bad_answer", "the answer has no choices", billed=counts)
    if output.stop_reason == "model_length":
        why = "history and reply exceed the model's context"
        raise make_failure("overflow", why, billed=counts)
    return replace(
        counts,
        text=redact(output.completion),
        finish=_FINISH.get(output.stop_reason, "other"),
        reported_model=output.model or None,
    )


def _failure(error: Exception, model: Any) -> ModelFailure:
    """Classify a provider's exception; nearly all carry an HTTP status."""
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
