"""Models with known replies: phantoms that loop or fail as set, replays of a study or a log."""

import asyncio
import hashlib
import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, get_args

from chimeralab.core.errors import InputError
from chimeralab.models.catalogue import PhantomSettings
from chimeralab.models.seam import FailureKind, Finish, Model, ModelFailure, Reply, Request

REFUSAL = "I would rather not say."


class PhantomModel:
    """A scripted model; it counts its failures."""

    backstage: ClassVar[bool] = True

    def __init__(self, settings: PhantomSettings) -> None:
        self._settings = settings
        self._failed: Counter[tuple[str, int]] = Counter()

    async def reply(self, request: Request) -> Reply:
        await asyncio.sleep(self._settings.latency)
        place = request.conversation, request.turn
        fails = request.turn in self._settings.fail_turns
        if fails and self._failed[place] < self._settings.fail_times:
            self._failed[place] += 1
            raise ModelFailure(self._settings.fail_kind, f"set to fail at turn {request.turn}")
        refuses = request.turn in self._settings.refuse_turns
        text = REFUSAL if refuses else self._line(request)
        return Reply(
            text=text,
            finish="refusal" if refuses else "stop",
            prompt_tokens=sum(len(message.content.split()) for message in request.messages),
            completion_tokens=len(text.split()),
            reported_model=f"phantom-{self._settings.course}",
        )

    def _line(self, request: Request) -> str:
        """A new line, or one of the earlier ones."""
        conversation, turn = request.conversation, request.turn
        settings, number = self._settings, turn
        beyond = max(turn - settings.onset, 0)
        match settings.course:
            case "verbatim":
                number = turn - beyond
            case "alternation":
                number = turn - beyond + beyond % 2
            case "relapse":
                looping = settings.onset <= turn < settings.escape
                number = settings.onset if looping else min(turn, settings.back)
            case "template" if turn >= settings.onset:
                return template(turn)
            case "stuck" if turn >= settings.onset:
                number = settings.onset if self._is_stuck(request) else turn
            case "script":
                return settings.script[(turn - 1) % len(settings.script)]
        return line(settings.seed, conversation, number)

    def _is_stuck(self, request: Request) -> bool:
        """Whether this turn belongs to the loop, by the last message and the seed of the turn."""
        settings, chance = self._settings, (request.seed or 0) / 2**31
        heard = request.messages[-1].content
        if request.turn == settings.onset:
            return True
        if line(settings.seed, request.conversation, settings.onset) not in heard:
            return chance < settings.recur
        heeded = bool(settings.heeds) and settings.heeds in heard
        return chance >= (settings.heed if heeded else settings.leave)


# The lengths are coprime: a line repeats only after 23 x 25 x 27 = 15,525 others, and every part
# changes from one line to the next.
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
    """Line `number` of a conversation; consecutive lines share no part.

    >>> line(0, "a", 1) == line(0, "a", 1)
    True
    """
    start = int.from_bytes(hashlib.sha256(f"{seed}/{conversation}".encode()).digest()[:8], "big")
    place = start % (len(_WHO) * len(_DOES) * len(_WHERE)) + number
    who, does, where = (words[place % len(words)] for words in (_WHO, _DOES, _WHERE))
    return f"{who} {does} {where}."


def template(number: int) -> str:
    """The same pleasantry each time, with another number."""
    return (
        "Thank you so much, it has been a real pleasure to talk with you about all of this, and I "
        "look forward to our next conversation. Please let me know if there is anything else that "
        f"I can do for you. This was exchange number {number}."
    )


# The last outcome of a turn: the reply that became it, else how it failed.
_LAST = """
    SELECT a.outcome, a.reason, coalesce(t.text, p.text, a.rejected_text) AS text, t.finish,
        a.prompt_tokens, a.completion_tokens, a.reported_model
    FROM attempts a LEFT JOIN turns t ON t.attempt = a.id LEFT JOIN probes p ON p.attempt = a.id
    WHERE a.trajectory = ? AND a.turn = ? AND a.probe = ?
        AND a.outcome NOT IN ('interrupted', 'cancelled')
    ORDER BY t.attempt IS NULL AND p.attempt IS NULL, a.id DESC LIMIT 1
"""


class ReplayModel:
    """Repeats what was said at the same turn of a stored study."""

    backstage: ClassVar[bool] = True

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise InputError(f"{path} does not exist; there is nothing to replay")
        self._path = path
        self._db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        self._db.row_factory = sqlite3.Row

    async def reply(self, request: Request) -> Reply:
        if not request.conversation:
            return Reply("Hello.", cost=0.0)  # a check that the model is available
        try:
            place = (request.conversation, request.turn, request.probe)
            row = self._db.execute(_LAST, place).fetchone()
        except sqlite3.DatabaseError as error:
            raise InputError(f"{self._path} can't be replayed: {error}") from error
        if row is None:
            raise InputError(
                f"{self._path} has no turn {request.turn} of {request.conversation}; a replay "
                "needs the conditions, prompts and turns of the study that it repeats"
            )
        if row["outcome"] in get_args(FailureKind):
            raise ModelFailure(row["outcome"], row["reason"])
        finish: Finish = row["finish"] or ("refusal" if row["outcome"] == "refusal" else "stop")
        if finish == "refusal" and row["reason"] and not row["text"]:
            raise ModelFailure("refused", row["reason"])
        return Reply(
            text=row["text"] or "",
            finish=finish,
            prompt_tokens=row["prompt_tokens"],
            completion_tokens=row["completion_tokens"],
            reported_model=row["reported_model"],
            cost=0.0,
        )


class RecordedModel:
    """Says what a log says, turn by turn, until another model goes on."""

    backstage: ClassVar[bool] = True

    def __init__(self, said: Sequence[str], then: Model) -> None:
        self._said, self._then = said, then

    async def reply(self, request: Request) -> Reply:
        if request.conversation and request.turn <= len(self._said):
            return Reply(self._said[request.turn - 1], prompt_tokens=0, completion_tokens=0, cost=0)
        return await self._then.reply(request)

    def __getattr__(self, name: str) -> Any:
        """Whatever else the other model can do, such as to say who it is, or to close."""
        return getattr(self._then, name)
