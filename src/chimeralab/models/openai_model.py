"""A model behind an OpenAI-compatible server, asked through the openai SDK."""

import asyncio
import os
from dataclasses import replace
from typing import Any

import openai

from chimeralab.core.errors import InputError
from chimeralab.models.completion import read_completion
from chimeralab.models.failures import failure, kind_of, without_keys
from chimeralab.models.openai import OpenAISettings
from chimeralab.models.seam import ModelFailure, Reply, Request
from chimeralab.models.tries import OnAttempt, Tries, WatchedClient, current


class OpenAIModel:
    """One model on one server. `on_attempt` is told about each try, the SDK's own retries too."""

    def __init__(self, settings: OpenAISettings, on_attempt: OnAttempt | None = None) -> None:
        self.on_attempt = on_attempt
        self._settings = settings
        self._key = _key(settings)
        self._places = asyncio.Semaphore(settings.concurrency)
        self._client = openai.AsyncOpenAI(
            api_key=self._key or "none",
            base_url=settings.base_url,
            timeout=settings.timeout,
            max_retries=settings.max_retries,
            http_client=WatchedClient(),
        )

    async def reply(self, request: Request) -> Reply:
        async with self._places:
            tries = Tries(request, self.on_attempt)
            current.set(tries)
            body = await self._ask(request)
        try:
            reply = read_completion(body, request.sampling.max_tokens)
        except ModelFailure as failed:
            tries.end(failed.kind)
            raise
        tries.end("ok")
        return replace(
            reply,
            text=without_keys(reply.text, (self._key,)),
            reported_model=without_keys(reply.reported_model or "", (self._key,)) or None,
        )

    async def close(self) -> None:
        await self._client.close()

    async def _ask(self, request: Request) -> str:
        create = self._client.chat.completions.with_raw_response.create
        try:
            body: str = (await create(**self._question(request))).text
        except openai.APIError as error:
            raise self._failure(error) from None  # its own text and request may hold the key
        return body

    def _question(self, request: Request) -> dict[str, Any]:
        sampling = request.sampling
        question: dict[str, Any] = {
            "model": self._settings.model,
            "messages": [message.as_dict() for message in request.messages],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            self._settings.length_key: sampling.max_tokens,
        }
        if self._settings.send_seed and request.seed is not None:
            question["seed"] = request.seed % 2**31  # llama.cpp takes no more
        return question

    def _failure(self, error: openai.APIError) -> ModelFailure:
        where, words = f"{self._settings.model} at {self._settings.base_url}", error.message
        keys = (self._key,)
        if isinstance(error, openai.APITimeoutError):
            seconds = self._settings.timeout
            return failure("timeout", f"{where} did not answer within {seconds:g} s", keys=keys)
        if isinstance(error, openai.APIConnectionError):
            return failure("connection", f"{where} can't be reached", keys=keys)
        if isinstance(error, openai.APIStatusError):
            kind = kind_of(error.status_code, error.response.text)
            return failure(kind, f"{where} answered {error.status_code}: {words}", keys=keys)
        return failure("bad_answer", f"{where}: {words}", keys=keys)


def _key(settings: OpenAISettings) -> str:
    if settings.key_env is None:
        return ""
    key = os.environ.get(settings.key_env, "").strip()
    if not key:
        raise InputError(
            f"the environment variable {settings.key_env} is not set; put the key for "
            f"{settings.base_url} there, or take key_env out if the server asks for none"
        )
    if not (key.isascii() and key.isprintable()):
        raise InputError(f"the key in the environment variable {settings.key_env} is no plain text")
    return key
