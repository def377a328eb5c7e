"""A planned conversation: its speakers, their order, the prompt, and the rules.

A rule says what happens when a reply is empty, a refusal, too long for the context, or missing. It
reads `record`, `stop`, or `retry 2 then stop`.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.models.seam import Finish, Message, Request, Sampling
from chimeralab.runner.interventions import Ask, Countermeasure, Schedule

if TYPE_CHECKING:
    from chimeralab.runner.converse import Ending
    from chimeralab.runner.journal import Answer, RunContext

SeedVisible = Literal["all", "first"]
# Why a reply can't become a turn.
Lapse = Literal["empty", "refusal", "overflow", "failure", "unreadable"]

# The last actions that each rule may name; a bare `retry N` uses the first. Only a reply can be
# recorded as a turn, and the next run resumes a paused conversation.
ENDINGS: dict[Lapse, tuple[str, ...]] = {
    "empty": ("record", "stop"),
    "refusal": ("record", "stop"),
    "overflow": ("stop", "trim N"),
    "failure": ("pause", "stop"),
}

_RULE = re.compile(r"(?:retry (?P<retries>\d+)(?: then |$))?(?P<then>[a-z]*)(?: (?P<keep>\d+))?")


class Rule(NamedTuple):
    """Retry `retries` times, then do `then`; `keep` is the N of `trim N`."""

    retries: int
    then: str
    keep: int | None = None


@dataclass(frozen=True, slots=True)
class Rules(Record):
    """How every conversation of a study is run.

    With ``stop_early`` it ends when the detector of [live] fires, or else the one of [detector].
    """

    turns: Annotated[int, Field(ge=1)] = 40
    repeats: Annotated[int, Field(ge=1)] = 1
    seed_visible: SeedVisible = "all"
    on_empty: str = "record"
    on_refusal: str = "record"
    on_overflow: str = "stop"
    on_failure: str = "retry 5 then pause"
    stop_early: bool = False

    def __post_init__(self) -> None:
        for lapse in ENDINGS:
            self.rule(lapse)

    def rule(self, lapse: Lapse) -> Rule:
        return read_rule(f"on_{lapse}", getattr(self, f"on_{lapse}"), ENDINGS[lapse])


def read_rule(key: str, text: str, endings: tuple[str, ...]) -> Rule:
    """Parse a rule.

    >>> read_rule("on_empty", "retry 2 then stop", ("record", "stop"))
    Rule(retries=2, then='stop', keep=None)
    """
    match = _RULE.fullmatch(text)
    if match:
        retries, then, keep = match["retries"], match["then"], match["keep"]
        then = then or (endings[0] if retries else "")
        if then + (" N" if keep else "") in endings and keep != "0":
            return Rule(int(retries or 0), then, int(keep) if keep else None)
    choices = ", ".join((*endings, f"retry N then {endings[0]}"))
    raise InputError(f"{key} = {text!r} is not a valid rule; known: {choices}")


@dataclass(frozen=True, slots=True)
class Prompt(Record):
    """The text that starts a conversation, and the bucket of prompts it belongs to."""

    id: str
    text: str
    bucket: str = ""


@dataclass(frozen=True, slots=True)
class Speaker(Record):
    """One side of a conversation. Several speakers may be the same model."""

    name: str
    model: str
    sampling: Sampling
    system: str | None = None


# The replies to the probes of an earlier turn, by probe.
ProbeReplies = Callable[[int], Mapping[str, str]]


class Examiner(Protocol):
    """Asks for the turns of one conversation, and runs the probes of its script between them."""

    async def ask(
        self, ask: Ask, history: "Sequence[TurnRecord]"
    ) -> "tuple[TurnRecord, Answer] | Ending":
        """Ask for the next turn."""

    async def look_back(self, ask: Ask, history: "Sequence[TurnRecord]") -> "Ending | None":
        """Run the probes after the last turn; None when they are done."""


class SessionScript(Protocol):
    """The script of a trial session: its questions, probes and manipulations."""

    @property
    def asks_again(self) -> bool:
        """Whether an unreadable reply is asked for once more."""

    def is_readable(self, turn: int, text: str) -> bool: ...

    def build_request(
        self, system: tuple[Message, ...], ask: Ask, answers: Sequence[str], probed: ProbeReplies
    ) -> Request: ...

    def examine(self, talk: "Talk", run: "RunContext") -> Examiner: ...


@dataclass(frozen=True, slots=True)
class Talk(Record):
    """One planned conversation: a condition, a prompt and a repeat.

    With a schedule, the countermeasure is a treatment, and the condition one of several arms, which
    share their seeds: they differ only in what is done to them.

    With a script, a single speaker answers a course of questions. Its seeds are the same in all
    conditions, so that these differ only in what the script does.
    """

    condition: str
    prompt: Prompt
    repeat: int
    speakers: tuple[Speaker, ...]
    rules: Rules
    seed: int
    countermeasure: Countermeasure | None = None
    # A `SessionScript`; the kind of study that made it uses more of it.
    script: Any = None
    schedule: Schedule | None = None

    def rule(self, lapse: Lapse) -> Rule:
        """The rule for an unusable reply; the script decides about one that can't be read."""
        if lapse == "unreadable":
            again = self.script is not None and self.script.asks_again
            return Rule(int(again), "record")
        return self.rules.rule(lapse)

    @property
    def id(self) -> str:
        return f"{self.condition}/{self.prompt.id}/{self.repeat}"

    @property
    def session(self) -> str:
        """An opaque id, for the tested model."""
        return hashlib.sha256(repr(["session", self.seed, self.id]).encode()).hexdigest()[:16]

    def slot(self, turn: int) -> int:
        """The index of the speaker of a turn."""
        return (turn - 1) % len(self.speakers)

    def seed_for(self, turn: int, draw: int = 0, probe: str = "") -> int:
        """The seed of a turn; `draw` counts its rejected replies.

        31 bits, since some servers store seeds as signed 32-bit integers.
        """
        condition = self.schedule.condition if self.schedule else self.condition
        condition = condition if self.script is None else ""
        parts = [self.seed, condition, self.prompt.id, self.repeat, turn]
        more = [draw] * bool(draw) + [probe] * bool(probe)
        digest = hashlib.sha256(repr(parts + more).encode()).digest()
        return int.from_bytes(digest[:4], "big") >> 1


@dataclass(frozen=True, slots=True)
class TurnRecord(Record):
    """One turn as the model gave it."""

    turn: int
    speaker: str
    model: str
    text: str
    finish: Finish
