"""Parsing chat completions."""

import json
import resource
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimeralab.core.errors import InputError
from chimeralab.models.openai import raise_file_limit, read_completion
from chimeralab.models.seam import ModelFailure, Reply

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "usage", "model", "finish_reason"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def completion(content: Any = "Hello.", finish: Any = "stop", **more: Any) -> str:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}}
    return json.dumps({"choices": [{**choice, "finish_reason": finish}], **more})


@given(JSON)
def test_any_json_is_a_reply_or_a_bad_answer(body: Any) -> None:
    try:
        reply = read_completion(json.dumps(body), 100)
    except ModelFailure as failed:
        assert failed.kind == "bad_answer"  # noqa: PT017
    else:
        assert isinstance(reply, Reply)


@given(st.text())
def test_any_text_survives(content: str) -> None:
    assert read_completion(completion(content), 100).text == content


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("stop", "stop"), ("length", "length"), ("content_filter", "refusal"), ("odd", "other"),
     (None, "other")],
)  # fmt: skip
def test_finish_reasons_are_translated(reason: str | None, finish: str) -> None:
    assert read_completion(completion(finish=reason), 100).finish == finish


def test_missing_usage_is_unknown_not_zero() -> None:
    reply = read_completion(completion(), 100)
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cost) == (None, None, None)


def test_usage_and_model_are_kept() -> None:
    usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    reply = read_completion(completion(usage=usage, model="served"), 100)
    assert (reply.prompt_tokens, reply.completion_tokens) == (12, 3)
    assert reply.reported_model == "served"


def test_reply_cut_before_its_limit_is_an_overflow() -> None:
    body = completion(finish="length", usage={"prompt_tokens": 500, "completion_tokens": 12})
    with pytest.raises(ModelFailure, match="12 of 64 tokens") as caught:
        read_completion(body, 64)
    assert caught.value.kind == "overflow"


@pytest.mark.parametrize("counted", [63, 64, 65])
def test_reply_cut_at_its_limit_is_a_reply(counted: int) -> None:
    body = completion(finish="length", usage={"completion_tokens": counted})
    assert read_completion(body, 64).finish == "length"


def test_bad_answer_says_what_is_wrong_with_it() -> None:
    with pytest.raises(ModelFailure, match=r"choices\.0\.message"):
        read_completion('{"choices": [{"message": "hello"}]}', 100)


def test_more_connections_than_files_are_refused_before_any_is_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allowed: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (256, 1024))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: allowed.append(limits))
    raise_file_limit(200)
    assert allowed == []
    raise_file_limit(1000)
    assert allowed == [(1000, 1024)]
    with pytest.raises(InputError, match=r"needs 1,100 open files and the system allows 1,024"):
        raise_file_limit(1100)
