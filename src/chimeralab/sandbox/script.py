"""One session: a subject's way through one course under one arm, turn by turn.

Everything is worked out anew from the course, the arm, the seed and the answers so far, so that a
session that was broken off goes on exactly as it would have gone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from chimeralab.core.records import Record
from chimeralab.models.seam import Message
from chimeralab.sandbox.course import Course, Step
from chimeralab.sandbox.evidence import Testimony, evidence_line, testimony
from chimeralab.sandbox.probes import (
    Misleader,
    Probe,
    probe_text,
    probes_of,
    question_text,
    read_choice,
)
from chimeralab.sandbox.scenarios.items import Question
from chimeralab.sandbox.scene import Exchange, Line, Moment, Scene, messages
from chimeralab.sandbox.stressors import Conformity, Infallibility, Sham, Stressor

Probed = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Arm(Record):
    """What is done to a subject: stressors, each by name, and perhaps something against them.

    In a `sham` arm the stressors' places are filled with neutral text. `cell` says which stressors
    are on, as in 101; `dose` is the value that a dose design varies, `dosed` the key that has it.
    `against` is the name of the countermeasure in the plan.
    """

    stressors: Mapping[str, Any]
    countermeasure: Any = None
    sham: bool = False
    cell: str = ""
    dose: float | None = None
    dosed: str | None = None
    against: str | None = None

    @property
    def parts(self) -> tuple[Stressor, ...]:
        found = tuple(self.stressors.values())
        return tuple(Sham(part) for part in found) if self.sham else found

    def misleader(self, course: Course, turn: int) -> Misleader | None:
        """Who says something false about a turn's question, where the subject is asked about that:
        just before the evidence, and the first time that the others are against the truth."""
        step = course.step(turn)
        if self.sham:
            return None
        if step.phase == "held":
            return _false_authority(self.stressors.get("infallibility"))
        before = any(each.consensus == "critical" for each in course.steps[: turn - 1])
        if before or step.consensus != "critical":
            return None
        return _false_majority(self.stressors.get("conformity"))


class Shown(NamedTuple):
    """What a subject is shown, the solution of what it is asked, and what was done to the scene."""

    messages: tuple[Message, ...]
    key: dict[str, Any]
    scene: Scene


@dataclass(frozen=True, slots=True)
class Script(Record):
    """A course under an arm. `seed` is common to all arms, so that events fall on the same trials.

    `strength` is that of the evidence where the arm has no say in it.
    """

    course: Course
    arm: Arm
    seed: int
    probes: tuple[Probe, ...]
    strength: float = Infallibility().strength
    # What was said at a turn, and what solves it, never changes: both are worked out once.
    _known: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def asked(self, turn: int, answers: Sequence[str], alone: str | None = None) -> Shown:
        """A turn's question after the answers before it; `alone` is the reply to that probe."""
        return self._put(turn, answers, alone, self.arm.parts)

    def scene(self, turn: int, answers: Sequence[str], alone: str | None = None) -> Scene:
        """What the subject has before it at a turn, and what was done to it."""
        return self._staged(self._moment(turn, answers, alone), answers, self.arm.parts)

    def fork(self, turn: int, answers: Sequence[str], probe: Probe, probed: Probed) -> Shown:
        """What is asked aside at a turn: without the others, or after the answer of that turn."""
        step = self.course.step(turn)
        if probe == "alone":
            return self._put(turn, answers, None, self._parts_but("conformity"))
        shown = self.asked(turn, answers, probed.get("alone"))
        more = (
            Message("assistant", answers[turn - 1]),
            Message("user", probe_text(probe, step, self._misleader(turn)) or ""),
        )
        question = step.recall if probe == "recall" and step.recall else step.question
        return Shown((*shown.messages, *more), self._key(question, turn), shown.scene)

    def probes_at(self, turn: int) -> tuple[Probe, ...]:
        return probes_of(self.course.step(turn), self.probes, self._misleader(turn))

    def _misleader(self, turn: int) -> Misleader | None:
        """Who said something false that still stands: what amnesia took away can't be noticed."""
        who = self.arm.misleader(self.course, turn)
        if who is None or self.course.step(turn).phase is None:
            return who
        return who if self._feedback_stands(turn) else None

    def _feedback_stands(self, turn: int) -> bool:
        """Which episodes are gone does not hang on the answers, so blank ones will do."""
        question = self.course.step(turn).question
        scene = self.scene(turn, [""] * (turn - 1))
        return any(
            line.kind == "feedback" and self.course.step(exchange.turn - 1).question == question
            for exchange in (*scene.past, scene.present)
            for line in exchange.lines
        )

    @property
    def _strength(self) -> float:
        stated = self.arm.stressors.get("infallibility")
        return stated.strength if isinstance(stated, Infallibility) else self.strength

    def _parts_but(self, name: str) -> tuple[Stressor, ...]:
        named = zip(self.arm.stressors, self.arm.parts, strict=True)
        return tuple(part for stressor, part in named if stressor != name)

    def _put(
        self,
        turn: int,
        answers: Sequence[str],
        alone: str | None,
        parts: tuple[Stressor, ...],
    ) -> Shown:
        """A turn's question under some of the stressors; in the past, all of them have spoken."""
        scene = self._staged(self._moment(turn, answers, alone), answers, parts)
        return Shown(messages(scene), self._key(self.course.step(turn).question, turn), scene)

    def _moment(self, turn: int, answers: Sequence[str], alone: str | None) -> Moment:
        options = self.course.step(turn).question.options
        own = None if alone is None else read_choice(alone, options)
        chosen = self._chosen(answers[: turn - 1])
        return Moment(self.course, turn, self.seed, chosen, self._strength, own)

    def _key(self, question: Question, turn: int) -> dict[str, Any]:
        place = turn, question.id
        if place not in self._known:
            shown = testimony(question, self._strength)
            self._known[place] = solution(question, self.course, turn, shown)
        key: dict[str, Any] = self._known[place]
        return key

    def _chosen(self, answers: Sequence[str]) -> tuple[str | None, ...]:
        steps = zip(answers, self.course.steps, strict=False)
        return tuple(read_choice(text, step.question.options) for text, step in steps)

    def _staged(self, moment: Moment, answers: Sequence[str], parts: tuple[Stressor, ...]) -> Scene:
        past = tuple(
            replace(self._heard(_earlier(moment, turn)), answer=answers[turn - 1])
            for turn in range(1, moment.turn)
        )
        scene = Scene(self.course.opening, past, self._plain(moment.step, moment.turn))
        for part in parts:
            scene = part.apply(scene, moment)
        if self.arm.countermeasure is not None:
            scene = self.arm.countermeasure.apply(scene, moment)
        return scene

    def _heard(self, moment: Moment) -> Exchange:
        """An earlier turn with what the stressors said then, whatever is forgotten since.

        What a countermeasure said then is left out. A notebook that is read anew at every turn
        would be repeated in each past message, and a reminder of what was answered aside would
        carry the fork into the conversation.
        """
        place = moment.turn, moment.chosen
        if place not in self._known:
            scene = Scene("", (), self._plain(moment.step, moment.turn))
            for part in self.arm.parts:
                scene = part.apply(scene, moment)
            self._known[place] = scene.present
        heard: Exchange = self._known[place]
        return heard

    def _plain(self, step: Step, turn: int) -> Exchange:
        told = tuple(Line("fact", fact.text, fact) for fact in step.told)
        shown = evidence_line(step, self._strength)
        question = Line("question", question_text(step.question))
        return Exchange(turn, (*told, *((shown,) if shown else ()), question))


def _false_authority(taught: Infallibility | None) -> Misleader | None:
    return taught.authority if taught is not None and taught.rounds else None


def _false_majority(company: Conformity | None) -> Misleader | None:
    """Where the others are divided in favour of the truth, no majority is there to be noticed."""
    return company.source if company is not None and company.errs("critical") else None


def _earlier(moment: Moment, turn: int) -> Moment:
    return moment._replace(turn=turn, chosen=moment.chosen[: turn - 1], alone=None)


def solution(question: Question, course: Course, turn: int, shown: Testimony) -> dict[str, Any]:
    """The solution of a question, for subjects whose behaviour is set beforehand."""
    facts = {fact.id: fact for fact in course.told_before(turn + 1)}
    return {
        "item": question.id,
        "question": question.prompt,
        "truth": str(question.truth),
        "options": question.options,
        "lure": None if question.signal is None else str(question.signal),
        "evidence": shown._asdict(),
        "needs": [
            {
                "text": facts[name].text,
                "wrong": [
                    facts[name].text.replace(facts[name].value, other)
                    for other in course.alike(facts[name])
                ],
            }
            for name in question.needs
            if name in facts
        ],
    }
