"""The openai model against a real server on loopback, with and without faults."""

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from chimeralab.models.catalogue import EmbeddedSettings, InspectSettings, OpenAISettings
from chimeralab.models.openai import OpenAIModel, WatchedClient
from chimeralab.models.seam import Message, ModelFailure, Reply, Request, Sampling, Try
from tests.e2e.servers.choosy_server import ChoosyServer

NOBODY = "http://127.0.0.1:9/v1"
# Generous, so that a busy machine does not fail the tests.
PATIENT = 3_600.0


class Asked(NamedTuple):
    """The outcome of one request, and its attempts."""

    reply: Reply | None
    failure: ModelFailure | None
    tries: list[Try]

    @property
    def outcomes(self) -> list[str]:
        return [each.outcome for each in self.tries]


def question(text: str = "Say hi.", *, tokens: int = 4, turn: int = 1) -> Request:
    sampling = Sampling(temperature=0.0, max_tokens=tokens)
    return Request((Message("user", text),), sampling, 7, "talk", turn)


def ask(url: str, key_env: str | None = None, request: Request | None = None, **more: Any) -> Asked:
    """Put one question to a server."""
    tries: list[Try] = []

    async def once() -> Asked:
        settings = OpenAISettings("smollm2-test", url, key_env, **{"timeout": PATIENT, **more})
        model = OpenAIModel(settings, tries.append)
        try:
            return Asked(await model.reply(request or question()), None, tries)
        except ModelFailure as failure:
            return Asked(None, failure, tries)
        finally:
            await model.close()

    return asyncio.run(once())


def inspect_model(name: str, url: str) -> Any:
    return InspectSettings(f"openai-api/{name}", base_url=url, timeout=int(PATIENT)).open()


@pytest.mark.model
def test_real_server_answers_and_reports_usage_and_its_model(
    smollm_url: str, smollm_key: str
) -> None:
    reply = ask(smollm_url, smollm_key).reply
    assert reply is not None
    assert reply.text.strip()
    assert reply.finish == "length"
    assert reply.completion_tokens == 4
    assert reply.prompt_tokens is not None
    assert reply.prompt_tokens > 20  # the template brings a system prompt along
    assert reply.reported_model == "smollm2-test"


@pytest.mark.model
def test_same_seed_gives_same_text_on_the_server(smollm_url: str, smollm_key: str) -> None:
    request = Request((Message("user", "Name a colour."),), Sampling(1.0, 1.0, 6), seed=2**40 + 3)
    texts = {ask(smollm_url, smollm_key, request).reply.text for _ in range(2)}
    assert len(texts) == 1


@pytest.mark.model
def test_server_and_embedded_model_read_the_same_tokens(smollm_url: str, smollm_key: str) -> None:
    odd = "don't  STOP\n\n\tÜber 1234567 — 日本語 😀 e\u0301 a_b.c(); " * 2
    said = ("system", odd), ("user", odd), ("assistant", "x"), ("user", odd)
    history = Request(tuple(Message(*each) for each in said), Sampling(0.0, 1.0, 1))  # type: ignore[arg-type]
    served = ask(smollm_url, smollm_key, history).reply

    async def embedded() -> Reply:
        model = EmbeddedSettings(cache_gb=1).open()
        try:
            return await model.reply(history)
        finally:
            await model.close()

    assert served is not None
    assert served.prompt_tokens == asyncio.run(embedded()).prompt_tokens


@pytest.mark.model
def test_inspect_ai_reads_the_same_server(
    smollm_url: str, smollm_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("inspect_ai", reason="inspect-ai is an extra")
    monkeypatch.setenv("SMOL_API_KEY", os.environ[smollm_key])

    async def inspected() -> Reply:
        model = inspect_model("smol/smollm2-test", smollm_url)
        try:
            return await model.reply(question())
        finally:
            await model.close()

    reply = ask(smollm_url, smollm_key).reply
    assert reply is not None
    assert asyncio.run(inspected()) == replace(reply, fingerprint=None)  # which it does not pass on


@pytest.mark.model
def test_history_beyond_the_context_of_the_server_is_an_overflow(
    smollm_url: str, smollm_key: str
) -> None:
    asked = ask(smollm_url, smollm_key, question("word " * 600))
    assert asked.failure is not None
    assert asked.failure.kind == "overflow"
    assert asked.outcomes == ["overflow"]


@pytest.mark.model
def test_wrong_key_is_an_auth_failure_without_any_key_in_it(
    smollm_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER_KEY", "sk-wrong-9876543210")
    asked = ask(smollm_url, "OTHER_KEY")
    assert asked.failure is not None
    assert asked.failure.kind == "auth"
    assert "sk-wrong" not in str(asked.failure)


@pytest.mark.model
def test_transient_faults_are_retried_and_every_attempt_reported(
    smollm_url: str, smollm_key: str, fault_proxy: Callable[..., Any]
) -> None:
    proxy = fault_proxy(smollm_url, ["busy", "broken", "drop", "half_answer"])
    asked = ask(proxy.url, smollm_key, max_retries=4)
    assert asked.reply is not None
    assert asked.outcomes == ["rate_limit", "server", "connection", "connection", "ok"]
    assert [each.number for each in asked.tries] == [1, 2, 3, 4, 5]
    assert {(each.conversation, each.turn) for each in asked.tries} == {("talk", 1)}
    assert proxy.seen == ["busy", "broken", "drop", "half_answer", "pass"]


def test_stalled_server_is_a_timeout(fault_proxy: Callable[..., Any]) -> None:
    proxy = fault_proxy(NOBODY, ["stall"])
    asked = ask(proxy.url, timeout=0.2, max_retries=0)
    assert asked.failure is not None
    assert asked.failure.kind == "timeout"
    assert asked.outcomes == ["timeout"]


@pytest.mark.parametrize("fault", ["drip", "drip_headers", "endless_continue", "endless_events"])
def test_server_that_never_ends_its_answer_is_a_timeout_however_often_it_sends(
    fault: str, fault_proxy: Callable[..., Any]
) -> None:
    proxy = fault_proxy(NOBODY, [fault] * 2)
    asked = ask(proxy.url, timeout=0.4, max_retries=1)
    assert asked.failure is not None
    assert asked.failure.kind == "timeout"
    assert asked.outcomes == ["timeout", "timeout"]
    assert all(each.seconds > 0.3 for each in asked.tries)


def test_oversized_body_is_not_retried(fault_proxy: Callable[..., Any]) -> None:
    proxy = fault_proxy(NOBODY, ["flood"] * 5)
    asked = ask(proxy.url, max_retries=4)
    assert "larger than 8 MB" in str(asked.failure)
    assert proxy.seen == ["flood"]


def test_redirect_is_not_followed(fault_proxy: Callable[..., Any]) -> None:
    proxy = fault_proxy(NOBODY, ["moved", "fine"])
    asked = ask(proxy.url, max_retries=4)
    assert "302" in str(asked.failure)
    assert proxy.seen == ["moved"]


@pytest.mark.parametrize(
    ("fault", "counts", "note"),
    [
        ("huge_usage", (None, 2), f"prompt_tokens {10**25} is not a count"),
        (
            "negative_usage",
            (None, None),
            "prompt_tokens -5000000 is not a count; completion_tokens -5000000 is not a count",
        ),
        ("usage_in_words", (None, None), "prompt_tokens (str) is not a count"),
        ("usage_is_a_list", (None, None), None),
    ],
)
def test_wrong_usage_is_unknown_and_noted_and_the_reply_kept(
    fault: str, counts: Any, note: str | None, fault_proxy: Callable[..., Any]
) -> None:
    reply = ask(fault_proxy(NOBODY, [fault]).url, max_retries=0).reply
    assert reply is not None
    assert reply.text == "Paid for."
    assert (reply.prompt_tokens, reply.completion_tokens) == counts
    assert reply.note == note


def test_server_that_is_down_is_a_connection_failure() -> None:
    asked = ask(NOBODY, max_retries=0)
    assert asked.failure is not None
    assert asked.failure.kind == "connection"
    assert NOBODY in str(asked.failure)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("busy", "rate_limit"),
        ("broken", "server"),
        ("drop", "connection"),
        ("half_answer", "connection"),
        ("garbage", "bad_answer"),
        ("not_utf8", "bad_answer"),
        ("list", "bad_answer"),
        ("no_choices", "bad_answer"),
        ("page", "bad_answer"),
        ("null", "bad_answer"),
        ("too_long", "overflow"),
        ("policy", "refused"),
        ("unknown_model", "server"),
        ("echo_key", "auth"),
        ("flood", "bad_answer"),
        ("error_flood", "server"),
        ("gzip_bomb", "bad_answer"),
        ("gzip_in_gzip", "bad_answer"),
        ("not_gzip", "bad_answer"),
        ("odd_packing", "bad_answer"),
        ("odd_charset", "bad_answer"),
        ("moved", "bad_answer"),
        ("moved_for_good", "bad_answer"),
    ],
)
def test_every_fault_has_its_kind(fault: str, kind: str, fault_proxy: Callable[..., Any]) -> None:
    asked = ask(fault_proxy(NOBODY, [fault]).url, max_retries=0)
    assert asked.failure is not None
    assert asked.failure.kind == kind
    assert asked.outcomes == [kind]


@pytest.mark.parametrize(
    ("fault", "text"), [("filtered", ""), ("refusal", "I can't help with that.")]
)
def test_refusals_are_replies(fault: str, text: str, fault_proxy: Callable[..., Any]) -> None:
    reply = ask(fault_proxy(NOBODY, [fault]).url, max_retries=0).reply
    assert reply is not None
    assert (reply.finish, reply.text) == ("refusal", text)


@pytest.mark.parametrize(
    "fault", ["echo_key", "reply_with_key", "key_in_two", "error_with_key_in_two"]
)
def test_key_echoed_by_the_server_is_redacted(
    fault: str,
    smollm_key: str,
    fault_proxy: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    asked = ask(fault_proxy(NOBODY, [fault]).url, smollm_key, max_retries=0)
    assert f"<{smollm_key}>" in str(asked)
    for planted in ("sk-planted", "do-not-print"):
        assert planted not in str(asked)
        assert planted not in repr(asked.failure)
        assert planted not in caplog.text


@pytest.mark.parametrize("places", [2, 20])
def test_concurrency_limit_holds(
    fault_proxy: Callable[..., Any], places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = fault_proxy(NOBODY, ["held"] * (places + 4))
    under_way, send = [0], WatchedClient.send

    async def counted(client: Any, request: Any, **options: Any) -> Any:
        under_way.append(under_way[-1] + 1)
        try:
            return await send(client, request, **options)
        finally:
            under_way.append(under_way[-1] - 1)

    monkeypatch.setattr(WatchedClient, "send", counted)

    async def many() -> list[Reply]:
        settings = OpenAISettings("m", proxy.url, None, timeout=PATIENT, concurrency=places)
        model = settings.open()
        asking = [asyncio.create_task(model.reply(question())) for _ in range(places + 4)]
        for _ in range(places):
            await asyncio.to_thread(proxy.arrivals.acquire)
        proxy.release.set()
        replies = await asyncio.gather(*asking)
        await model.close()
        return replies

    assert [reply.text for reply in asyncio.run(many())] == ["Fine."] * (places + 4)
    assert max(under_way) == places


CITIES = ("Rome", "New York (US)", 'the "Old" Town')


def choice(seed: int = 1, tokens: int = 24) -> Request:
    said = Message("user", "Tell me about the sea.")
    return Request((said,), Sampling(1.0, 1.0, tokens), seed, "talk", 1, options=CITIES)


@pytest.mark.model
@pytest.mark.parametrize("how", [None, "json_schema", "grammar"])
def test_real_server_is_constrained_to_the_options(
    smollm_url: str, smollm_key: str, how: Any
) -> None:
    found = [ask(smollm_url, smollm_key, choice(seed), constrain=how).reply for seed in (1, 2)]
    assert {reply.text for reply in found if reply} <= set(CITIES)
    assert [reply.note for reply in found if reply] == [None, None]


@pytest.mark.model
def test_real_server_is_constrained_to_the_options_through_inspect(
    smollm_url: str, smollm_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("inspect_ai", reason="inspect-ai is an extra")
    monkeypatch.setenv("LOCAL_API_KEY", os.environ[smollm_key])

    async def asked() -> list[Reply]:
        model = inspect_model("local/smollm2", smollm_url)
        try:
            return [await model.reply(choice(seed)) for seed in (1, 2)]
        finally:
            await model.close()

    found = asyncio.run(asked())
    assert {reply.text for reply in found} <= set(CITIES)
    assert [reply.note for reply in found] == [None, None]


@pytest.mark.model
def test_unconstrained_server_answers_in_free_text(smollm_url: str, smollm_key: str) -> None:
    free = ask(smollm_url, smollm_key, choice(), constrain="off").reply
    # llama.cpp knows no key of vLLM's, and ignores it: the reply is kept as it is, and noted.
    ignored = ask(smollm_url, smollm_key, choice(), constrain="choice").reply
    assert free is not None
    assert ignored is not None
    assert free.text not in CITIES
    assert free.note is None
    assert ignored.note == "the server ignored the options"


def test_server_that_rejects_a_schema_is_asked_in_the_prompt() -> None:
    with ChoosyServer() as server:

        async def twice() -> list[Reply]:
            model = OpenAIModel(OpenAISettings("m", server.url, max_retries=0))
            try:
                return [await model.reply(choice()), await model.reply(choice())]
            finally:
                await model.close()

        replies = asyncio.run(twice())
    assert ["response_format" in each for each in server.asked] == [True, False, False]
    assert [reply.text for reply in replies] == ["Rome", "Rome"]
    assert all("accepts no JSON schema" in str(reply.note) for reply in replies)


def test_vllm_gets_its_choice_under_both_of_its_names() -> None:
    with ChoosyServer() as server:
        assert ask(server.url, request=choice(), constrain="choice").reply is not None
    assert server.asked[0]["guided_choice"] == list(CITIES)
    assert server.asked[0]["structured_outputs"] == {"choice": list(CITIES)}
    assert server.asked[0]["max_tokens"] == 24
