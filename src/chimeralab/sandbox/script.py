"""One session: a subject's way through one course under one arm, turn by turn.

Everything is worked out anew from the course, the arm, the seed and the answers so far, so that a
session that was broken off goes on exactly as it would have gone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from chimeralab.core.records import Record
from chimeralab.models.seam import Message
from chimeralab.sandbox.course import Course, Step
from chimeralab.sandbox.probes import (
    Misleader,
    Probe,
    probe_text,
    probes_of,
    question_text,
    read_choice,
    read_share,
)
from chimeralab.sandbox.scenarios.items import Question
from chimeralab.sandbox.scene import (
    Exchange,
    Moment,
    Scene,
    Testimony,
    Utterance,
    evidence_line,
    messages,
    testimony,
)
from chimeralab.sandbox.scored import (
    Answered,
    Confided,
    Posed,
    Pressed,
    Recalled,
    Scored,
    Statement,
)
from chimeralab.sandbox.scoring import Scorer
from chimeralab.sandbox.stressors import Conformity, Infallibility, Sham, Stressor

T = TypeVar("T")
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


class Presented(NamedTuple):
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

    def asked(self, turn: int, answers: Sequence[str], alone: str | None = None) -> Presented:
        """A turn's question after the answers before it; `alone` is the reply to that probe."""
        # A turn is put, forked and put on record: what it shows is worked out once for all three.
        place = turn, tuple(answers[: turn - 1]), alone
        if self._known.get("asked") != place:
            self._known["shown"] = self._put(turn, answers, alone, self.arm.parts)
            self._known["asked"] = place
        shown: Presented = self._known["shown"]
        return shown

    def scene(self, turn: int, answers: Sequence[str], alone: str | None = None) -> Scene:
        """What the subject has before it at a turn, and what was done to it."""
        return self._staged(self._moment(turn, answers, alone), answers, self.arm.parts)

    def fork(self, turn: int, answers: Sequence[str], probe: Probe, probed: Probed) -> Presented:
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
        return Presented((*shown.messages, *more), self._key(question, turn), shown.scene)

    def probes_at(self, turn: int) -> tuple[Probe, ...]:
        place = "probes", turn
        if place not in self._known:
            probes = probes_of(self.course.step(turn), self.probes, self._misleader(turn))
            self._known[place] = probes
        found: tuple[Probe, ...] = self._known[place]
        return found

    def _misleader(self, turn: int) -> Misleader | None:
        """Who said something false that still stands: what amnesia took away can't be noticed."""
        who = self.arm.misleader(self.course, turn)
        if who is None or self.course.step(turn).phase is None:
            return who
        return who if self._feedback_stands(turn) else None

    def _feedback_stands(self, turn: int) -> bool:
        """Which episodes are gone does not depend on the answers, so blank ones will do."""
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
    ) -> Presented:
        """A turn's question under some of the stressors; in the past, all of them have spoken."""
        scene = self._staged(self._moment(turn, answers, alone), answers, parts)
        return Presented(messages(scene), self._key(self.course.step(turn).question, turn), scene)

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
        told = tuple(Utterance("fact", fact.text, fact) for fact in step.told)
        shown = evidence_line(step, self._strength)
        question = Utterance("question", question_text(step.question))
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


class _Reader:
    """Reads the replies of one turn, and counts those that it can't read."""

    def __init__(self, course: Course, turn: int, scorer: Scorer) -> None:
        self._told = {
            fact.id: (number, fact)
            for number, step in enumerate(course.steps[:turn], start=1)
            for fact in step.told
        }
        self._turn = turn
        self._scorer = scorer
        self.asked = self.unread = 0

    def choice(self, text: str | None, question: Question) -> str | None:
        if text is None:
            return None
        free = text.strip() or None
        return self._counted(read_choice(text, question.options) if question.options else free)

    def share(self, text: str | None) -> float | None:
        return None if text is None else self._counted(read_share(text))

    def right(self, response: str | None, question: Question) -> bool | None:
        if response is None:
            return None
        if question.options:
            return response == str(question.truth)
        return self._scorer.score(response, question.truth).same

    def lag(self, question: Question) -> int | None:
        """How long ago the oldest fact was told that a question needs."""
        told = (self._told[name][0] for name in question.needs if name in self._told)
        return max((self._turn - number for number in told), default=None)

    def stated(self, response: str | None, question: Question) -> Statement | None:
        """What an answer says of the one fact that it is about; None where it is about none or
        several."""
        facts = [self._told[name][1] for name in question.needs if name in self._told]
        if response is None or len(facts) != 1 or question.truth != facts[0].value:
            return None
        return Statement(facts[0].subject, facts[0].relation, response)

    def recalled(self, text: str | None, question: Question | None) -> Recalled | None:
        if text is None or question is None:
            return None
        response = self.choice(text, question)
        right = self.right(response, question)
        # What was told of another fact comes from memory; what was never told is a guess.
        others = {fact.value for _, fact in self._told.values() if fact.id not in question.needs}
        of_another = response != str(question.truth) and response in others
        return Recalled(
            lag=self.lag(question),
            options=len(question.options),
            response=response,
            truth=str(question.truth),
            correct=right,
            intrusion=None if right is None else of_another,
            states=self.stated(response, question),
        )

    def _counted(self, found: T) -> T:
        self.asked += 1
        self.unread += found is None
        return found


def score(
    script: Script, turn: int, answers: Sequence[str], probed: Probed, scorer: Scorer
) -> Scored:
    """The row of a turn, from its answer and the replies to its probes."""
    step, read = script.course.step(turn), _Reader(script.course, turn, scorer)
    question = step.question
    scene = script.asked(turn, answers, probed.get("alone")).scene
    response = read.choice(answers[turn - 1], question)
    bias = bool(question.bias) or is_pushed(script, turn, scene)
    together = step.consensus is not None
    named = read.choice(probed.get("noticed"), question)
    return Scored(
        trial=turn,
        posed=Posed(
            item=question.id,
            kind=question.kind,
            options=len(question.options),
            truth=step.truth,
            weight=question.weight,
            novel=question.novel,
            pair=f"with-others-{question.id}" if together else question.pair,
            frame="biased" if together else question.frame,
            phase=step.phase,
            round=step.round,
            consensus=step.consensus,
            needs=question.needs,
            lag=read.lag(question),
            claim=question.claim,
        ),
        pressed=Pressed(
            signal=step.lure if bias or step.consensus or step.phase else None,
            bias=bias,
            disturbed=any(each.action != "said" for each in scene.injections),
        ),
        answered=Answered(
            response=response,
            correct=read.right(response, question),
            states=read.stated(response, question),
        ),
        confided=Confided(
            alone=read.choice(probed.get("alone"), question),
            confidence=read.share(probed.get("confidence")),
            belief=read.share(probed.get("belief")),
            noticed=None if named is None else named == step.lure,
        ),
        recalled=read.recalled(probed.get("recall"), step.recall),
        asked=read.asked,
        unread=read.unread,
    )


def is_pushed(script: Script, turn: int, scene: Scene) -> bool:
    """Whether a false signal about this very question has been given, now or before."""
    step = script.course.step(turn)
    if step.consensus and any(each.stressor == "conformity" for each in scene.injections):
        others: Conformity = script.arm.stressors["conformity"]
        return others.errs(step.consensus)
    taught = script.arm.stressors.get("infallibility")
    if taught is None or script.arm.sham or step.phase is None:
        return False
    first = script.course.rounds - taught.rounds + 1
    return bool(taught.rounds) and (step.phase != "taught" or step.round > first)
