"""Models through inspect-ai, where it is installed."""

import asyncio
import json
import sys
from dataclasses import replace
from typing import Any

import pytest

from chimeralab.core.errors import InputError
from chimeralab.models.catalogue import InspectSettings
from chimeralab.models.seam import Message, ModelFailure, Reply, Request, Sampling

KEY = "sk-planted-0123456789"
REQUEST = Request(
    (Message("system", "Be brief."), Message("user", "Hi."), Message("assistant", "Yes?"),
     Message("user", "Go on.")), Sampling(0.5, 0.9, 7), 11,
)  # fmt: skip


class StatusError(Exception):
    """An error of a provider: a message and an HTTP status."""

    def __init__(self, status_code: int, message: str) -> None:
        super().__init__(message)
        self.status_code = status_code


@pytest.fixture(scope="module")
def provider() -> str:
    """A provider of inspect-ai that behaves as its model is named, and records requests."""
    inspect = pytest.importorskip("inspect_ai.model", reason="inspect-ai is an extra")

    @inspect.modelapi(name="chimeratest")  # type: ignore[untyped-decorator, unused-ignore]
    class Ordered(inspect.ModelAPI):  # type: ignore[misc, name-defined, unused-ignore]
        async def generate(self, input: Any, tools: Any, tool_choice: Any, config: Any) -> Any:  # noqa: A002
            if self.model_name == "busy":
                raise StatusError(429, f"slow down, {KEY}")
            if self.model_name == "long":
                raise StatusError(400, "maximum context length is 10")
            if schema := config.response_schema:
                options = schema.json_schema.properties["answer"].enum
                if self.model_name == "strict":
                    raise StatusError(400, "response_format is not supported")
                if self.model_name == "kept":
                    text = json.dumps({"answer": options[-1]})
                    return inspect.ModelOutput.from_content("served", text)
                if self.model_name == "plain":
                    return inspect.ModelOutput.from_content("served", f"{options[0]}\n")
            said = [f"{message.role}={message.text}" for message in input]
            how = f"{config.temperature} {config.top_p} {config.max_tokens} {config.seed}"
            output = inspect.ModelOutput.from_content("served", "; ".join([*said, how]))
            output.choices[0].stop_reason = self.model_name
            output.usage = inspect.ModelUsage(input_tokens=9, output_tokens=4, total_tokens=13)
            return output

    return "chimeratest"


def ask(name: str, options: tuple[str, ...] = (), times: int = 1) -> Reply:
    async def asked() -> Reply:
        model = InspectSettings(name, max_retries=0).open()
        try:
            for _ in range(times):
                reply = await model.reply(replace(REQUEST, options=options))
            return reply
        finally:
            await model.close()

    return asyncio.run(asked())


@pytest.mark.parametrize(("name", "answer"), [("kept", "Oslo"), ("plain", "Rome")])
def test_reply_is_constrained_to_its_options(provider: str, name: str, answer: str) -> None:
    reply = ask(f"{provider}/{name}", ("Rome", "Oslo"))
    assert (reply.text, reply.note) == (answer, None)


def test_a_provider_that_ignores_the_options_is_noted(provider: str) -> None:
    reply = ask(f"{provider}/stop", ("Rome", "Oslo"))
    assert "user=Go on." in reply.text
    assert " 23 " in reply.text  # seven tokens, and those of the object around an option
    assert reply.note == "the provider ignored the options"


@pytest.mark.parametrize("times", [1, 2])
def test_provider_without_schemas_is_asked_without_one(provider: str, times: int) -> None:
    reply = ask(f"{provider}/strict", ("Rome", "Oslo"), times)
    assert " 7 " in reply.text
    assert reply.note is not None
    assert reply.note.startswith("the provider accepts no JSON schema (")


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    monkeypatch.setitem(sys.modules, "inspect_ai.model", None)
    with pytest.raises(InputError, match=r"chimera-lab\[inspect\]"):
        InspectSettings("openai/gpt-4o").open()


def test_history_and_sampling_reach_the_provider(provider: str) -> None:
    assert ask(f"{provider}/stop") == Reply(
        "system=Be brief.; user=Hi.; assistant=Yes?; user=Go on.; 0.5 0.9 7 11",
        "stop", 9, 4, "served",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "finish"), [("max_tokens", "length"), ("content_filter", "refusal")]
)
def test_stop_reasons_are_translated(provider: str, reason: str, finish: str) -> None:
    assert ask(f"{provider}/{reason}").finish == finish


@pytest.mark.parametrize(
    ("name", "kind"), [("busy", "rate_limit"), ("long", "overflow"), ("model_length", "overflow")]
)
def test_failures_have_their_kind_and_no_key(
    provider: str, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHIMERATEST_API_KEY", KEY)
    with pytest.raises(ModelFailure) as caught:
        ask(f"{provider}/{name}")
    assert caught.value.kind == kind
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("name", ["nosuchprovider/model", "openai/gpt-4o"])
def test_model_that_cannot_be_opened_is_named(
    provider: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(InputError, match=name):
        InspectSettings(name).open()
