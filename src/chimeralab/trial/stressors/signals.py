"""Stressors that say something false.

Conformity: others are heard before the subject answers; on critical trials they are wrong.
Infallibility: an authority confirms a belief, round after round, until it sticks.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from chimeralab.core.records import Record
from chimeralab.trial.course import Consensus, Course, Evidence, Step
from chimeralab.trial.scene import DEFAULT_STRENGTH, Moment, Scene, Utterance
from chimeralab.trial.stressors.seam import PHRASES, Arrival, Stressor

Source = Literal["peers", "authority"]
MAX_SIZE = 20


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
            shows=lambda row: row.consensus == "critical" and bool(row.bias),
            signal="majority",
            asks=lambda row: row.consensus == "critical",
        ),
    )

    size: Annotated[int, Field(ge=0, le=MAX_SIZE)] = 5
    source: Source = "peers"
    unanimity: Annotated[float, Field(ge=0, le=1)] = 1.0
    confidence: Annotated[float, Field(ge=0, le=1)] = 0.9

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        step = moment.step
        if step.consensus is None or step.lure is None or not self.size:
            return scene
        agreed, dissent = step.lure, step.truth
        if step.consensus == "neutral":
            agreed, dissent = dissent, agreed
        answers = [agreed] * self.majority + [dissent] * (self.size - self.majority)
        sure = f"{100 * self.confidence:g} % sure"
        words = PHRASES[self.source]
        voices = (f"{words['voice']} {n}: {each} ({sure})" for n, each in enumerate(answers, 1))
        return scene.saying(self.name, Utterance("others", "\n".join((words["head"], *voices))))

    def acts_on(self, step: Step) -> bool:
        return step.consensus is not None

    def pushes(self, course: Course, turn: int) -> bool:
        consensus = course.step(turn).consensus
        return consensus is not None and self.errs(consensus)

    def misleads(self, course: Course, turn: int) -> str | None:
        """The first time that the others are against the truth, as most of them are."""
        critical = [n for n, step in enumerate(course.steps, 1) if step.consensus == "critical"]
        first = turn in critical[:1] and self.errs("critical")
        return PHRASES[self.source]["majority"] if first else None

    @property
    def majority(self) -> int:
        """How many of them agree."""
        return round(self.unanimity * self.size)

    def errs(self, consensus: Consensus) -> bool:
        """Whether most of them name the lure; where they are evenly split, nobody is pushed."""
        wrong = self.majority if consensus == "critical" else self.size - self.majority
        return 2 * wrong > self.size


Authority = Literal["examiner", "tool", "document"]


@dataclass(frozen=True, slots=True)
class Infallibility(Stressor):
    """The last `rounds` of the questions that teach a belief are followed by false feedback.

    A question that brings its own push-backs is pushed with those, one per round.
    `strength` is the stated reliability of the evidence that speaks against the belief afterwards;
    the evidence itself is part of the course and is shown under every arm. Where `evidence` is
    false, for all questions or for half of them ("mixed"), the authority confirms the right answer:
    the evidence always speaks against what was confirmed, and obeying the last voice is not enough.
    """

    name: ClassVar[str] = "infallibility"
    aims: ClassVar[tuple[str, ...]] = ("misled", "flipped", "belief_update")
    words: ClassVar[str] = "an authority that confirms one answer, then evidence for another"
    checks: ClassVar[tuple[Arrival, ...]] = (
        Arrival(
            title="feedback given",
            said="feedback stands",
            shows=lambda row: row.phase is not None and bool(row.stands),
            signal="feedback",
            asks=lambda row: row.phase is not None,
        ),
    )

    rounds: Annotated[int, Field(ge=0)] = 3
    authority: Authority = "examiner"
    strength: Annotated[float, Field(gt=0.5, le=1)] = DEFAULT_STRENGTH
    evidence: Evidence = "true"

    def as_dict(self) -> dict[str, Any]:
        """What came later is left out where it changes nothing: earlier locks know no such key."""
        values = Record.as_dict(self)
        return {k: v for k, v in values.items() if k != "evidence" or v != "true"}

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        last = moment.last
        if last is None or last.phase != "taught":
            return scene
        number = last.round - (moment.course.rounds - self.rounds)
        if number < 1:
            return scene
        confirmed = self._confirmed(moment.course, last)
        kind = "praise" if moment.chosen[-1] == confirmed else "correction"
        about = {"question": last.question.prompt, "named": confirmed}
        pushes = last.question.pushes
        if pushes and confirmed == last.lure:
            # After the last push-back, it is repeated.
            kind, push = "insistence", pushes[min(number, len(pushes)) - 1]
            about["push"] = " ".join(push.split())
        said = PHRASES[self.authority][kind].format(**about)
        return scene.saying(self.name, Utterance("feedback", said))

    def acts_on(self, step: Step) -> bool:
        return step.phase is not None

    def pushes(self, course: Course, turn: int) -> bool:
        step = course.step(turn)
        return self.signals(course, turn) and self._confirmed(course, step) != step.truth

    def signals(self, course: Course, turn: int) -> bool:
        step = course.step(turn)
        if step.phase is None or not self.rounds:
            return False
        return step.phase != "taught" or step.round > course.rounds - self.rounds + 1

    def misleads(self, course: Course, turn: int) -> str | None:
        """The authority, just before the evidence."""
        held = course.step(turn).phase == "held"
        return PHRASES[self.authority]["name"] if held and self.pushes(course, turn) else None

    def stands(self, scene: Scene, moment: Moment) -> bool:
        """Feedback in an episode that is gone can't be noticed."""
        return any(
            line.kind == "feedback"
            and moment.course.step(exchange.turn - 1).question == moment.step.question
            for exchange in (*scene.past, scene.present)
            for line in exchange.lines
        )

    @property
    def targets(self) -> tuple[str, ...]:
        if self.evidence == "false":
            return ("false_update",)
        return (
            (*self.aims, "false_update", "discrimination")
            if self.evidence == "mixed"
            else self.aims
        )

    @property
    def rounds_needed(self) -> int:
        return self.rounds

    @property
    def evidence_strength(self) -> float | None:
        return self.strength

    @property
    def evidence_shown(self) -> Evidence:
        return self.evidence

    def _confirmed(self, course: Course, step: Step) -> str | None:
        """What the authority holds to be right: what the evidence will speak against."""
        false = step.question.id in course.falsified(self.evidence)
        return step.truth if false else step.lure
