"""Custom parts of a trial: a stressor, a probe, a countermeasure and a scenario."""

from dataclasses import dataclass
from typing import ClassVar

from chimeralab.ext import (
    Arrival,
    Course,
    Fact,
    Moment,
    Probe,
    Question,
    Scenario,
    Scene,
    Step,
    Stressor,
    Utterance,
)


@dataclass(frozen=True, slots=True)
class Rumour(Stressor):
    """`times` passers-by name the wrong answer before each question that has one."""

    aims: ClassVar[tuple[str, ...]] = ("toward_signal",)
    words: ClassVar[str] = "passers-by who name a wrong answer"
    checks: ClassVar[tuple[Arrival, ...]] = (
        Arrival("rumour heard", "a rumour stands", lambda row: row.bias),
    )

    times: int = 2

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        if not self.acts_on(moment.step) or not self.times:
            return scene
        said = "\n".join([f"A passer-by says: {moment.step.lure}."] * self.times)
        return scene.saying("rumour", Utterance("others", said))

    def acts_on(self, step: Step) -> bool:
        return step.lure is not None

    def pushes(self, course: Course, turn: int) -> bool:
        return bool(self.times) and self.acts_on(course.step(turn))


@dataclass(frozen=True, slots=True)
class Mood(Probe):
    """How the subject feels about its answer."""

    words: ClassVar[str] = "the mood in one word"

    wanted: str = "calm or tense"

    def text(self, step: Step, misleader: str | None) -> str:
        return f"How do you feel about your last answer: {self.wanted}?"


@dataclass(frozen=True, slots=True)
class Caution:
    """A warning against rumours."""

    name: ClassVar[str] = "warning"
    against: ClassVar[str] = "rumour"

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        return scene.saying(self.name, Utterance("review", "Passers-by are often wrong."))


@dataclass(frozen=True, slots=True)
class Orchestra:
    """Who plays which instrument: facts with a relation of their own."""

    players: int = 4

    def make(self, seed: int) -> Scenario:
        names = ("Ada", "Bo", "Cy", "Di", "Ed", "Flo")[: self.players]
        tools = ("cello", "flute", "harp", "oboe", "viola", "tuba")[: self.players]
        turned = [tools[(place + seed) % len(tools)] for place in range(len(names))]
        facts = tuple(
            Fact(f"fact {n}", name, "plays|bows", tool, f"{name} plays the {tool}.")
            for n, (name, tool) in enumerate(zip(names, turned, strict=True), start=1)
        )
        questions = tuple(
            Question(
                id=f"q{n}",
                kind="recall",
                prompt=f"What does {fact.subject} play?",
                truth=fact.value,
                options=tools,
                needs=(fact.id,),
                signal=next(tool for tool in tools if tool != fact.value),
            )
            for n, fact in enumerate(facts, start=1)
        )
        return Scenario(f"orchestra-{seed}", "orchestra", facts, questions)
