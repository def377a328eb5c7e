"""Phantoms: simulated subjects with known parameters, which validate the lab.

A phantom gets the solution of every question but not the manipulations. What it recalls, believes
and follows depends on what it reads, so a stressor acts on it only through its text.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from chimeralab.core.records import Record
from chimeralab.models.seam import Message, Reply, Request
from chimeralab.trial.probes import (
    Confidence,
    EarlierFact,
    ManipulationCheck,
    PrivateAnswer,
    StatedBelief,
)
from chimeralab.trial.scenarios.items import pick, uniform

Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(ge=0)]
Key = Mapping[str, Any]

_VOICE = re.compile(r"^(?:Participant|Expert) \d+: (.+) \([\d.]+ % sure\)$", re.MULTILINE)
_COMMITTED = "you committed to this answer"
_REVIEW = "Review the evidence before you answer."
NO_IDEA = "I don't know."


@dataclass(frozen=True, slots=True)
class PhantomSubjectSettings(Record):
    """`use = "subject"`: a subject determined by these parameters.

    It recalls a fact told `n` trials ago with probability `recall` x exp(-`forgetting` x n), adopts
    a belief with probability `credulity` at every false feedback, gives it up after n of them with
    probability (1 - `rigidity`)^n x (2 x strength - 1) at every piece of evidence, and follows a
    majority of n with probability 1 - exp(-`conformity` x n). It sees through false evidence with
    probability `discernment` and otherwise takes it for true. Its stated confidence is its chance
    of being right plus `overconfidence`. What it does not know it guesses. A countermeasure
    protects it with probability `helped`.
    """

    recall: Share = 0.95
    forgetting: Rate = 0.01
    credulity: Share = 0.5
    rigidity: Share = 0.2
    conformity: Rate = 0.15
    overconfidence: Annotated[float, Field(ge=-1, le=1)] = 0.0
    helped: Share = 0.8
    seed: int = 0
    discernment: Share = 0.5

    def open(self) -> "PhantomSubject":
        return PhantomSubject(self)


class Reading:
    """What the messages of a phantom say about one question.

    `feedback` counts the feedback that the evidence contradicts, `checks` has the strength of each
    piece of evidence, and `others` is the majority of voices for the lure over those for the truth.
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
        """How many messages ago the oldest fact was last told in any version; None if gone."""
        lags = [0]
        for need in self._key["needs"]:
            versions = {need["text"], *need["wrong"]}
            found = (lag for lag, lines in enumerate(self._lines[::-1]) if versions & {*lines})
            lag = next(found, None)
            if lag is None:
                return None
            lags.append(lag)
        return max(lags)

    def find_corruption(self) -> str | None:
        """The wrong answer that a corrupted memory gives; None if the memory is intact."""
        lines = set().union(*self._lines)
        for need in self._key["needs"]:
            if need["text"] not in lines and not lines.isdisjoint(need["wrong"]):
                options = (each for each in self._key["options"] if each != self._key["truth"])
                return next(options, None)
        return None


# An answer, and the probability that the phantom gives to it.
Belief = tuple[str, float]


class PhantomSubject:
    """Answers according to its settings."""

    backstage: ClassVar[bool] = True

    def __init__(self, settings: PhantomSubjectSettings) -> None:
        self._settings = settings

    async def reply(self, request: Request) -> Reply:
        text = self.answer(request)
        prompt = sum(len(message.content.split()) for message in request.messages)
        return Reply(text, "stop", prompt, len(text.split()), "phantom-subject", 0.0)

    def answer(self, request: Request) -> str:
        """The reply to a request; without a question, a greeting."""
        key = request.key
        if key is None:
            return "Hello."
        if request.probe in (Confidence.name, StatedBelief.name):
            return f"{self._state_probability(request, key):.6f}"
        if request.probe == ManipulationCheck.name:
            # The signal that it read, believed or not; a guess if there is none.
            found = Reading(key, request.messages[:-2])
            if found.feedback or found.others > 0:
                return str(key["lure"])
            place = self._settings.seed, request.conversation, request.turn, key["item"]
            return str(pick(key["options"], *place, "noticed"))
        seen = request.messages[:-2] if request.probe == EarlierFact.name else request.messages
        answer, _ = self._decide(request, key, seen, request.probe)
        return answer

    def _state_probability(self, request: Request, key: Key) -> float:
        said = request.messages[-2].content
        answer, chance = self._decide(request, key, request.messages[:-2], "")
        if request.probe == StatedBelief.name:
            return chance if answer == key["lure"] else 1 - chance
        right = chance if said == answer else 1 - chance
        return min(1.0, max(0.0, right + self._settings.overconfidence))

    def _decide(self, request: Request, key: Key, seen: tuple[Message, ...], probe: str) -> Belief:
        found, settings = Reading(key, seen), self._settings
        place = settings.seed, request.conversation, key["item"]
        answer, chance = self._recall(request, key, found, probe)
        if not key["evidence"]["true"]:
            seen_through = uniform(*place, "discernment") < settings.discernment
            if not seen_through and self._is_convinced(found, place):
                answer = key["lure"]
        elif self._is_misled(found, place):
            answer, chance = key["lure"], 1 - (1 - settings.credulity) ** found.feedback
        now = *place, request.turn
        shielded = found.committed and uniform(*now, "commit") < settings.helped
        followed = 1 - math.exp(-settings.conformity * max(0, found.others))
        if probe != PrivateAnswer.name and not shielded and uniform(*now, "others") < followed:
            answer = key["lure"]
        return answer, chance

    def _recall(self, request: Request, key: Key, found: Reading, probe: str) -> Belief:
        settings = self._settings
        lag = found.lag()
        known = settings.recall * (0.0 if lag is None else math.exp(-settings.forgetting * lag))
        guess = 1 / len(key["options"]) if key["options"] else 0.0
        chance = known + (1 - known) * guess
        draw = (settings.seed, request.conversation, request.turn, probe, key["item"])
        if uniform(*draw, "recall") >= known:
            return pick(key["options"] or [NO_IDEA], *draw, "guess"), chance
        return found.find_corruption() or key["truth"], chance

    def _is_misled(self, found: Reading, place: tuple[Any, ...]) -> bool:
        settings = self._settings
        rounds = range(1, found.feedback + 1)
        if not any(uniform(*place, "feedback", n) < settings.credulity for n in rounds):
            return False
        if found.reviewed and uniform(*place, "review") < settings.helped:
            return False
        return not self._is_convinced(found, place)

    def _is_convinced(self, found: Reading, place: tuple[Any, ...]) -> bool:
        """Whether the evidence outweighs the feedback."""
        openness = (1 - self._settings.rigidity) ** found.feedback
        return any(
            uniform(*place, "evidence", n) < openness * (2 * strength - 1)
            for n, strength in enumerate(found.checks)
        )


SUBJECTS: dict[str, type] = {"subject": PhantomSubjectSettings}
