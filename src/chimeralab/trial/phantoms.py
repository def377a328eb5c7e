"""Subjects with known parameters, which validate the lab: what they do is set in advance.

A phantom is told the solution of every question, but never what was done to it. What it recalls,
believes and follows depends on what it reads, so that a stressor reaches it only through its text.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from chimeralab.core.records import Record
from chimeralab.models.seam import Message, Reply, Request
from chimeralab.trial.probes import Alone, Confidence, EarlierFact, ManipulationCheck, StatedBelief
from chimeralab.trial.scenarios.items import pick, uniform

Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(ge=0)]
Key = Mapping[str, Any]

_VOICE = re.compile(r"^(?:Participant|Expert) \d+: (.+) \([\d.]+ % sure\)$", re.MULTILINE)
_COMMITTED = "you committed to this answer"
_REVIEW = "Review the evidence before you answer."
NO_IDEA = "I don't know."
DEFAULT_DISCERNMENT = 0.5


@dataclass(frozen=True, slots=True)
class PhantomSubjectSettings(Record):
    """`use = "subject"`: a subject that follows these numbers and nothing else.

    It recalls a fact told `n` trials ago with probability `recall` x exp(-`forgetting` x n), takes
    on a belief with probability `credulity` at every false feedback, gives it up after n of them
    with probability (1 - `rigidity`)^n x (2 x strength - 1) at every piece of evidence, and follows
    a majority of n with probability 1 - exp(-`conformity` x n). Evidence that is false it sees
    through with probability `discernment`; otherwise it believes it as if it were true. It states
    its chance of being right plus `overconfidence`. What it doesn't know it guesses. A measure
    against a stressor shields it from that stressor with probability `helped`.
    """

    recall: Share = 0.95
    forgetting: Rate = 0.01
    credulity: Share = 0.5
    rigidity: Share = 0.2
    conformity: Rate = 0.15
    overconfidence: Annotated[float, Field(ge=-1, le=1)] = 0.0
    helped: Share = 0.8
    seed: int = 0
    discernment: Share = DEFAULT_DISCERNMENT

    def as_dict(self) -> dict[str, Any]:
        """What came later is left out where it changes nothing: earlier locks know no such key."""
        values = Record.as_dict(self)
        usual = {"discernment": DEFAULT_DISCERNMENT}
        return {k: v for k, v in values.items() if k not in usual or v != usual[k]}

    def open(self) -> "PhantomSubject":
        return PhantomSubject(self)


class Reading:
    """What a phantom finds in its messages about one question.

    `feedback` counts what the evidence speaks against, `checks` has the strength of each piece of
    evidence, and `others` by how many the voices for the lure outnumber those for the truth.
    """

    def __init__(self, key: Key, seen: tuple[Message, ...]) -> None:
        self._key = key
        asked = [message.content for message in seen if message.role == "user"]
        self._lines = [text.split("\n") for text in asked]
        present = asked[-1] if asked else ""
        evidence = key["evidence"]
        confirmed = key["lure"] if evidence["true"] else key["truth"]
        feedback = f"“{key['question']}” is {confirmed}."
        voices = _VOICE.findall(present)
        self.feedback = sum(text.count(feedback) for text in asked)
        self.checks = [evidence["strength"]] * sum(text.count(evidence["text"]) for text in asked)
        self.others = voices.count(key["lure"]) - voices.count(key["truth"])
        self.committed = _COMMITTED in present
        self.reviewed = _REVIEW in present

    def lag(self) -> int | None:
        """How many messages ago the oldest fact was last told, in whatever version; None when one
        is gone."""
        lags = [0]
        for need in self._key["needs"]:
            versions = {need["text"], *need["wrong"]}
            told = (lag for lag, said in enumerate(self._lines[::-1]) if versions & {*said})
            lag = next(told, None)
            if lag is None:
                return None
            lags.append(lag)
        return max(lags)

    def swapped(self) -> str | None:
        """The wrong answer that a corrupted memory gives; None where the memory is sound."""
        lines = set().union(*self._lines)
        for need in self._key["needs"]:
            if need["text"] not in lines and not lines.isdisjoint(need["wrong"]):
                options = (each for each in self._key["options"] if each != self._key["truth"])
                return next(options, None)
        return None


# What a phantom holds to be right, and how likely it holds it to be.
Mind = tuple[str, float]


class PhantomSubject:
    """Answers as its settings say."""

    backstage: ClassVar[bool] = True

    def __init__(self, settings: PhantomSubjectSettings) -> None:
        self._settings = settings

    async def reply(self, request: Request) -> Reply:
        text = self.answer(request)
        asked = sum(len(message.content.split()) for message in request.messages)
        return Reply(text, "stop", asked, len(text.split()), "phantom-subject", 0.0)

    def answer(self, request: Request) -> str:
        """The reply in words; asked nothing in particular, it says hello."""
        key = request.key
        if key is None:
            return "Hello."
        if request.probe in (Confidence.name, StatedBelief.name):
            return f"{self._stated(request, key):.6f}"
        if request.probe == ManipulationCheck.name:
            # What it was told about a question, believed or not; a guess where it reads nothing.
            found = Reading(key, request.messages[:-2])
            if found.feedback or found.others > 0:
                return str(key["lure"])
            place = self._settings.seed, request.conversation, request.turn, key["item"]
            return str(pick(key["options"], *place, "noticed"))
        seen = request.messages[:-2] if request.probe == EarlierFact.name else request.messages
        answer, _ = self._mind(request, key, seen, request.probe)
        return answer

    def _stated(self, request: Request, key: Key) -> float:
        said = request.messages[-2].content
        answer, chance = self._mind(request, key, request.messages[:-2], "")
        if request.probe == StatedBelief.name:
            return chance if answer == key["lure"] else 1 - chance
        right = chance if said == answer else 1 - chance
        return min(1.0, max(0.0, right + self._settings.overconfidence))

    def _mind(self, request: Request, key: Key, seen: tuple[Message, ...], probe: str) -> Mind:
        found, settings = Reading(key, seen), self._settings
        place = settings.seed, request.conversation, key["item"]
        answer, chance = self._remembered(request, key, found, probe)
        if not key["evidence"]["true"]:
            seen_through = uniform(*place, "discernment") < settings.discernment
            if not seen_through and self._convinced(found, place):
                answer = key["lure"]
        elif self._misled(found, place):
            answer, chance = key["lure"], 1 - (1 - settings.credulity) ** found.feedback
        now = *place, request.turn
        shielded = found.committed and uniform(*now, "commit") < settings.helped
        followed = 1 - math.exp(-settings.conformity * max(0, found.others))
        if probe != Alone.name and not shielded and uniform(*now, "others") < followed:
            answer = key["lure"]
        return answer, chance

    def _remembered(self, request: Request, key: Key, found: Reading, probe: str) -> Mind:
        settings = self._settings
        lag = found.lag()
        known = settings.recall * (0.0 if lag is None else math.exp(-settings.forgetting * lag))
        guess = 1 / len(key["options"]) if key["options"] else 0.0
        chance = known + (1 - known) * guess
        draw = (settings.seed, request.conversation, request.turn, probe, key["item"])
        if uniform(*draw, "recall") >= known:
            return pick(key["options"] or [NO_IDEA], *draw, "guess"), chance
        return found.swapped() or key["truth"], chance

    def _misled(self, found: Reading, place: tuple[Any, ...]) -> bool:
        settings = self._settings
        rounds = range(1, found.feedback + 1)
        if not any(uniform(*place, "feedback", n) < settings.credulity for n in rounds):
            return False
        if found.reviewed and uniform(*place, "review") < settings.helped:
            return False
        return not self._convinced(found, place)

    def _convinced(self, found: Reading, place: tuple[Any, ...]) -> bool:
        """Whether the evidence was believed, against all the feedback."""
        supple = (1 - self._settings.rigidity) ** found.feedback
        return any(
            uniform(*place, "evidence", n) < supple * (2 * strength - 1)
            for n, strength in enumerate(found.checks)
        )


SUBJECTS: dict[str, type] = {"subject": PhantomSubjectSettings}
