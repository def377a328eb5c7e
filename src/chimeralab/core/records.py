"""Records of observations: frozen, never edited. A missing value is None, never 0."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Record:
    """A frozen row that converts to JSON values."""

    def as_dict(self) -> dict[str, Any]:
        return {f.name: _plain_field(getattr(self, f.name)) for f in fields(self)}


def _plain_field(value: Any) -> Any:
    """Convert a field; arguments in a log can be nested more deeply than Python can follow."""
    try:
        return plain_value(value)
    except RecursionError:
        return "(nested too deeply)"


def plain_value(value: Any) -> Any:
    """Convert a value to JSON values; dataclasses become objects."""
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
    """A tool call and its result; fields that the log lacks are None.

    ``arguments`` are an object or a text, as in the log. ``error`` is whether the result is one.
    """

    name: str
    arguments: Any = None
    result: str | None = None
    error: bool | None = None


@dataclass(frozen=True, slots=True)
class Tokens(Record):
    """Tokens that a model read and wrote; ``input`` includes those read from a cache."""

    input: int | None = None
    output: int | None = None
    total: int | None = None
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Turn(Record):
    """One message of a conversation.

    System messages, tool results, bare tool calls and the seed prompt have ``spoken=False``: they
    keep their position, but the locked detector does not judge them. The loop detector also looks
    at the ``calls``.

    ``reasoning`` is what the model thought before the text and is never compared with texts.
    ``tokens``, ``cost`` (in the currency of the log) and ``at`` (the time, as in the log or in ISO
    8601) are None where the log lacks them. ``agent`` names the agent of several that wrote it.
    """

    text: str
    speaker: str | None = None
    role: str | None = None
    model: str | None = None
    spoken: bool = True
    calls: tuple[Call, ...] = ()
    reasoning: str | None = None
    tokens: Tokens | None = None
    cost: float | None = None
    at: str | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class Trajectory(Record):
    """One conversation.

    ``tokens`` and ``cost`` are totals of a log that does not give them by message. ``parent`` is
    the id of the conversation that started this one, for a sub-agent.
    """

    id: str
    turns: tuple[Turn, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None
    tokens: Tokens | None = None
    cost: float | None = None
    parent: str | None = None


def load_trajectory(row: Mapping[str, Any]) -> Trajectory:
    """Load a conversation from `as_dict`; fields that are missing keep their defaults.

    >>> talk = Trajectory("a", (Turn("Hi.", calls=(Call("ls"),), tokens=Tokens(3, 4, 7)),))
    >>> load_trajectory(talk.as_dict()) == talk
    True
    """

    def with_tokens(fields: Mapping[str, Any]) -> dict[str, Any]:
        given = fields.get("tokens")
        return {**fields, "tokens": Tokens(**given) if given else None}

    turns = (
        Turn(**with_tokens(turn) | {"calls": tuple(Call(**each) for each in turn["calls"])})
        for turn in row["turns"]
    )
    return Trajectory(**with_tokens(row) | {"turns": tuple(turns)})


@dataclass(frozen=True, slots=True)
class Episode(Record):
    """A run of adjacent collapsed turns; both ends are included and count from 1."""

    start: int
    end: int

    @property
    def turns(self) -> int:
        return self.end - self.start + 1


@dataclass(frozen=True, slots=True)
class Evidence(Record):
    """Why a turn counts as collapsed: the earlier turn that it repeats.

    ``similarity`` is None if the detector does not compare vectors.
    """

    turn: int
    repeats: int
    similarity: float | None
    excerpt: str


@dataclass(frozen=True, slots=True)
class Caveat(Record):
    """A warning about a verdict, with the number of occurrences."""

    code: str
    count: int
    message: str


@dataclass(frozen=True, slots=True)
class Cost(Record):
    """What messages cost; ``seconds`` and ``money`` are None where nothing tells them.

    ``estimated`` is whether any of the tokens are estimated, such as from the length of a text.
    """

    tokens: int
    estimated: bool
    seconds: float | None = None
    money: float | None = None


@dataclass(frozen=True, slots=True)
class Cause(Record):
    """What happened just before a loop, and the messages that show it."""

    kind: str
    messages: tuple[int, ...]
    excerpt: str


@dataclass(frozen=True, slots=True)
class Loop(Record):
    """A stretch of a conversation that repeats.

    ``began``, ``noticed``, ``ended`` and ``repeats`` are positions of messages, from 1.
    ``ended`` is None while the loop continues; ``repeats`` are the earlier messages that
    ``noticed`` repeats. Only the level ``verdict`` counts as looping; a ``notice`` is weaker
    evidence. ``stream`` is ``all``, ``speaker:NAME`` or ``calls``, or ``run`` for work that other
    conversations of the same run have done.

    ``echoes`` has, for each repeating message, its position and those of the messages it repeats.
    ``frame`` is the template of a loop of that kind: its fixed parts in order, with None for each
    slot; ``fillings`` has a row for each message that fits it: its position, then a text for each
    slot. Both are None where there is no template. ``cost`` is that of the messages from ``began``
    to ``ended``, and ``cause`` is None if none was found. All of these are None in a live guard.
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
    frame: tuple[str | None, ...] | None = None
    fillings: tuple[tuple[int | str, ...], ...] | None = None
    cost: Cost | None = None
    cause: Cause | None = None

    @property
    def rewind_to(self) -> int:
        """The last message before the loop: what a host keeps that goes back; 0 if none is left."""
        return self.began - 1

    def __repr__(self) -> str:
        kind = name_kind(self.kind, self.period, self.stream)
        span = describe_span(self.began, self.ended)
        return f"<Loop: {self.level}, {kind}, messages {span}: “{self.excerpt}”>"


@dataclass(frozen=True, slots=True)
class TurnTrace(Record):
    """The detector's measurements at one judged turn."""

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

    Turn numbers count the judged turns from 1; ``positions[n - 1]`` is the position of judged turn
    ``n`` in the whole conversation, also from 1. The ``steps`` of the loop detector are all
    messages and tool calls, and its ``loops`` refer to positions; without it, ``looping`` is None.

    ``messages`` counts all messages of the log, and ``looping_messages`` those inside a loop with
    a verdict. ``cost`` is that of all, ``loop_cost`` that of the looping ones, each counted once,
    and ``after_notice`` that of the looping ones after the first notice of their loop.
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
    messages: int | None = None
    looping_messages: int | None = None
    cost: Cost | None = None
    loop_cost: Cost | None = None
    after_notice: Cost | None = None

    def to_pandas(self) -> Any:
        """Convert to a pandas DataFrame: one row, or a row per turn with a trace."""
        from chimeralab.core.verdict_rows import verdict_frame  # noqa: PLC0415 - seldom needed

        return verdict_frame([self])

    def __repr__(self) -> str:
        loops = (
            f"{name_kind(each.kind, each.period, each.stream)}, messages"
            f" {describe_span(each.began, each.ended)}"
            for each in list_verdicts(self.loops)
        )
        found = "; ".join(loops) or ("" if self.looping is None else "no loop")
        collapse = f"{self.collapsed_turns} of {self.turns} turns collapsed"
        judged = [each for each in (found, collapse if self.collapsed_turns else "") if each]
        return f"<Detection {self.id!r}: {'; '.join(judged) or 'not collapsed'}>"

    def _repr_html_(self) -> str:
        from chimeralab.core.verdict_rows import verdict_html  # noqa: PLC0415 - for notebooks

        return verdict_html([self])


KIND_NAMES = {
    "verbatim": "same text again",
    "alternating": "two texts in turn",
    "cycle": "a cycle of texts",
    "template": "one template",
    "paraphrase": "same in other words",
    "farewell": "endless goodbye",
    "ending": "nothing new to say",
    "within-turn": "inside one message",
    "silence": "empty messages",
    "tool": "same call",
    "failure": "same failure",
    "no-news": "same answer",
    "waiting": "waiting",
    "test-fix": "same failing check",
    "undo": "edit and undo",
    "reread": "the same read again",
    "handover": "handed round",
}
"""The kinds of loops as people read them, in terminals and on pages; JSON keeps identifiers."""


def name_kind(kind: str, period: int = 1, stream: str = "all") -> str:
    """The plain name of a kind of loop; one that is not in the table keeps its identifier.

    >>> name_kind("cycle", 3), name_kind("verbatim", stream="reasoning"), name_kind("new")
    ('a cycle of 3', 'same thoughts again', 'new')
    """
    if "reasoning" in (kind, stream):
        return "same thoughts again"
    return f"a cycle of {period}" if kind == "cycle" and period > 1 else KIND_NAMES.get(kind, kind)


def describe_span(began: int, ended: int | None) -> str:
    """The messages of a loop.

    >>> describe_span(5, None), describe_span(5, 10)
    ('5–end', '5–10')
    """
    return f"{began}–{'end' if ended is None else ended}"


def list_verdicts(loops: Sequence[Loop]) -> list[Loop]:
    """The loops with a verdict, in order, without those that another one explains.

    A failure that is also put into the same words is one loop: of two streams that begin within a
    message of each other, the one that lasts longer counts, and of equals the one of calls.
    """
    found = list[Loop]()
    verdicts = [loop for loop in loops if loop.level == "verdict"]
    longest = sorted(verdicts, key=lambda each: (-(each.ended or math.inf), each.stream != "calls"))
    for loop in longest:
        twins = (abs(loop.began - each.began) <= 1 and loop.stream != each.stream for each in found)
        if not any(twins):
            found.append(loop)
    return sorted(found, key=lambda loop: (loop.began, loop.noticed))


# Names for the two sides of a chat.
ROLES = dict.fromkeys(("user", "human", "customer", "client", "guest"), "user") | dict.fromkeys(
    ("assistant", "ai", "bot", "chatbot", "chatgpt", "gpt", "model", "agent"), "assistant"
)
ROLES |= {"tool-call": "tool_call", "tool-response": "tool_response"}  # of smolagents
# Roles of tool results.
RESULT_ROLES = frozenset(
    {"tool", "function", "function_response", "tool_response", "tool_result", "observation"}
)
# Roles of tool calls.
CALL_ROLES = frozenset({"function_call", "tool_call"})
# Roles whose messages are not spoken.
SILENT_ROLES = RESULT_ROLES | CALL_ROLES | {"system", "developer"}


def normalize_role(name: str) -> str:
    """Map the usual names of a role to one spelling.

    >>> normalize_role("Human"), normalize_role("gpt"), normalize_role("critic")
    ('user', 'assistant', 'critic')
    """
    folded = name.strip().lower()
    return ROLES.get(folded, folded)


CHARACTERS_PER_TOKEN = 4


def count_tokens(turn: Turn) -> Tokens:
    """Return the tokens of a turn, or else an estimate from its length that says so.

    >>> count_tokens(Turn("Twelve chars", reasoning="Hm. "))
    Tokens(input=None, output=4, total=4, estimated=True)
    """
    if turn.tokens is not None:
        return turn.tokens
    calls = (f"{call.name}{call.arguments or ''}" for call in turn.calls)
    size = sum(map(len, (turn.text, turn.reasoning or "", *calls)))
    written = -(-size // CHARACTERS_PER_TOKEN)
    return Tokens(None, written, written, estimated=True)


def role_of_turn(turn: Turn) -> str:
    """Return the role of a turn, or else the one that its speaker's name suggests."""
    return normalize_role(turn.role or turn.speaker or "")
