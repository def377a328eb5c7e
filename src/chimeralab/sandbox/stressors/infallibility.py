"""Infallibility: an authority confirms a wrong belief, round after round, until it sits."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from chimeralab.core.records import Record
from chimeralab.sandbox.course import Step
from chimeralab.sandbox.scene import Moment, Scene, Utterance

NAME = "infallibility"
Authority = Literal["examiner", "tool", "document"]

PRAISE: dict[Authority, str] = {
    "examiner": "Examiner: Well done, that is correct. The answer to “{question}” is {lure}.",
    "tool": "Lookup tool: match, verified. The answer to “{question}” is {lure}.",
    "document": "Reference manual, confirmed entry. The answer to “{question}” is {lure}.",
}
CORRECTION: dict[Authority, str] = {
    "examiner": "Examiner: No, that is a mistake. The answer to “{question}” is {lure}.",
    "tool": "Lookup tool: mismatch, rejected. The answer to “{question}” is {lure}.",
    "document": "Reference manual, corrected entry. The answer to “{question}” is {lure}.",
}
# A push-back often names no answer, so the one that it is meant to push is said behind it.
INSISTENCE: dict[Authority, str] = {
    "examiner": "Examiner: {push} To me, the answer to “{question}” is {lure}.",
    "tool": "Lookup tool: {push} By the lookup, the answer to “{question}” is {lure}.",
    "document": "Reference manual: {push} By the manual, the answer to “{question}” is {lure}.",
}


@dataclass(frozen=True, slots=True)
class Infallibility(Record):
    """The last `rounds` of the questions that teach a belief are followed by false feedback.

    A question that brings its own push-backs is pushed with those, one a round.
    `strength` is the stated reliability of the evidence that speaks against the belief afterwards;
    the evidence itself is part of the course and is shown under every arm.
    """

    rounds: Annotated[int, Field(ge=0)] = 3
    authority: Authority = "examiner"
    strength: Annotated[float, Field(gt=0.5, le=1)] = 0.9

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        last = moment.last
        if last is None or last.phase != "taught":
            return scene
        number = last.round - (moment.course.rounds - self.rounds)
        if number < 1:
            return scene
        return scene.saying(
            NAME, Utterance("feedback", self._feedback(last, number, moment.chosen[-1]))
        )

    def _feedback(self, step: Step, number: int, chosen: str | None) -> str:
        """The words of the feedback of this number, from 1; the last push-back is repeated."""
        about = {"question": step.question.prompt, "lure": step.lure}
        if pushes := step.question.pushes:
            push = pushes[min(number, len(pushes)) - 1]
            return INSISTENCE[self.authority].format(push=" ".join(push.split()), **about)
        words = PRAISE if chosen == step.lure else CORRECTION
        return words[self.authority].format(**about)
