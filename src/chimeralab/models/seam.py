"""The seam where language models are exchanged: a request in, a reply out, failures by name.

A plan names a model by a frozen dataclass whose fields are its settings, and whose `open()` gives
the `Model`: `use = "openai"` for ours (see `catalogue`), `use = "module:Class"` for your own. It is
known by the name that the plan gives it, and as whatever its replies report as `reported_model`.

Beyond `reply`, a model may have `async close()` if it holds on to something (a process,
connections), and an attribute `on_attempt` if it retries on its own and tells of every `Try`.
Settings that name files may have `within(folder)`, which gives them as seen from the study.

In a trial, a model sees an opaque id in the place of the conversation, and neither the solution nor
the name of a probe. Only one with `backstage = True` gets them: a phantom, which acts on them, or a
replay, which looks its answers up by them.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol

from chimeralab.core.errors import ChimeraError
from chimeralab.core.parts import Seam
from chimeralab.core.records import Record
from chimeralab.core.text import redact

Role = Literal["system", "user", "assistant"]
Finish = Literal["stop", "length", "refusal", "other"]
FailureKind = Literal[
    "rate_limit", "server", "connection", "timeout", "bad_answer", "overflow", "auth", "refused",
    "lost"
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Message(Record):
    """One message of the history as the asked model sees it."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Sampling(Record):
    """How a reply is drawn."""

    temperature: float = 0.7
    top_p: float = 0.95
    max_tokens: int = 256


@dataclass(frozen=True, slots=True)
class SubjectTurn(Record):
    """One turn for a subject that keeps its own memory: the newest message, and nothing before it.

    `gone` names the earlier turns that it must not remember meanwhile; `answer` is what it
    answered, once it has.
    """

    text: str
    gone: tuple[int, ...] = ()
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Request(Record):
    """One question to a model; `conversation` and `turn` say where it belongs.

    A `probe` is asked in a fork of the conversation. `key` is the solution, for subjects
    whose behaviour is set in advance; no other model gets it. `history` has every turn up to this
    one, for a subject that keeps its own memory. Where there are `options`, one of them is wanted
    as the whole reply: a model that can be held to that is, and any other answers as it likes.
    """

    messages: tuple[Message, ...]
    sampling: Sampling = field(default_factory=Sampling)
    seed: int | None = None
    conversation: str = ""
    turn: int = 0
    probe: str = ""
    key: Mapping[str, Any] | None = None
    history: tuple[SubjectTurn, ...] = ()
    options: tuple[str, ...] = ()

    def blind(self, session: str) -> "Request":
        """The same question without anything that tells what it is asked for."""
        return replace(self, conversation=session, probe="", key=None)


@dataclass(frozen=True, slots=True)
class Reply(Record):
    """What a model answered, with what it says it cost. Unknown counts are None.

    `note` says what was wrong with an answer that is kept all the same.
    """

    text: str
    finish: Finish = "stop"
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reported_model: str | None = None
    cost: float | None = None
    note: str | None = None


# No context holds more, and the store takes no number that is much larger.
MAX_TOKENS = 10**9


def drop_invalid_usage(reply: Reply) -> Reply:
    """The reply without counts and costs that can't be: those are unknown, and noted.

    >>> drop_invalid_usage(Reply("Hi.", prompt_tokens=10**25, completion_tokens=2)).prompt_tokens
    >>> drop_invalid_usage(Reply("Hi.", completion_tokens=-5)).note
    'completion_tokens -5 is not a count'
    """
    wrong: dict[str, Any] = {
        name: value
        for name in ("prompt_tokens", "completion_tokens")
        if (value := getattr(reply, name)) is not None
        and not (type(value) is int and 0 <= value <= MAX_TOKENS)
    }
    notes = [f"{name} {_shown(value)} is not a count" for name, value in wrong.items()]
    cost = reply.cost
    if cost is not None and not (isinstance(cost, int | float) and 0 <= cost < math.inf):
        wrong["cost"] = cost
        notes.append(f"cost {_shown(cost)} is not an amount")
    if not wrong:
        return reply
    note = "; ".join([*filter(None, [reply.note]), *notes])
    unknown: dict[str, Any] = dict.fromkeys(wrong)
    return replace(reply, note=note, **unknown)


def _shown(value: Any) -> str:
    """A number as it is; of anything else only its type, for it may be long or hold a key."""
    is_short = isinstance(value, int | float) and abs(value) < 10**30
    return repr(value) if is_short else f"({type(value).__name__})"


class Model(Protocol):
    """Anything that answers a request. It may be asked many things at once."""

    async def reply(self, request: Request) -> Reply: ...


# A model of a plan is opened; what it needs is read where it says so.
SEAM = Seam("open", {"needs_network": bool, "weights": str})


class ModelFailure(ChimeraError):
    """A model gave no usable reply. `kind` is what gets recorded as the reason of the attempt, and
    `status` what a server answered instead of one."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.status: int | None = None


class Try(NamedTuple):
    """One question on the wire. `outcome` is "ok" or the kind of the failure; numbers go from 1."""

    conversation: str
    turn: int
    number: int
    outcome: str
    seconds: float


OnAttempt = Callable[[Try], None]

_BY_STATUS: dict[int, FailureKind] = {
    401: "auth",
    403: "auth",
    408: "timeout",
    429: "rate_limit",
    504: "timeout",
}
_OVERFLOW = re.compile(
    r"context.?(length|size|window)|(prompt|input).{0,20}too long", re.IGNORECASE
)
_POLICY = re.compile(r"content.?(filter|policy|management policy)|moderation", re.IGNORECASE)
_MAX_MESSAGE = 300


def classify_status(status: int, words: str) -> FailureKind:
    """What the status of an answer without a reply means; a redirect is not followed.

    >>> classify_status(400, "This model's maximum context length is 8192 tokens")
    'overflow'
    >>> classify_status(503, "context length")
    'server'
    >>> classify_status(302, "")
    'bad_answer'
    """
    if status < 400:
        return "bad_answer"
    if status in {400, 413, 422} and _OVERFLOW.search(words):
        return "overflow"
    if status in {400, 403} and _POLICY.search(words):
        return "refused"
    return _BY_STATUS.get(status, "server")


def make_failure(
    kind: FailureKind, words: str, keys: Mapping[str, str] | None = None
) -> ModelFailure:
    """A failure whose message is short and holds none of the keys; see `redact`."""
    words = redact(words, keys)
    if len(words) > _MAX_MESSAGE:
        words = words[:_MAX_MESSAGE] + " …"
    return ModelFailure(kind, words)


# A reply can be held to the options of a question by a JSON schema, where a server or provider
# takes one. It wants an object with one field, since few take a bare choice; this is what the
# object takes beside the option.
JSON_TOKENS = 16
# A question with a schema that is answered so may do without it.
SCHEMA_REFUSED = (400, 404, 415, 422, 501)
NO_SCHEMA = "{who} takes no JSON schema ({why})"


def answer_schema(options: Sequence[str]) -> dict[str, Any]:
    """The schema of an object whose `answer` is one of the options."""
    return {
        "type": "object",
        "properties": {"answer": {"type": "string", "enum": list(options)}},
        "required": ["answer"],
        "additionalProperties": False,
    }


def parse_answer(text: str) -> str | None:
    """The answer in an object as the schema wants it; None where there is no such object.

    >>> parse_answer('{"answer": "Rome"}'), parse_answer("Rome")
    ('Rome', None)
    """
    try:
        found = json.loads(text)
    except ValueError:
        return None
    answer = found.get("answer") if isinstance(found, dict) else None
    return answer if isinstance(answer, str) else None


def match_option(
    reply: Reply, said: Iterable[str | None], options: Sequence[str], who: str
) -> Reply:
    """The reply as the option that was said; that it is none of them is noted."""
    chosen = next((text for text in said if text in options), None)
    if chosen is None:
        return replace(reply, note=f"{who} did not keep to the options")
    return replace(reply, text=chosen)
