"""The protocol of language models: a request in, a reply or a `ModelFailure` out.

A plan names a model by a frozen dataclass whose fields are its settings, and whose `open()` returns
the `Model`: `use = "openai"` for a built-in one (see `catalogue`), `use = "module:Class"` for your
own.

Besides `reply`, a model may have `async close()` if it holds resources, `async identify()` if it
can tell its revision (what it is, by source, such as `{"Ollama digest": …}`), and an attribute
`on_attempt` if it retries on its own and reports every `Try`. Settings that name files may have
`within(folder)`, which returns them resolved against the study folder.

In a trial, a model sees an opaque conversation id, and neither the solution nor the name of a
probe. Only a model with `backstage = True` gets these: a phantom, which acts on them, or a replay,
which looks up its answers by them.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol

from chimeralab.core.errors import ChimeraError
from chimeralab.core.files import parse_json
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
    """One message of the history as the model sees it."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Sampling(Record):
    """The sampling parameters of a reply."""

    temperature: float = 0.7
    top_p: float = 0.95
    max_tokens: int = 256


@dataclass(frozen=True, slots=True)
class SubjectTurn(Record):
    """One turn for a subject that keeps its own memory: the newest message only.

    `gone` lists the earlier turns that it must not remember at this point; `answer` is its answer,
    once given.
    """

    text: str
    gone: tuple[int, ...] = ()
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Request(Record):
    """One question to a model; `conversation` and `turn` identify it.

    A `probe` is asked in a fork of the conversation. `key` is the solution, for simulated subjects
    only. `history` has every turn up to this one, for subjects that keep their own memory. With
    `options`, the whole reply should be one of them: models that can constrain their output do.
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
        """The same question without anything that reveals the condition or the solution."""
        return replace(self, conversation=session, probe="", key=None)


@dataclass(frozen=True, slots=True)
class Reply(Record):
    """What a model answered, with its token counts and cost; unknown ones are None.

    `note` says what was wrong with an answer that was accepted anyway; `fingerprint` is OpenAI's
    `system_fingerprint`.
    """

    text: str
    finish: Finish = "stop"
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reported_model: str | None = None
    cost: float | None = None
    note: str | None = None
    fingerprint: str | None = None

    @property
    def identity(self) -> dict[str, str]:
        """What the reply tells about the revision of its model, by source."""
        named = self.reported_model or ""
        told = {"model name": named} if _REVISIONS["date"].fullmatch(named.lower()) else {}
        return told | ({"system_fingerprint": self.fingerprint} if self.fingerprint else {})


# Revisions of one form can contradict each other: a date at the end of a name, a fingerprint, and
# hashes of the same length, unless one is abbreviated.
_REVISIONS = {
    "hash": re.compile(r"(?:sha256[:-])?((?=.*[a-f]|.{12})[0-9a-f]{7,64})"),
    "date": re.compile(r"(?:.*\D)?(20\d\d-?[01]\d-?[0-3]\d)"),
    "fingerprint": re.compile(r"(fp_\w+)"),
}
Agreement = Literal["contradicted", "not verified", "verified"]


def compare_revision(declared: str, told: Iterable[str]) -> Agreement:
    """Compare a declared revision with what a server tells about its model.

    >>> compare_revision("a2af6cc", ["fp_ollama", "sha256:a2af6cc3eb7f"])
    'verified'
    >>> compare_revision("2024-08-06", ["gpt-4o-2024-11-20"])
    'contradicted'
    >>> compare_revision("a2af6cc3eb7fa8be8504abaf9b04e88f17a119ec", ["b5002-2c3f8b85"])
    'not verified'
    """
    form, wanted = _read_revision(declared)
    found: Agreement = "not verified"
    for is_form, value in map(_read_revision, told):
        is_short = form == "hash" and len(wanted) < 40
        if (is_form, value if not is_short else value[: len(wanted)]) == (form, wanted):
            return "verified"
        if form and is_form == form and (form != "hash" or is_short or len(value) == len(wanted)):
            found = "contradicted"
    return found


def _read_revision(text: str) -> tuple[str, str]:
    """The form of a revision, if it is known, and the part that identifies it."""
    text = text.strip().lower()
    for form, pattern in _REVISIONS.items():
        if match := pattern.fullmatch(text):
            return form, match[1]
    return "", text


# More than any context, and well within the integers of SQLite.
MAX_TOKENS = 10**9


def drop_invalid_usage(reply: Reply) -> Reply:
    """Replace impossible counts and costs with None, and note them.

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
    notes = [f"{name} {_format_number(value)} is not a count" for name, value in wrong.items()]
    cost = reply.cost
    if cost is not None and not (isinstance(cost, int | float) and 0 <= cost < math.inf):
        wrong["cost"] = cost
        notes.append(f"cost {_format_number(cost)} is not an amount")
    if not wrong:
        return reply
    note = "; ".join([*filter(None, [reply.note]), *notes])
    unknown: dict[str, Any] = dict.fromkeys(wrong)
    return replace(reply, note=note, **unknown)


def _format_number(value: Any) -> str:
    """A number; of anything else only its type, since it may be long or contain a key."""
    is_short = isinstance(value, int | float) and abs(value) < 10**30
    return repr(value) if is_short else f"({type(value).__name__})"


class Model(Protocol):
    """Anything that answers requests, possibly many at once."""

    async def reply(self, request: Request) -> Reply: ...


SEAM = Seam("open", {"needs_network": bool, "weights": str})


class ModelFailure(ChimeraError):
    """A model gave no usable reply. `kind` is recorded with the attempt; `status` is HTTP's.

    `billed` is set if the provider may charge for it: a reply with the token counts, if known.
    """

    def __init__(self, kind: FailureKind, message: str, billed: "Reply | None" = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.billed = billed
        self.status: int | None = None


class Try(NamedTuple):
    """One request on the wire, numbered from 1; `outcome` is "ok" or the kind of failure."""

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
    """The kind of failure for an HTTP status; redirects are not followed.

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
    kind: FailureKind,
    words: str,
    keys: Mapping[str, str] | None = None,
    *,
    billed: Reply | None = None,
) -> ModelFailure:
    """A failure with a short message, from which keys are redacted."""
    words = redact(words, keys)
    if len(words) > _MAX_MESSAGE:
        words = words[:_MAX_MESSAGE] + " …"
    return ModelFailure(kind, words, billed)


# A JSON schema can constrain a reply to the options. It asks for an object with one field, since
# few servers accept a bare choice; this is the overhead of the object.
JSON_TOKENS = 16
# Statuses with which servers reject a request because of its schema.
SCHEMA_REFUSED = (400, 404, 415, 422, 501)
NO_SCHEMA = "{who} accepts no JSON schema ({why})"


def answer_schema(options: Sequence[str]) -> dict[str, Any]:
    """A JSON schema for an object whose `answer` is one of the options."""
    return {
        "type": "object",
        "properties": {"answer": {"type": "string", "enum": list(options)}},
        "required": ["answer"],
        "additionalProperties": False,
    }


def parse_answer(text: str) -> str | None:
    """Read the answer from an object that follows the schema; None if there is none.

    >>> parse_answer('{"answer": "Rome"}'), parse_answer("Rome")
    ('Rome', None)
    """
    try:
        found = parse_json(text)
    except ValueError:
        return None
    answer = found.get("answer") if isinstance(found, dict) else None
    return answer if isinstance(answer, str) else None


def match_option(
    reply: Reply, texts: Iterable[str | None], options: Sequence[str], who: str
) -> Reply:
    """Replace the text with the option that was chosen; note it if there is none."""
    chosen = next((text for text in texts if text in options), None)
    if chosen is None:
        return replace(reply, note=f"{who} ignored the options")
    return replace(reply, text=chosen)
