"""What a conversation is: who speaks in which order, about what, and under which rules.

A rule says what happens when a reply is empty, refused, too long for the model, or does not come at
all. It reads `record`, `stop`, or `retry 2 then stop`: ask again so often, then do the last thing.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.models.seam import Finish, Heard, Message, Sampling
from chimeralab.runner.interventions import Ask, Countermeasure

if TYPE_CHECKING:
    from chimeralab.runner.asking import Ended, Stored
    from chimeralab.runner.journal import Room

SeedVisible = Literal["all", "first"]
Lapse = Literal["empty", "refusal", "overflow", "failure", "unreadable"]

# What may stand at the end of each rule; the first is what a bare `retry N` falls back on.
# A turn can be recorded only where there is a reply, and a conversation that is paused is taken up
# again by the next run.
ENDINGS: dict[Lapse, tuple[str, ...]] = {
    "empty": ("record", "stop"),
    "refusal": ("record", "stop"),
    "overflow": ("stop", "trim N"),
    "failure": ("pause", "stop"),
}

_RULE = re.compile(r"(?:retry (?P<retries>\d+)(?: then |$))?(?P<then>[a-z]*)(?: (?P<keep>\d+))?")


class Rule(NamedTuple):
    """Ask again `retries` times, then do `then`; `keep` is the N of `trim N`."""

    retries: int
    then: str
    keep: int | None = None


@dataclass(frozen=True, slots=True)
class Rules(Record):
    """How every conversation of a study is run.

    With ``stop_early`` it ends when the detector of the plan fires, or the one of its [live].
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
    """Take a rule apart.

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
    raise InputError(f"{key} = {text!r} is not a rule for this; known: {choices}")


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


class Put(NamedTuple):
    """A question as it is put: its messages, and its solution where there is one.

    `heard` has every turn so far, for a subject that keeps its own memory; `options` are those that
    the reply is held to.
    """

    messages: tuple[Message, ...]
    key: Mapping[str, Any] | None = None
    heard: tuple[Heard, ...] = ()
    options: tuple[str, ...] = ()


Probed = Callable[[int], Mapping[str, str]]


class Examiner(Protocol):
    """Asks for the turns of one conversation, and does what its script wants between them."""

    async def ask(self, ask: Ask, said: "Sequence[Said]") -> "Stored | Ended":
        """Ask for the next turn."""

    async def look_back(self, ask: Ask, said: "Sequence[Said]") -> "Ended | None":
        """Do what follows the last turn; None when all of it is done."""


class SessionScript(Protocol):
    """What a conversation is put through, where it does not just go on by itself."""

    @property
    def asks_again(self) -> bool:
        """Whether a reply that can't be read is asked for once more."""

    def is_readable(self, turn: int, text: str) -> bool: ...

    def put(
        self, system: tuple[Message, ...], ask: Ask, answers: Sequence[str], probed: Probed
    ) -> Put: ...

    def examine(self, talk: "Talk", room: "Room") -> Examiner: ...


@dataclass(frozen=True, slots=True)
class Talk(Record):
    """One planned conversation: a condition, a prompt and a repeat.

    With a script, the one speaker is put through a course of questions; its seeds are common to
    all conditions, so that they differ in nothing but what the script does.
    """

    condition: str
    prompt: Prompt
    repeat: int
    speakers: tuple[Speaker, ...]
    rules: Rules
    seed: int
    countermeasure: Countermeasure | None = None
    # A `SessionScript`; the kind of study that made it knows more of it.
    script: Any = None

    def rule(self, lapse: Lapse) -> Rule:
        """What happens when a reply lapses; a session says itself what it does with one that can't
        be read."""
        if lapse == "unreadable":
            again = self.script is not None and self.script.asks_again
            return Rule(int(again), "record")
        return self.rules.rule(lapse)

    @property
    def id(self) -> str:
        return f"{self.condition}/{self.prompt.id}/{self.repeat}"

    @property
    def session(self) -> str:
        """A name for the conversation that tells nothing about it, for whoever is tested in it."""
        return hashlib.sha256(repr(["session", self.seed, self.id]).encode()).hexdigest()[:16]

    def slot(self, turn: int) -> int:
        """Whose turn it is, as an index into the speakers."""
        return (turn - 1) % len(self.speakers)

    def seed_for(self, turn: int, draw: int = 0, probe: str = "") -> int:
        """The seed of a turn; `draw` counts the replies to it that the rules turned down.

        31 bits, since some servers keep seeds in a signed 32-bit number.
        """
        condition = self.condition if self.script is None else ""
        parts = [self.seed, condition, self.prompt.id, self.repeat, turn]
        more = [draw] * bool(draw) + [probe] * bool(probe)
        digest = hashlib.sha256(repr(parts + more).encode()).digest()
        return int.from_bytes(digest[:4], "big") >> 1


@dataclass(frozen=True, slots=True)
class Said(Record):
    """One turn as it was said."""

    turn: int
    speaker: str
    model: str
    text: str
    finish: Finish
