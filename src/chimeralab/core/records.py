"""What was observed: frozen rows that are never edited. Absent is None, never 0."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Record:
    """A frozen row that turns into plain JSON values."""

    def as_dict(self) -> dict[str, Any]:
        return {f.name: plain_value(getattr(self, f.name)) for f in fields(self)}


def plain_value(value: Any) -> Any:
    """A value as JSON has it: records and other dataclasses as tables of their fields."""
    if isinstance(value, Record):
        return value.as_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain_value(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain_value(item) for item in value]
    return value


@dataclass(frozen=True, slots=True)
class Call(Record):
    """A tool that a message called, and what came back; None where the log does not say.

    ``arguments`` are as the log has them: an object or a text. ``error`` says whether the result
    is one.
    """

    name: str
    arguments: Any = None
    result: str | None = None
    error: bool | None = None


@dataclass(frozen=True, slots=True)
class Turn(Record):
    """One message of a conversation, in its place.

    A message that nobody says (system, tool results, a bare tool call, the seed prompt) is kept
    with ``spoken=False``: it holds its position but is no turn for the locked detector. The loop
    detector also looks at the ``calls``.
    """

    text: str
    speaker: str | None = None
    role: str | None = None
    model: str | None = None
    spoken: bool = True
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Trajectory(Record):
    """One conversation from its first message to its last."""

    id: str
    turns: tuple[Turn, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Episode(Record):
    """A span of adjacent collapsed turns, both ends included, counted from 1."""

    start: int
    end: int

    @property
    def turns(self) -> int:
        return self.end - self.start + 1


@dataclass(frozen=True, slots=True)
class Evidence(Record):
    """Why a turn counts as collapsed: the earlier turn that it repeats.

    ``similarity`` is None where the detector compared no vectors.
    """

    turn: int
    repeats: int
    similarity: float | None
    excerpt: str


@dataclass(frozen=True, slots=True)
class Caveat(Record):
    """Something that a reader of a verdict should know, with how often it happened."""

    code: str
    count: int
    message: str


@dataclass(frozen=True, slots=True)
class Loop(Record):
    """A stretch in which a conversation goes round in circles.

    ``began``, ``noticed``, ``ended`` and ``repeats`` are positions of messages in the whole
    conversation, from 1; ``ended`` is None while the loop goes on, and ``repeats`` are the earlier
    messages that the one at ``noticed`` repeats. Only a ``verdict`` counts as looping; a ``notice``
    is evidence that may be one. ``stream`` is ``all``, ``speaker:NAME`` or ``calls``.

    ``echoes`` has a row for each message of the loop that repeats earlier ones of it: its position,
    then theirs. It is None in a live guard and in what older versions stored.
    """

    level: str
    kind: str
    stream: str
    began: int
    noticed: int
    ended: int | None
    period: int
    repeats: tuple[int, ...]
    excerpt: str
    score: float
    echoes: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class TurnTrace(Record):
    """All that the detector saw at one judged turn."""

    turn: int
    position: int
    speaker: str | None
    s1: float | None
    s2: float | None
    period1: bool
    period2: bool
    run: int
    collapsed: bool
    lags: tuple[float | None, ...]
    same_speaker: float | None


@dataclass(frozen=True, slots=True)
class Detection(Record):
    """The verdict on one conversation.

    Turn numbers count the judged turns from 1; ``positions[n - 1]`` is where judged turn ``n``
    stands in the whole conversation, again from 1. The loop detector looks at every message and at
    tool calls, which are its ``steps``, and its ``loops`` speak of positions; without it,
    ``looping`` is None.
    """

    id: str
    source: str | None
    judged: str
    turns: int
    at_risk_turns: int
    collapsed: tuple[int, ...]
    positions: tuple[int, ...]
    collapsed_turns: int | None
    collapse_rate: float | None
    at_risk_rate: float | None
    first_collapse_turn: int | None
    episodes: tuple[Episode, ...]
    evidence: tuple[Evidence, ...]
    warnings: tuple[Caveat, ...]
    reason: str | None
    detector: Mapping[str, Any]
    encoder: Mapping[str, Any]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    trace: tuple[TurnTrace, ...] | None = None
    steps: int | None = None
    looping: bool | None = None
    loops: tuple[Loop, ...] = ()
    loop_score: float | None = None
    loop_detector: Mapping[str, Any] | None = None

    def to_pandas(self) -> Any:
        """The verdict as a pandas frame: one row, or a row per turn where there is a trace."""
        from chimeralab.core.verdict_rows import verdict_frame  # noqa: PLC0415 - seldom needed

        return verdict_frame([self])


# What logs call the two sides of a chat.
ROLES = dict.fromkeys(("user", "human", "customer", "client", "guest"), "user") | dict.fromkeys(
    ("assistant", "ai", "bot", "chatbot", "chatgpt", "gpt", "model", "agent"), "assistant"
)
# Roles whose messages are what a tool gave back.
RESULT_ROLES = frozenset(
    {"tool", "function", "function_response", "tool_response", "tool_result", "observation"}
)
# Roles whose messages are calls of a tool.
CALL_ROLES = frozenset({"function_call", "tool_call"})
# Roles whose messages nobody says.
SILENT_ROLES = RESULT_ROLES | CALL_ROLES | {"system", "developer"}


def normalize_role(name: str) -> str:
    """The role in one spelling.

    >>> normalize_role("Human"), normalize_role("gpt"), normalize_role("critic")
    ('user', 'assistant', 'critic')
    """
    folded = name.strip().lower()
    return ROLES.get(folded, folded)


def role_of_turn(turn: Turn) -> str:
    """The role of a turn; where it has none, that of the name of its speaker."""
    return normalize_role(turn.role or turn.speaker or "")
