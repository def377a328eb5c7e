"""The embedded model on its real weights."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chimeralab.core.errors import WeightsError
from chimeralab.models.catalogue import EmbeddedSettings
from chimeralab.models.embedded import EmbeddedModel
from chimeralab.models.seam import Message, ModelFailure, Reply, Request, Sampling

pytestmark = pytest.mark.model


def question(text: str, *, seed: int | None = 1, tokens: int = 12) -> Request:
    return Request((Message("user", text),), Sampling(0.8, 0.95, tokens), seed)


def ask(model: EmbeddedModel, *requests: Request) -> list[Reply]:
    async def together() -> list[Reply]:
        return await asyncio.gather(*(model.reply(request) for request in requests))

    return asyncio.run(together())


@pytest.fixture(scope="module")
def model() -> Iterator[EmbeddedModel]:
    model = EmbeddedSettings(cache_gb=1).open()
    yield model
    asyncio.run(model.close())


@pytest.fixture
def deterministic() -> Iterator[EmbeddedModel]:
    model = EmbeddedSettings(deterministic=True, cache_gb=1).open()
    yield model
    asyncio.run(model.close())


def test_many_questions_are_answered_concurrently(model: EmbeddedModel) -> None:
    replies = ask(model, *(question(f"Name animal number {n}.", seed=n) for n in range(6)))
    assert all(reply.text.strip() for reply in replies)
    for reply in replies:
        assert reply.prompt_tokens is not None
        assert reply.prompt_tokens > 20
        assert reply.completion_tokens is not None
        assert 1 <= reply.completion_tokens <= 12
        assert reply.finish == ("stop" if reply.completion_tokens < 12 else reply.finish)
    assert "SmolLM2-135M-Instruct" in str(replies[0].reported_model)


def test_reply_ends_at_max_tokens(model: EmbeddedModel) -> None:
    (reply,) = ask(model, question("Tell me a very long story about the sea.", tokens=3))
    assert (reply.finish, reply.completion_tokens) == ("length", 3)


def test_zero_temperature_takes_the_likeliest_word(model: EmbeddedModel) -> None:
    greedy = Request((Message("user", "What is two plus two?"),), Sampling(0.0, 1.0, 6))
    first, second = (ask(model, greedy)[0].text for _ in range(2))
    assert first == second


def test_history_beyond_the_context_is_an_overflow_and_the_next_question_is_answered(
    model: EmbeddedModel,
) -> None:
    with pytest.raises(ModelFailure, match="model's context of 8192 tokens") as caught:
        ask(model, question("word " * 9000))
    assert caught.value.kind == "overflow"
    assert ask(model, question("Hello."))


def test_max_tokens_count_towards_the_context(model: EmbeddedModel) -> None:
    with pytest.raises(ModelFailure, match="a reply of 8192 exceed"):
        ask(model, question("Hello.", tokens=8192))


@pytest.mark.kill
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGSTOP")
def test_engine_that_was_killed_fails_by_name_and_is_started_again(model: EmbeddedModel) -> None:
    async def killed() -> None:
        assert model._process is not None
        engine = model._process._process
        engine.send_signal(signal.SIGSTOP)  # so that it can't be done before it is killed
        asking = asyncio.create_task(model.reply(question("Tell me a story.", tokens=500)))
        await asyncio.sleep(0)  # the question is in the pipe
        engine.kill()
        await asking

    ask(model, question("Hello."))
    with pytest.raises(ModelFailure, match="the engine ended") as caught:
        asyncio.run(killed())
    assert caught.value.kind == "server"
    assert ask(model, question("Hello."))


ASK_FOR_LONG = """
import asyncio
from chimeralab.models.catalogue import EmbeddedSettings
from chimeralab.models.seam import Message, Request, Sampling

async def ask():
    model = EmbeddedSettings(cache_gb=1).open()
    await model.reply(Request((Message("user", "Hello."),), Sampling(max_tokens=1)))
    print("loaded", flush=True)
    await model.reply(Request((Message("user", "Count on."),), Sampling(max_tokens=8000)))
    await asyncio.Event().wait()  # until it is killed

asyncio.run(ask())
"""


@pytest.mark.kill
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_engine_ends_when_its_run_is_killed() -> None:
    run = subprocess.Popen([sys.executable, "-c", ASK_FOR_LONG], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)  # fmt: skip
    assert run.stdout is not None
    assert run.stdout.readline() == b"loaded\n"
    run.send_signal(signal.SIGKILL)
    # The engine holds the error stream too, so this returns only when it has ended as well.
    run.communicate()
    assert run.returncode == -signal.SIGKILL


def test_same_seed_gives_the_same_text_in_a_batch_and_in_a_new_process(
    deterministic: EmbeddedModel,
) -> None:
    wanted = question("Describe a harbour at dawn.", seed=7, tokens=12)
    company = [question(f"Describe street {n}.", seed=n, tokens=4) for n in range(3)]
    (alone,) = ask(deterministic, wanted)
    in_company = ask(deterministic, *company[:1], wanted, *company[1:])[1]
    asyncio.run(deterministic.close())
    (afresh,) = ask(deterministic, wanted)
    assert alone == in_company == afresh


def test_file_that_is_not_a_model_is_named(tmp_path: Path) -> None:
    path = tmp_path / "no-model.gguf"
    path.write_bytes(b"GGUF and then nothing")
    with pytest.raises(WeightsError, match=r"no-model\.gguf"):
        ask(EmbeddedModel(EmbeddedSettings(), path), question("Hello."))


ODD = ("Rome", "Plan A (the first)", "0.5 + [x]", "Zürich", "a|b")


def test_reply_is_constrained_to_options_with_any_characters(model: EmbeddedModel) -> None:
    asked = [
        replace(question(f"Say something about city {n}.", seed=n, tokens=24), options=ODD)
        for n in range(8)
    ]
    replies = ask(model, *asked)
    assert {reply.text for reply in replies} <= set(ODD)
    assert {reply.finish for reply in replies} == {"stop"}
