"""A model behind an OpenAI-compatible server, asked through the openai SDK.

The SDK retries on its own and tells nobody, so its HTTP client is watched. It also takes whatever a
server sends, for as long as bytes arrive, so each try has one deadline and its body a limit, no
redirect is followed, and a chat completion is read strictly: what does not fit is a bad answer.
"""

import asyncio
import json
import os
import ssl
import sys
import time
import zlib
from asyncio import timeout
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Annotated, Any

import openai
from pydantic import Field, TypeAdapter, ValidationError

from chimeralab.core.errors import InputError
from chimeralab.core.text import redact
from chimeralab.models.catalogue import Constraint, OpenAISettings
from chimeralab.models.seam import (
    JSON_TOKENS,
    NO_SCHEMA,
    SCHEMA_REFUSED,
    FailureKind,
    Finish,
    ModelFailure,
    OnAttempt,
    Reply,
    Request,
    Try,
    answer_schema,
    classify_status,
    drop_invalid_usage,
    make_failure,
    match_option,
    parse_answer,
)

# A hundred times the longest reply of any model; eight of them at once still fit in memory.
LARGEST_BODY = 8 << 20
# What a process has open beside its connections: the store, weights, standard streams.
SPARE_FILES = 100
# With each question the HTTP library looks through all connections of a client, so that a thousand
# of them are shared out among many clients.
CONNECTIONS = 8


class OpenAIModel:
    """One model on one server. `on_attempt` is told about each try, the SDK's own retries too."""

    def __init__(self, settings: OpenAISettings, on_attempt: OnAttempt | None = None) -> None:
        self.on_attempt = on_attempt
        self._settings = settings
        self._keys = read_key(settings)
        self._in_words = ""  # why the server is no longer told the options but in words
        allow_files(settings.concurrency + SPARE_FILES)
        certificates = http_library().create_ssl_context()
        self._clients = [
            openai.AsyncOpenAI(
                api_key=next(iter(self._keys.values()), "none"),
                base_url=settings.base_url,
                timeout=settings.timeout,
                max_retries=settings.max_retries,
                http_client=WatchedClient(settings.timeout, certificates),
            )
            for _ in range(0, settings.concurrency, CONNECTIONS)
        ]
        # Whoever asks takes a place, and whoever gave one back last has a warm connection.
        self._places: asyncio.LifoQueue[openai.AsyncOpenAI] = asyncio.LifoQueue()
        for number in range(settings.concurrency):
            self._places.put_nowait(self._clients[number // CONNECTIONS])

    async def reply(self, request: Request) -> Reply:
        tries = Tries(request, self.on_attempt)
        held_by: Constraint = "off"
        if request.options and not self._in_words:
            held_by = self._settings.constrain or "json_schema"
        client = await self._places.get()
        try:
            current.set(tries)
            try:
                body = await self._ask(client, request, held_by)
            except ModelFailure as refused:
                may_do_without = held_by != "off" and self._settings.constrain is None
                if not may_do_without or refused.status not in SCHEMA_REFUSED:
                    raise
                held_by = "off"
                self._in_words = NO_SCHEMA.format(who="the server", why=refused)
                body = await self._ask(client, request, held_by)
        finally:
            self._places.put_nowait(client)
        try:
            if tries.unread:
                raise make_failure("bad_answer", tries.unread)
            reply = read_completion(body, _max_tokens(request, held_by))
        except ModelFailure as failed:
            tries.end(failed.kind)
            raise
        tries.end("ok")
        if held_by != "off":
            said = parse_answer(reply.text) if held_by == "json_schema" else reply.text.strip()
            reply = match_option(reply, (said,), request.options, "the server")
        elif request.options and self._in_words:
            reply = replace(reply, note=self._in_words)
        return replace(
            reply,
            text=redact(reply.text, self._keys),
            reported_model=redact(reply.reported_model or "", self._keys) or None,
        )

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    async def _ask(self, client: openai.AsyncOpenAI, request: Request, held_by: Constraint) -> str:
        question: dict[str, Any] = {
            "messages": [message.as_dict() for message in request.messages],
            "temperature": request.sampling.temperature,
            "top_p": request.sampling.top_p,
            self._settings.length_key: _max_tokens(request, held_by),
            **_constraining(held_by, request.options),
        }
        if self._settings.send_seed and request.seed is not None:
            question["seed"] = request.seed % 2**31  # llama.cpp takes no more
        create = client.chat.completions.with_raw_response.create
        try:
            # The SDK sends its extra body as it is. What it is given elsewhere it checks field by
            # field, which takes longer than all the rest once a history is long.
            answer = await create(model=self._settings.model, messages=[], extra_body=question)
            body: str = answer.text  # as UTF-8: see `whole`
        except openai.APIError as error:
            raise self._failure(error) from None  # its own text and request may hold the key
        return body

    def _failure(self, error: openai.APIError) -> ModelFailure:
        where = f"{self._settings.model} at {self._settings.base_url}"
        kind: FailureKind = "bad_answer"
        words = f"{where}: {error.message}"
        if isinstance(error, openai.APITimeoutError):
            kind, words = "timeout", f"{where} did not answer within {self._settings.timeout:g} s"
        elif isinstance(error, openai.APIConnectionError):
            kind, words = "connection", f"{where} can't be reached"
        elif isinstance(error, openai.APIStatusError):
            kind = classify_status(error.status_code, error.response.text)
            words = f"{where} answered {error.status_code}: {error.message}"
        failed = make_failure(kind, words, self._keys)
        failed.status = getattr(error, "status_code", None)
        return failed


def _max_tokens(request: Request, held_by: Constraint) -> int:
    """A reply in JSON takes more tokens than the option that it holds."""
    return request.sampling.max_tokens + (JSON_TOKENS if held_by == "json_schema" else 0)


def _constraining(held_by: Constraint, options: Sequence[str]) -> dict[str, Any]:
    """What a question carries so that its reply is one of the options."""
    match held_by:
        case "json_schema":
            described = {"name": "answer", "strict": True, "schema": answer_schema(options)}
            return {"response_format": {"type": "json_schema", "json_schema": described}}
        case "choice":
            # vLLM has renamed the key, and ignores those that it does not know.
            return {"guided_choice": [*options], "structured_outputs": {"choice": [*options]}}
        case "grammar":
            rules = " | ".join(json.dumps(option, ensure_ascii=False) for option in options)
            return {"grammar": f"root ::= {rules}"}
        case "off":
            return {}


def read_key(settings: OpenAISettings) -> dict[str, str]:
    """The key of a server by its environment variable; nothing where the server asks for none."""
    if settings.key_env is None:
        return {}
    key = os.environ.get(settings.key_env, "").strip()
    if not key:
        raise InputError(
            f"the environment variable {settings.key_env} is not set; put the key for "
            f"{settings.base_url} there, or take key_env out if the server asks for none"
        )
    if not (key.isascii() and key.isprintable()):
        raise InputError(
            f"the key in the environment variable {settings.key_env} is not plain text"
        )
    return {settings.key_env: key}


def allow_files(needed: int) -> None:
    """Let this process open so many files, each connection being one, or say that it can't."""
    try:
        import resource  # noqa: PLC0415 - Windows has no such limit
    except ImportError:
        return
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < needed:
        raise InputError(
            f"this concurrency needs {needed:,} open files and the system allows {most:,}; "
            "raise its limit (ulimit -Hn), or lower the concurrency"
        )
    if allowed != resource.RLIM_INFINITY and allowed < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, most))


class Tries:
    """The tries for one request. The last one is told by its reader, who knows if it was usable."""

    def __init__(self, request: Request, tell: OnAttempt | None) -> None:
        self._request = request
        self._tell = tell
        self._number = 0
        self._started = 0.0
        self.unread = ""  # why the body of the last answer was not read

    def begin(self) -> None:
        self._number += 1
        self.unread = ""
        self._started = time.perf_counter()

    def end(self, outcome: FailureKind | str) -> None:
        if self._tell is not None:
            seconds = time.perf_counter() - self._started
            asked = self._request
            self._tell(Try(asked.conversation, asked.turn, self._number, outcome, seconds))


current: ContextVar[Tries] = ContextVar("tries")


def http_library() -> Any:
    """What the SDK stands on: httpx or httpx2, whichever is installed."""
    return sys.modules[openai.DefaultAsyncHttpxClient.__base__.__module__.partition(".")[0]]


class WatchedClient(openai.DefaultAsyncHttpxClient):
    """The SDK's HTTP client, which bounds every try and tells of each that brings no answer.

    `deadline` holds from the connection to the last byte. The timeouts of the HTTP library start
    again with each byte, so that a server which drips its answer is waited for without end.
    """

    def __init__(self, deadline: float, certificates: ssl.SSLContext) -> None:
        super().__init__(follow_redirects=False, verify=certificates)
        self._deadline = deadline

    async def send(self, request: Any, **options: Any) -> Any:
        tries = current.get()
        tries.begin()
        request.headers["Accept-Encoding"] = "gzip"
        try:
            async with timeout(self._deadline):
                answer = await super().send(request, **{**options, "stream": True})
                try:
                    response = await whole(answer, request, tries)
                finally:
                    await answer.aclose()
        except TimeoutError as late:
            tries.end("timeout")
            # An error of this kind is retried by the SDK.
            raise http_library().ReadTimeout("the deadline is over", request=request) from late
        except Exception as error:
            tries.end("timeout" if "Timeout" in type(error).__name__ else "connection")
            raise
        if response.status_code >= 300:
            tries.end(classify_status(response.status_code, response.text))
        return response


async def whole(answer: Any, request: Any, tries: Tries) -> Any:
    """The answer with all of its body, which is left out where it breaks a limit."""
    packed = bytearray()
    async for chunk in answer.aiter_raw():
        packed += chunk
        if len(packed) > LARGEST_BODY:
            break
    try:
        body = unpacked(packed, answer.headers.get("Content-Encoding", ""))
    except ModelFailure as problem:
        body, tries.unread = b"", str(problem)
    headers = {
        name: value
        for name, value in answer.headers.items()
        if name not in {"content-encoding", "content-length", "content-type", "transfer-encoding"}
    }
    return type(answer)(answer.status_code, headers=headers, content=body, request=request)


def unpacked(body: bytes | bytearray, encoding: str) -> bytes:
    """A body as it was before it was packed, as far as the limit allows.

    >>> unpacked(b"as sent", "identity")
    b'as sent'
    """
    data = bytes(body)
    if len(data) <= LARGEST_BODY and encoding.strip().lower() in {"gzip", "x-gzip", "deflate"}:
        try:
            data = zlib.decompressobj(wbits=47).decompress(data, LARGEST_BODY + 1)
        except zlib.error as error:
            raise make_failure("bad_answer", f"the body can't be unpacked ({error})") from None
    elif encoding.strip().lower() not in {"", "identity"}:
        raise make_failure("bad_answer", f"the body is packed with {encoding!r}, which is not read")
    if len(data) > LARGEST_BODY:
        raise make_failure("bad_answer", f"the body is larger than {LARGEST_BODY >> 20} MB")
    return data


@dataclass(frozen=True, slots=True)
class _Message:
    content: str | None = None
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class _Choice:
    message: _Message
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class _Completion:
    choices: Annotated[list[_Choice], Field(min_length=1)]
    model: str | None = None
    usage: Any = None


_COMPLETION = TypeAdapter(_Completion)
_FINISH: dict[str | None, Finish] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "refusal",
    "refusal": "refusal",
}


def read_completion(body: str, max_tokens: int) -> Reply:
    """The first choice of a chat completion as a reply."""
    try:
        completion = _COMPLETION.validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        raise make_failure(
            "bad_answer", f"not a chat completion: {place}: {first['msg']}"
        ) from None
    choice = completion.choices[0]
    usage = completion.usage if isinstance(completion.usage, dict) else {}
    counts = drop_invalid_usage(
        Reply(
            "",
            prompt_tokens=usage.get("prompt_tokens"),
            completion_tokens=usage.get("completion_tokens"),
        )
    )
    length = counts.completion_tokens
    # A reply cut before its limit ran into the end of the context. Servers count within one.
    if choice.finish_reason == "length" and length is not None and length < max_tokens - 1:
        raise make_failure(
            "overflow",
            f"the server cut the reply at {length} of {max_tokens} tokens: the history fills its "
            "context, or it allows no longer replies",
        )
    finish = _FINISH.get(choice.finish_reason, "other")
    text = choice.message.refusal or choice.message.content
    if text is None and finish != "refusal":
        raise make_failure("bad_answer", "the content of the answer is null")
    return replace(
        counts,
        text=text or "",
        finish="refusal" if choice.message.refusal else finish,
        reported_model=completion.model,
    )
