"""Streams of the hosts' own packages, cut where they repeat themselves and not elsewhere."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest

from chimeralab import LoopDetected
from chimeralab.detection.streams import MessageStreams
from chimeralab.integrations.streaming import guard_async_stream, guard_stream

pytestmark = pytest.mark.integrations
pytest.importorskip("litellm", reason="`make test-integrations` brings it")

CHANT = "Well, it is this: " + "court <br>" * 400
HEALTHY = " ".join(f"Line {n} of {n * n % 97} is about topic {n * 31 % 89}." for n in range(120))
Stream = Callable[[str], Iterable[Any]]


def openai_body(text: str) -> bytes:
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
    chunks = [{"index": 0, "delta": {"content": piece}} for piece in pieces]
    lines = [f"data: {json.dumps({**head, 'choices': [each]})}\n\n" for each in chunks]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


def openai_stream(text: str) -> Iterable[Any]:
    import httpx2
    import openai

    reply = httpx2.Response(
        200, headers={"content-type": "text/event-stream"}, content=openai_body(text)
    )
    transport = httpx2.MockTransport(lambda request: reply)
    client = openai.OpenAI(api_key="none", http_client=httpx2.Client(transport=transport))
    ask: Any = [{"role": "user", "content": "Go."}]
    return client.chat.completions.create(model="m", messages=ask, stream=True)


def litellm_stream(text: str) -> Iterable[Any]:
    import litellm

    ask = [{"role": "user", "content": "Go."}]
    return litellm.completion(model="gpt-4o", messages=ask, mock_response=text, stream=True)


def said(chunks: Iterable[Any]) -> str:
    return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")


@pytest.mark.parametrize("stream", [openai_stream, litellm_stream])
def test_stream_is_cut_at_a_chant_and_ended_with_a_finish_reason(stream: Stream) -> None:
    chunks = list(guard_stream(stream(CHANT), on_cut="end"))
    assert len(said(chunks)) < 640
    assert chunks[-1].choices[0].finish_reason == "length"
    with pytest.raises(LoopDetected, match="You have written “court <br>” 60 times in a row"):
        list(guard_stream(stream(CHANT)))


@pytest.mark.parametrize("stream", [openai_stream, litellm_stream])
def test_healthy_stream_passes_untouched(stream: Stream) -> None:
    assert said(guard_stream(stream(HEALTHY))) == HEALTHY


@pytest.mark.parametrize("stream", [openai_stream, litellm_stream])
def test_fault_of_the_guard_and_its_switch_leave_the_stream_alone(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said(guard_stream(stream(CHANT), enabled=False)) == CHANT

    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr(MessageStreams, "feed", fail)
    assert said(guard_stream(stream(CHANT))) == CHANT


def test_async_streams_of_litellm_and_openai_are_cut() -> None:
    import httpx2
    import litellm
    import openai

    ask: Any = [{"role": "user", "content": "Go."}]

    async def gather(chunks: Any) -> list[Any]:
        return [chunk async for chunk in guard_async_stream(chunks, on_cut="end")]

    async def run() -> list[list[Any]]:
        given: Any = await litellm.acompletion(
            model="gpt-4o", messages=ask, mock_response=CHANT, stream=True
        )
        reply = httpx2.Response(
            200, headers={"content-type": "text/event-stream"}, content=openai_body(CHANT)
        )
        transport = httpx2.MockTransport(lambda request: reply)
        async with httpx2.AsyncClient(transport=transport) as http:
            client = openai.AsyncOpenAI(api_key="none", http_client=http)
            stream = await client.chat.completions.create(model="m", messages=ask, stream=True)
            return [await gather(given), await gather(stream)]

    for chunks in asyncio.run(run()):
        assert len(said(chunks)) < 640
        assert chunks[-1].choices[0].finish_reason == "length"


def test_proxy_of_litellm_ends_the_stream() -> None:
    import litellm

    from chimeralab.integrations.litellm import LoopGuard

    async def run() -> list[Any]:
        ask = [{"role": "user", "content": "Go."}]
        given = await litellm.acompletion(
            model="gpt-4o", messages=ask, mock_response=CHANT, stream=True
        )
        hook = LoopGuard().async_post_call_streaming_iterator_hook(None, given, {})
        return [chunk async for chunk in hook]

    assert len(said(asyncio.run(run()))) < 640


def test_callback_of_langchain_ends_the_call_of_the_model() -> None:
    from langchain_core.language_models import FakeListChatModel

    from chimeralab.integrations.langchain import StreamingGuard

    guard = StreamingGuard()
    config: Any = {"callbacks": [guard]}

    def stream(text: str) -> str:
        model = FakeListChatModel(responses=[text])
        return "".join(str(each.content) for each in model.stream("Go.", config))

    async def stream_async(text: str) -> None:
        model = FakeListChatModel(responses=[text])
        async for _ in model.astream("Go.", config):
            pass

    assert stream(HEALTHY) == HEALTHY
    with pytest.raises(LoopDetected, match="“court <br>” 60 times"):
        stream(CHANT)
    with pytest.raises(LoopDetected, match="“court <br>” 60 times"):
        asyncio.run(stream_async(CHANT))
    assert not guard._streams


def claude_events(text: str, kind: str) -> Any:
    from claude_agent_sdk.types import StreamEvent

    field = {"text_delta": "text", "thinking_delta": "thinking"}[kind]

    async def events() -> AsyncIterator[Any]:
        yield StreamEvent(uuid="u", session_id="s", event={"type": "message_start"})
        for at in range(0, len(text), 9):
            delta = {"type": kind, field: text[at : at + 9]}
            event = {"type": "content_block_delta", "index": 0, "delta": delta}
            yield StreamEvent(uuid="u", session_id="s", event=event)

    return events()


@pytest.mark.parametrize("kind", ["text_delta", "thinking_delta"])
def test_partial_messages_of_claude_are_cut_or_claude_is_interrupted(kind: str) -> None:
    from chimeralab.integrations.claude_agent_sdk import guard_messages

    interrupted = []

    async def interrupt() -> None:
        interrupted.append(True)

    async def run(text: str, **given: Any) -> int:
        return len([each async for each in guard_messages(claude_events(text, kind), **given)])

    assert asyncio.run(run(HEALTHY)) == len(HEALTHY) // 9 + 2
    with pytest.raises(LoopDetected, match="“court <br>” 60 times"):
        asyncio.run(run(CHANT))
    asyncio.run(run(CHANT, interrupt=interrupt))
    assert interrupted == [True]
