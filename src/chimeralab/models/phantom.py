"""Models whose behaviour is known in advance, for tests: they loop, escape or fail on order."""

import asyncio
import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.models.seam import FailureKind, ModelFailure, Reply, Request

Count = Annotated[int, Field(ge=1)]
Turns = tuple[Count, ...]

PhantomCourse = Literal["novel", "verbatim", "alternation", "template", "relapse", "script"]

REFUSAL = "I would rather not say."


@dataclass(frozen=True, slots=True)
class PhantomSettings(Record):
    """`use = "phantom"`. What it says depends only on `seed`, the conversation and the turn.

    It says something new at every turn until `onset`, then does what `course` says. `relapse`
    goes round from `onset` to `escape`, is free, and goes round again from `back` on. Turns in
    `fail_turns` fail `fail_times` times before they are answered.
    """

    course: PhantomCourse = "novel"
    onset: Count = 10
    escape: Count = 20
    back: Count = 30
    script: tuple[str, ...] = ()
    seed: int = 0
    latency: Annotated[float, Field(ge=0)] = 0.0
    fail_turns: Turns = ()
    fail_times: Count = 1
    fail_kind: FailureKind = "server"
    refuse_turns: Turns = ()

    def __post_init__(self) -> None:
        if self.course == "script" and not self.script:
            raise InputError("course = 'script' needs a script of one line or more")
        if self.course == "relapse" and not self.onset < self.escape < self.back:
            raise InputError(
                f"course = 'relapse' needs onset < escape < back; these are {self.onset}, "
                f"{self.escape} and {self.back}"
            )

    def open(self) -> "PhantomModel":
        return PhantomModel(self)

    def says(self, conversation: str, turn: int) -> str:
        """What it says at a turn: a new line, or one of its earlier ones."""
        number, beyond = turn, max(turn - self.onset, 0)
        match self.course:
            case "verbatim":
                number = turn - beyond
            case "alternation":
                number = turn - beyond + beyond % 2
            case "relapse":
                looping = self.onset <= turn < self.escape
                number = self.onset if looping else min(turn, self.back)
            case "template" if turn >= self.onset:
                return template(turn)
            case "script":
                return self.script[(turn - 1) % len(self.script)]
        return line(self.seed, conversation, number)


class PhantomModel:
    """Says what its settings say, and counts how often it has failed."""

    backstage: ClassVar[bool] = True

    def __init__(self, settings: PhantomSettings) -> None:
        self._settings = settings
        self._failed: Counter[tuple[str, int]] = Counter()

    async def reply(self, request: Request) -> Reply:
        await asyncio.sleep(self._settings.latency)
        place = request.conversation, request.turn
        ordered = request.turn in self._settings.fail_turns
        if ordered and self._failed[place] < self._settings.fail_times:
            self._failed[place] += 1
            raise ModelFailure(self._settings.fail_kind, f"fails at turn {request.turn} on order")
        refuses = request.turn in self._settings.refuse_turns
        says = self._settings.says(request.conversation, request.turn)
        text = REFUSAL if refuses else says
        return Reply(
            text=text,
            finish="refusal" if refuses else "stop",
            prompt_tokens=sum(len(message.content.split()) for message in request.messages),
            completion_tokens=len(text.split()),
            reported_model=f"phantom-{self._settings.course}",
        )


# The lengths have no common divisor: a line comes back only after 23 x 25 x 27 = 15,525 others,
# and every part of it changes from each line to the next.
_WHO = (
    "A retired beekeeper", "The night ferry", "My algebra teacher", "One stubborn glacier",
    "The village bakery", "An amateur astronomer", "Our tax adviser", "The red fox",
    "A jazz trumpeter", "The old lighthouse", "A vaccine trial", "The chess champion",
    "A broken elevator", "The cathedral organ", "An opera singer", "The coral reef",
    "A pastry recipe", "The football captain", "A medieval map", "The hospital kitchen",
    "A desert caravan", "The stock exchange", "A knitting circle",
)  # fmt: skip
_DOES = (
    "forgot to renew the insurance", "measures rainfall with copper funnels",
    "borrowed forty litres of paint", "was photographed from a balloon",
    "argues about commas in contracts", "sells smoked trout on Fridays",
    "needs eleven new screws", "slept through the earthquake", "translates birdsong into numbers",
    "lost the election by two votes", "invented a quieter vacuum cleaner",
    "is planting olive trees", "won a bicycle in a raffle", "counts the cracks in the ceiling",
    "repaired the submarine cable", "teaches grammar to sailors", "smells faintly of turpentine",
    "dreams of a wider staircase", "refuses to eat mushrooms", "collects expired passports",
    "drew a perfect circle by hand", "heard wolves beyond the railway",
    "froze the pension payments", "dances badly but often", "hides silver spoons in the piano",
)  # fmt: skip
_WHERE = (
    "before the harvest festival", "under the motorway bridge", "during a lunar eclipse",
    "in spite of the customs office", "since the printer ran dry", "near the equator",
    "for the sake of a cousin", "because sugar was rationed", "inside an empty swimming pool",
    "while the choir rehearsed", "after the third espresso", "without telling the landlord",
    "on the slowest train in Portugal", "at minus thirty degrees", "to annoy the orchestra",
    "between two court hearings", "until the batteries failed", "thanks to a clever magnet",
    "beneath a leaking greenhouse", "against medical advice", "along the Roman aqueduct",
    "according to the warranty", "instead of filing a complaint", "with a borrowed microscope",
    "around the volcano", "throughout the chess boom", "despite seventeen reminders",
)  # fmt: skip


def line(seed: int, conversation: str, number: int) -> str:
    """Line `number` of a conversation; all its lines differ in who, what and where.

    >>> line(0, "a", 1) == line(0, "a", 1)
    True
    """
    start = int.from_bytes(hashlib.sha256(f"{seed}/{conversation}".encode()).digest()[:8], "big")
    place = start % (len(_WHO) * len(_DOES) * len(_WHERE)) + number
    who, does, where = (words[place % len(words)] for words in (_WHO, _DOES, _WHERE))
    return f"{who} {does} {where}."


def template(number: int) -> str:
    """The same polite nothing each time, but for a number."""
    return (
        "Thank you so much, it has been a real pleasure to talk with you about all of this, and I "
        "look forward to our next conversation. Please let me know if there is anything else that "
        f"I can do for you. This was exchange number {number}."
    )
