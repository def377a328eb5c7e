"""A model behind an OpenAI-compatible server, called through the openai SDK.

The SDK retries silently, so our HTTP client reports each attempt. It also accepts whatever a
server sends for as long as bytes arrive, so each attempt has a deadline and a size limit,
redirects are not followed, and completions are validated strictly.
"""

import asyncio
import json
import os
import re
import ssl
import sys
import time
import zlib
from asyncio import timeout
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import openai
from pydantic import BaseModel, Field, ValidationError

from chimeralab.core.errors import InputError
from chimeralab.core.files import parse_json
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
from chimeralab.weights import hash_gguf

# A hundred times the longest reply of any model.
MAX_BODY_BYTES = 8 << 20
# Files open besides connections: the store, weights, standard streams.
SPARE_FILES = 100
# The HTTP library scans all connections of a client for each request, so connections are spread
# over several clients.
CONNECTIONS = 8
LOOPBACK = {"localhost", "127.0.0.1", "::1"}
MAX_SECONDS_TO_IDENTIFY = 10.0
MAX_FINGERPRINT = 100
_HASH = re.compile(r"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{40})(?![0-9a-f])")


class OpenAIModel:
    """One model on one server. `on_attempt` gets each try, including the SDK's retries."""

    def __init__(self, settings: OpenAISettings, on_attempt: OnAttempt | None = None) -> None:
        self.on_attempt = on_attempt
        self._settings = settings
        self._keys = read_key(settings)
        self._no_schema = ""  # why the server is no longer sent a JSON schema
        raise_file_limit(settings.concurrency + SPARE_FILES)
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
        # A pool, last in first out: the client returned last has a warm connection.
        self._pool: asyncio.LifoQueue[openai.AsyncOpenAI] = asyncio.LifoQueue()
        for number in range(settings.concurrency):
            self._pool.put_nowait(self._clients[number // CONNECTIONS])

    async def reply(self, request: Request) -> Reply:
        tries = TryReporter(request, self.on_attempt)
        constraint: Constraint = "off"
        if request.options and not self._no_schema:
            constraint = self._settings.constrain or "json_schema"
        client = await self._pool.get()
        try:
            current_tries.set(tries)
            try:
                body = await self._ask(client, request, constraint)
            except ModelFailure as refused:
                is_optional = constraint != "off" and self._settings.constrain is None
                if not is_optional or refused.status not in SCHEMA_REFUSED:
                    raise
                constraint = "off"
                self._no_schema = NO_SCHEMA.format(who="the server", why=refused)
                body = await self._ask(client, request, constraint)
        finally:
            self._pool.put_nowait(client)
        try:
            if tries.body_problem:
                raise make_failure("bad_answer", tries.body_problem)
            reply = read_completion(body, _max_tokens(request, constraint))
        except ModelFailure as failed:
            failed.billed = failed.billed or Reply("")
            tries.end(failed.kind)
            raise
        tries.end("ok")
        if constraint != "off":
            text = parse_answer(reply.text) if constraint == "json_schema" else reply.text.strip()
            reply = match_option(reply, (text,), request.options, "the server")
        elif request.options and self._no_schema:
            reply = replace(reply, note=self._no_schema)
        return replace(
            reply,
            text=redact(reply.text, self._keys),
            reported_model=redact(reply.reported_model or "", self._keys) or None,
            fingerprint=redact(reply.fingerprint or "", self._keys)[:MAX_FINGERPRINT] or None,
        )

    async def identify(self) -> dict[str, str]:
        """What the server tells about the revision of its model: hashes, by source.

        A file that llama.cpp names is hashed if the server is on this machine.
        """
        base = self._settings.base_url.rstrip("/")
        root, told = base.removesuffix("/v1"), {}
        names = {self._settings.model, f"{self._settings.model}:latest"}
        listed = _entries(await self._get(f"{base}/models"), "data")
        for entry in (each for each in listed if each.get("id") in names):
            for key in ("revision", "digest", "sha256", "sha", "root"):
                if found := _HASH.search(str(entry.get(key))):
                    told[f"/v1/models {key}"] = found[0]
        for entry in _entries(await self._get(f"{root}/api/tags"), "models"):
            if entry.get("name") in names and (found := _HASH.search(str(entry.get("digest")))):
                told["Ollama digest"] = found[0]
        if urlsplit(base).hostname in LOOPBACK:
            props = await self._get(f"{root}/props")
            path = props.get("model_path") if isinstance(props, dict) else None
            if isinstance(path, str) and (sha256 := await asyncio.to_thread(hash_gguf, Path(path))):
                told["GGUF sha256"] = sha256
        return told

    async def _get(self, url: str) -> Any:
        """Fetch JSON; None if the server has none there, or does not answer soon."""
        current_tries.set(TryReporter(Request(()), None))
        client = self._clients[0].with_options(max_retries=0)
        try:
            async with timeout(min(self._settings.timeout, MAX_SECONDS_TO_IDENTIFY)):
                return parse_json(await client.get(url, cast_to=str))
        except (openai.OpenAIError, TimeoutError, ValueError):
            return None

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    async def _ask(
        self, client: openai.AsyncOpenAI, request: Request, constraint: Constraint
    ) -> str:
        question: dict[str, Any] = {
            "messages": [message.as_dict() for message in request.messages],
            "temperature": request.sampling.temperature,
            "top_p": request.sampling.top_p,
            self._settings.length_key: _max_tokens(request, constraint),
            **_constraint_fields(constraint, request.options),
        }
        if self._settings.send_seed and request.seed is not None:
            question["seed"] = request.seed % 2**31  # llama.cpp takes no more
        create = client.chat.completions.with_raw_response.create
        try:
            # The SDK sends `extra_body` unchecked; validating a long history field by field would
            # dominate the time of a request.
            answer = await create(model=self._settings.model, messages=[], extra_body=question)
            body: str = answer.text
        except openai.APIError as error:
            raise self._failure(error) from None  # its text and request may contain the key
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
        # The server may have generated the whole reply by then.
        failed.billed = Reply("") if kind == "timeout" else None
        failed.status = getattr(error, "status_code", None)
        return failed


def _entries(listing: Any, key: str) -> list[dict[str, Any]]:
    found = listing.get(key) if isinstance(listing, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _max_tokens(request: Request, constraint: Constraint) -> int:
    return request.sampling.max_tokens + (JSON_TOKENS if constraint == "json_schema" else 0)


def _constraint_fields(constraint: Constraint, options: Sequence[str]) -> dict[str, Any]:
    """The fields of a request that constrain its reply to the options."""
    match constraint:
        case "json_schema":
            schema = {"name": "answer", "strict": True, "schema": answer_schema(options)}
            return {"response_format": {"type": "json_schema", "json_schema": schema}}
        case "choice":
            # vLLM renamed the key, and ignores unknown ones.
            return {"guided_choice": [*options], "structured_outputs": {"choice": [*options]}}
        case "grammar":
            rules = " | ".join(json.dumps(option, ensure_ascii=False) for option in options)
            return {"grammar": f"root ::= {rules}"}
        case "off":
            return {}


def read_key(settings: OpenAISettings) -> dict[str, str]:
    """Read the key of a server from its environment variable; empty if it needs none."""
    if settings.key_env is None:
        return {}
    key = os.environ.get(settings.key_env, "").strip()
    if not key:
        raise InputError(
            f"the environment variable {settings.key_env} is not set; put the key for "
            f"{settings.base_url} there, or remove key_env if the server needs none"
        )
    if not (key.isascii() and key.isprintable()):
        raise InputError(
            f"the key in the environment variable {settings.key_env} is not plain text"
        )
    return {settings.key_env: key}


def raise_file_limit(needed: int) -> None:
    """Raise the limit on open files for the connections; raise if the system does not allow it."""
    try:
        import resource  # noqa: PLC0415 - not on Windows
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


class TryReporter:
    """Reports the tries of one request. The model ends the last one, knowing if it was usable."""

    def __init__(self, request: Request, on_attempt: OnAttempt | None) -> None:
        self._request = request
        self._on_attempt = on_attempt
        self._number = 0
        self._started = 0.0
        self.body_problem = ""  # why the body of the last response was not read

    def begin(self) -> None:
        self._number += 1
        self.body_problem = ""
        self._started = time.perf_counter()

    def end(self, outcome: FailureKind | str) -> None:
        if self._on_attempt is not None:
            seconds = time.perf_counter() - self._started
            place = self._request.conversation, self._request.turn
            self._on_attempt(Try(*place, self._number, outcome, seconds))


current_tries: ContextVar[TryReporter] = ContextVar("tries")


def http_library() -> Any:
    """The HTTP library of the SDK: httpx or httpx2."""
    return sys.modules[openai.DefaultAsyncHttpxClient.__base__.__module__.partition(".")[0]]


class WatchedClient(openai.DefaultAsyncHttpxClient):
    """The SDK's HTTP client with a deadline for each try, reporting failed ones.

    `deadline` covers a try from the connection to the last byte. The timeouts of the HTTP library
    restart with each byte, so a server that drips its answer would never time out.
    """

    def __init__(self, deadline: float, certificates: ssl.SSLContext) -> None:
        super().__init__(follow_redirects=False, verify=certificates)
        self._deadline = deadline

    async def send(self, request: Any, **options: Any) -> Any:
        tries = current_tries.get()
        tries.begin()
        request.headers["Accept-Encoding"] = "gzip"
        try:
            async with timeout(self._deadline):
                answer = await super().send(request, **{**options, "stream": True})
                try:
                    response = await read_response(answer, request, tries)
                finally:
                    await answer.aclose()
        except TimeoutError as late:
            tries.end("timeout")
            # The SDK retries this type of error.
            raise http_library().ReadTimeout("deadline exceeded", request=request) from late
        except Exception as error:
            tries.end("timeout" if "Timeout" in type(error).__name__ else "connection")
            raise
        if response.status_code >= 300:
            tries.end(classify_status(response.status_code, response.text))
        return response


async def read_response(answer: Any, request: Any, tries: TryReporter) -> Any:
    """Read a response with its body, which is left out if it exceeds the limit."""
    packed = bytearray()
    async for chunk in answer.aiter_raw():
        packed += chunk
        if len(packed) > MAX_BODY_BYTES:
            break
    try:
        body = decompress(packed, answer.headers.get("Content-Encoding", ""))
    except ModelFailure as problem:
        body, tries.body_problem = b"", str(problem)
    headers = {
        name: value
        for name, value in answer.headers.items()
        if name not in {"content-encoding", "content-length", "content-type", "transfer-encoding"}
    }
    return type(answer)(answer.status_code, headers=headers, content=body, request=request)


def decompress(body: bytes | bytearray, encoding: str) -> bytes:
    """Decompress a body, up to the limit.

    >>> decompress(b"as sent", "identity")
    b'as sent'
    """
    data = bytes(body)
    if len(data) <= MAX_BODY_BYTES and encoding.strip().lower() in {"gzip", "x-gzip", "deflate"}:
        try:
            data = zlib.decompressobj(wbits=47).decompress(data, MAX_BODY_BYTES + 1)
        except zlib.error as error:
            raise make_failure("bad_answer", f"the body can't be decompressed ({error})") from None
    elif encoding.strip().lower() not in {"", "identity"}:
        raise make_failure("bad_answer", f"unsupported compression {encoding!r}")
    if len(data) > MAX_BODY_BYTES:
        raise make_failure("bad_answer", f"the body is larger than {MAX_BODY_BYTES >> 20} MB")
    return data


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Completion(BaseModel):
    choices: Annotated[list[_Choice], Field(min_length=1)]
    model: str | None = None
    system_fingerprint: Any = None
    usage: Any = None


_FINISH: dict[str | None, Finish] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "refusal",
    "refusal": "refusal",
}


def read_completion(body: str, max_tokens: int) -> Reply:
    """Read the first choice of a chat completion."""
    try:
        completion = _Completion.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        raise make_failure(
            "bad_answer", f"not a chat completion: {place}: {first['msg']}"
        ) from None
    usage = completion.usage if isinstance(completion.usage, dict) else {}
    counts = drop_invalid_usage(
        Reply(
            "",
            prompt_tokens=usage.get("prompt_tokens"),
            completion_tokens=usage.get("completion_tokens"),
        )
    )
    try:
        return _read_choice(completion, counts, max_tokens)
    except ModelFailure as failed:
        failed.billed = counts
        raise


def _read_choice(completion: _Completion, counts: Reply, max_tokens: int) -> Reply:
    choice, fingerprint = completion.choices[0], completion.system_fingerprint
    length = counts.completion_tokens
    # A reply cut short of its limit has hit the end of the context. Servers are off by one.
    if choice.finish_reason == "length" and length is not None and length < max_tokens - 1:
        raise make_failure(
            "overflow",
            f"the server cut the reply at {length} of {max_tokens} tokens: its context is full, or "
            "it limits replies",
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
        fingerprint=fingerprint if isinstance(fingerprint, str) else None,
    )
