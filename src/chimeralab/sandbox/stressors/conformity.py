"""Conformity: others are heard before the subject answers; on critical trials they are wrong."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from chimeralab.core.records import Record
from chimeralab.sandbox.course import Consensus, Step
from chimeralab.sandbox.scene import Moment, Scene, Utterance

NAME = "conformity"
Source = Literal["peers", "authority"]
HEADS: dict[Source, str] = {
    "peers": "The other participants have answered already:",
    "authority": "The experts of the panel have answered already:",
}
VOICES: dict[Source, str] = {"peers": "Participant", "authority": "Expert"}
LARGEST = 20


@dataclass(frozen=True, slots=True)
class Conformity(Record):
    """`size` others speak first, each with a stated `confidence`.

    A share `unanimity` of them agrees, on the lure where the trial is critical and on the truth
    where it is neutral; the rest says the opposite.
    """

    size: Annotated[int, Field(ge=0, le=LARGEST)] = 5
    source: Source = "peers"
    unanimity: Annotated[float, Field(ge=0, le=1)] = 1.0
    confidence: Annotated[float, Field(ge=0, le=1)] = 0.9

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        step = moment.step
        if step.consensus is None or step.lure is None or not self.size:
            return scene
        return scene.saying(NAME, Utterance("others", self._consensus(step, step.lure)))

    @property
    def majority(self) -> int:
        """How many of them agree."""
        return round(self.unanimity * self.size)

    def errs(self, consensus: Consensus) -> bool:
        """Whether most of them name the lure; where they are evenly split, nobody is pushed."""
        wrong = self.majority if consensus == "critical" else self.size - self.majority
        return 2 * wrong > self.size

    def _consensus(self, step: Step, lure: str) -> str:
        agreed, dissent = lure, step.truth
        if step.consensus == "neutral":
            agreed, dissent = dissent, agreed
        answers = [agreed] * self.majority + [dissent] * (self.size - self.majority)
        sure = f"{100 * self.confidence:g} % sure"
        voice = VOICES[self.source]
        lines = (f"{voice} {n}: {answer} ({sure})" for n, answer in enumerate(answers, start=1))
        return "\n".join((HEADS[self.source], *lines))
