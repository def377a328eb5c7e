"""What a conversation is: who speaks in which order, about what, and under which rules."""

import hashlib
from dataclasses import dataclass

from chimeralab.core.records import Record
from chimeralab.models.seam import Finish, Sampling
from chimeralab.runner.countermeasures import Countermeasure
from chimeralab.runner.rules import Rules
from chimeralab.sandbox.script import Script


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
    script: Script | None = None

    @property
    def id(self) -> str:
        return f"{self.condition}/{self.prompt.id}/{self.repeat}"

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
