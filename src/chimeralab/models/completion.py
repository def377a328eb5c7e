"""A chat completion as a server sends it, read strictly: what does not fit is a bad answer."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from chimeralab.models.failures import failure
from chimeralab.models.seam import Finish, Reply

_FINISH: dict[str | None, Finish] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "refusal",
    "refusal": "refusal",
}


@dataclass(frozen=True, slots=True)
class _Message:
    content: str | None = None
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class _Choice:
    message: _Message
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class _Usage:
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class _Completion:
    choices: Annotated[list[_Choice], Field(min_length=1)]
    model: str | None = None
    usage: _Usage | None = None


_COMPLETION = TypeAdapter(_Completion)


def read_completion(body: str, max_tokens: int) -> Reply:
    """The first choice as a reply."""
    try:
        completion = _COMPLETION.validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        raise failure("bad_answer", f"no chat completion: {place}: {first['msg']}") from None
    choice, usage = completion.choices[0], completion.usage or _Usage()
    _refuse_cut(choice, usage, max_tokens)
    return Reply(
        text=_text(choice),
        finish="refusal" if choice.message.refusal else _FINISH.get(choice.finish_reason, "other"),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        reported_model=completion.model,
    )


def _text(choice: _Choice) -> str:
    text = choice.message.refusal or choice.message.content
    if text is None and _FINISH.get(choice.finish_reason) != "refusal":
        raise failure("bad_answer", "the content of the answer is null")
    return text or ""


def _refuse_cut(choice: _Choice, usage: _Usage, max_tokens: int) -> None:
    """A reply cut before its limit ran into the end of the context. Servers count within one."""
    length = usage.completion_tokens
    if choice.finish_reason == "length" and length is not None and length < max_tokens - 1:
        raise failure(
            "overflow",
            f"the server cut the reply at {length} of {max_tokens} tokens: the history fills its "
            "context, or it allows no longer replies",
        )
