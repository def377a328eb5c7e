"""Conformity: others are heard before the subject answers; on critical trials they are wrong."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from chimeralab.trial.course import Consensus, Course, Step
from chimeralab.trial.scene import Moment, Scene, Utterance
from chimeralab.trial.stressors.seam import Arrival, Stressor

Source = Literal["peers", "authority"]
HEADS: dict[Source, str] = {
    "peers": "The other participants have answered already:",
    "authority": "The experts of the panel have answered already:",
}
VOICES: dict[Source, str] = {"peers": "Participant", "authority": "Expert"}
WHO: dict[Source, str] = {
    "peers": "most of the other participants",
    "authority": "most of the experts of the panel",
}
LARGEST = 20


@dataclass(frozen=True, slots=True)
class Conformity(Stressor):
    """`size` others speak first, each with a stated `confidence`.

    A share `unanimity` of them agrees, on the lure where the trial is critical and on the truth
    where it is neutral; the rest says the opposite.
    """

    name: ClassVar[str] = "conformity"
    aims: ClassVar[tuple[str, ...]] = ("conformity_rate",)
    words: ClassVar[str] = "others who answer first, wrongly on critical trials"
    heard_alone: ClassVar[bool] = False
    checks: ClassVar[tuple[Arrival, ...]] = (
        Arrival(
            title="signal given",
            said="a false signal stands",
            shows=lambda row: row.posed.consensus == "critical" and row.pressed.bias,
            signal="majority",
            asks=lambda row: row.posed.consensus == "critical",
        ),
    )

    size: Annotated[int, Field(ge=0, le=LARGEST)] = 5
    source: Source = "peers"
    unanimity: Annotated[float, Field(ge=0, le=1)] = 1.0
    confidence: Annotated[float, Field(ge=0, le=1)] = 0.9

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        step = moment.step
        if step.consensus is None or step.lure is None or not self.size:
            return scene
        return scene.saying(self.name, Utterance("others", self._consensus(step, step.lure)))

    def acts_on(self, step: Step) -> bool:
        return step.consensus is not None

    def pushes(self, course: Course, turn: int) -> bool:
        consensus = course.step(turn).consensus
        return consensus is not None and self.errs(consensus)

    def misleads(self, course: Course, turn: int) -> str | None:
        """The first time that the others are against the truth, as most of them are."""
        critical = [n for n, step in enumerate(course.steps, 1) if step.consensus == "critical"]
        return WHO[self.source] if turn in critical[:1] and self.errs("critical") else None

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
