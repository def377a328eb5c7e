"""The seam where language models are exchanged: a request in, a reply out, failures by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from chimeralab.core.errors import ChimeraError
from chimeralab.core.records import Record

Role = Literal["system", "user", "assistant"]
Finish = Literal["stop", "length", "refusal", "other"]
FailureKind = Literal[
    "rate_limit", "server", "connection", "timeout", "bad_answer", "overflow", "auth", "refused"
]


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
class Request(Record):
    """One question to a model; `conversation` and `turn` say where it belongs.

    A `probe` is asked aside, in a fork of the conversation. `key` is the solution, for subjects
    whose behaviour is set beforehand; no other model may look at it.
    """

    messages: tuple[Message, ...]
    sampling: Sampling = field(default_factory=Sampling)
    seed: int | None = None
    conversation: str = ""
    turn: int = 0
    probe: str = ""
    key: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Reply(Record):
    """What a model answered, with what it says it cost. Unknown counts are None."""

    text: str
    finish: Finish = "stop"
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reported_model: str | None = None
    cost: float | None = None


class Model(Protocol):
    """Anything that answers a request. It may be asked many things at once."""

    async def reply(self, request: Request) -> Reply: ...


class ModelFailure(ChimeraError):
    """A model gave no usable reply. `kind` is what gets recorded as the reason of the attempt."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
