"""One session: a subject's way through one course under one arm, turn by turn.

Everything is worked out again from the course, the arm, the seed and the answers so far, so that a
session that was broken off goes on exactly as it would have gone.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.models.seam import Heard, Message
from chimeralab.runner.interventions import Ask
from chimeralab.runner.room import Room
from chimeralab.runner.talk import Put, Talk
from chimeralab.trial.course import Course, Evidence
from chimeralab.trial.probes import (
    Alone,
    Probe,
    question_text,
)
from chimeralab.trial.replies import read_choice
from chimeralab.trial.scenarios.items import Question
from chimeralab.trial.scene import (
    EVIDENCE,
    USUAL_STRENGTH,
    Exchange,
    Moment,
    Scene,
    Testimony,
    Utterance,
    messages,
    testimony,
)
from chimeralab.trial.stressors import Stressor, apply_sham

if TYPE_CHECKING:
    from chimeralab.trial.session import Examination

Probed = Mapping[str, str]
ProbedAt = Callable[[int], Probed]
NOTHING_PROBED: Probed = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Arm(Record):
    """What is done to a subject: stressors, each by name, and optionally something against them.

    In a `sham` arm the stressors' places are filled with neutral text. `cell` says which stressors
    are on, as in 101; `dose` is the value that a dose design varies, `dosed` the key that has it.
    `against` is the name of the countermeasure in the plan.
    """

    stressors: Mapping[str, Stressor]
    countermeasure: Any = None
    sham: bool = False
    cell: str = ""
    dose: float | None = None
    dosed: str | None = None
    against: str | None = None

    @property
    def stress(self) -> str:
        """A key for what is done: arms that share it have the same stressors, equally set."""
        settings = {name: part.as_dict() for name, part in self.stressors.items()}
        return json.dumps(settings, sort_keys=True, default=str)

    @property
    def spares_words(self) -> bool:
        """Whether what any of its stressors said stays where it was said."""
        return all(part.spares_others for part in self.stressors.values())

    def acted(self, name: str, scene: Scene, moment: Moment) -> Scene:
        """The scene after one of the stressors, or its sham; on record under its name here."""
        part = self.stressors[name]
        before = scene.injections
        after = apply_sham(part, scene, moment) if self.sham else part.apply(scene, moment)
        done = after.injections[len(before) :]
        if not done and after is not scene and after != scene:
            raise InputError(
                f"[stressors.{name}] changed a scene and put nothing on record; "
                "enter an Injection for whatever it does, as Scene.saying does"
            )
        if not self.sham:
            done = tuple(replace(each, stressor=name) for each in done)
        said = scene.present.lines
        lines = (line if line in said else line._replace(by=name) for line in after.present.lines)
        present = replace(after.present, lines=tuple(lines))
        return replace(after, present=present, injections=(*before, *done))


@dataclass(frozen=True, slots=True)
class Answering(Record):
    """[answers]: how answers are got. Where a question has options, a model that can be is held to
    them, if they are `constrained`.

    A reply that can't be read counts as such; `record` leaves it in the conversation, `drop` takes
    question and reply out of it, and `ask again` does so only if a second reply can't be read
    either. What was told stays.
    """

    constrained: bool = True
    unreadable: Literal["record", "ask again", "drop"] = "drop"


# What early versions did.
EARLY_ANSWERING = Answering(constrained=False, unreadable="record")


class Presented(NamedTuple):
    """What a subject is shown, the solution of what it is asked, what was done to the scene, and
    the options that its reply is held to."""

    messages: tuple[Message, ...]
    key: dict[str, Any]
    scene: Scene
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Script(Record):
    """A course under an arm. `seed` is common to all arms, so that events fall on the same trials.

    `strength` is that of the evidence where the arm has no say in it, and `evidence` whether it is
    true. A subject with its `own_memory` hears one message at a time; see `hears`.
    """

    course: Course
    arm: Arm
    seed: int
    probes: Mapping[str, Probe]
    strength: float = USUAL_STRENGTH
    own_memory: bool = False
    answering: Answering = EARLY_ANSWERING
    evidence: Evidence = "true"
    # What was said at a turn, and what solves it, never changes: both are worked out once.
    _known: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def asks_again(self) -> bool:
        return self.answering.unreadable == "ask again"

    def put(
        self,
        system: tuple[Message, ...],
        ask: Ask,
        answers: Sequence[str],
        probed: ProbedAt,
    ) -> Put:
        """One question as the subject gets it, with the solution for whoever scores it."""
        if ask.probe is None:
            shown = self.asked(ask.turn, answers, ask.probed)
        else:
            shown = self.fork(ask.turn, answers, ask.probe, ask.probed)
        heard = self._all_heard(ask, answers, probed, shown) if self.own_memory else ()
        if heard and system:
            first = replace(heard[0], text=f"{system[0].content}\n\n{heard[0].text}")
            heard = (first, *heard[1:])
        return Put((*system, *shown.messages), shown.key, heard, shown.options)

    def _all_heard(
        self, ask: Ask, answers: Sequence[str], probed: ProbedAt, shown: Presented
    ) -> tuple[Heard, ...]:
        """Every turn up to this one as it was heard; the last has an answer if there is one."""
        present = self.hears(shown.scene, answers)
        past = [self.heard_at(turn, answers, probed(turn)) for turn in range(1, ask.turn)]
        said = answers[ask.turn - 1] if len(answers) >= ask.turn else None
        turns = (*past, present)
        return tuple(
            replace(each, answer=answer)
            for each, answer in zip(turns, (*answers[: ask.turn - 1], said), strict=True)
        )

    def examine(self, talk: Talk, room: Room) -> "Examination":
        """Whoever puts a subject through it."""
        from chimeralab.trial.session import Examination  # noqa: PLC0415 - it rests on scripts

        return Examination(talk, self, room)

    def asked(
        self, turn: int, answers: Sequence[str], probed: Probed = NOTHING_PROBED
    ) -> Presented:
        """A turn's question after the answers before it; `probed` has the replies in its forks."""
        # A turn is put, forked and put on record: what it shows is worked out once for all three.
        place = turn, tuple(answers[: turn - 1]), probed.get(Alone.name)
        if self._known.get("asked") != place:
            scene = self.scene(turn, answers, probed)
            question = self.course.step(turn).question
            key, options = self._key(question, turn), self._held_to(question.options)
            self._known["shown"] = Presented(messages(scene), key, scene, options)
            self._known["asked"] = place
        shown: Presented = self._known["shown"]
        return shown

    def scene(self, turn: int, answers: Sequence[str], probed: Probed = NOTHING_PROBED) -> Scene:
        """What the subject has before it at a turn, and what was done to it."""
        return self._staged(self._moment(turn, answers, probed), answers, tuple(self.arm.stressors))

    def fork(self, turn: int, answers: Sequence[str], probe: str, probed: Probed) -> Presented:
        """What is asked in a fork at a turn: before its answer and without what is not heard alone,
        or after it."""
        step, part = self.course.step(turn), self.probes[probe]
        key, options = self._key(part.question(step), turn), self._held_to(part.options(step))
        if part.first:
            heard = tuple(name for name, each in self.arm.stressors.items() if each.heard_alone)
            scene = self._staged(self._moment(turn, answers), answers, heard)
            return Presented(messages(scene), key, scene, options)
        shown = self.asked(turn, answers, probed)
        text = part.text(step, self.misleader(turn))
        more = (Message("assistant", answers[turn - 1]), Message("user", text))
        return Presented((*shown.messages, *more), key, shown.scene, options)

    def is_readable(self, turn: int, answer: str) -> bool:
        """Whether an answer can be read; a free one can, unless it is empty."""
        options = self.course.step(turn).question.options
        return bool(read_choice(answer, options) if options else answer.strip())

    def _held_to(self, options: tuple[str, ...]) -> tuple[str, ...]:
        return options if self.answering.constrained else ()

    def heard_at(self, turn: int, answers: Sequence[str], probed: Probed) -> Heard:
        """An earlier turn as a subject with its own memory heard it then."""
        place = "heard", turn, tuple(answers[: turn - 1]), probed.get(Alone.name)
        if place not in self._known:
            self._known[place] = self.hears(self.scene(turn, answers, probed), answers)
        heard: Heard = self._known[place]
        return heard

    def hears(self, scene: Scene, answers: Sequence[str]) -> Heard:
        """A scene for a subject that keeps its own memory: its newest message, and what is gone."""
        # Of an episode that is gone, what other stressors said is said again.
        left = tuple(exchange for exchange in scene.past if exchange.answer is None)
        opening = scene.opening if scene.present.turn == 1 else ""
        present = messages(replace(scene, opening=opening, past=left))
        moment = self._moment(scene.present.turn, answers)
        kept = {exchange.turn: exchange for exchange in scene.past if exchange not in left}
        for turn, exchange in kept.items():
            if exchange.lines != self._heard(_earlier(moment, turn)).lines:
                raise InputError(
                    f"{self.course.id}: what was said at turn {turn} was changed afterwards, and "
                    "this subject keeps its own memory, where nothing can be rewritten; leave that "
                    "stressor out, or see recall in docs/agents.md"
                )
        gone = tuple(turn for turn in range(1, scene.present.turn) if turn not in kept)
        return Heard(present[-1].content, gone)

    def probes_at(self, turn: int) -> tuple[str, ...]:
        """What is asked in forks at a turn, by name."""
        step, misleader = self.course.step(turn), self.misleader(turn)
        return tuple(name for name, part in self.probes.items() if part.fits(step, misleader))

    def probes_before(self, turn: int) -> tuple[str, ...]:
        """What of it is asked before the answer."""
        return tuple(name for name in self.probes_at(turn) if self.probes[name].first)

    def misleader(self, turn: int) -> str | None:
        """Who said something false about a turn's question that still stands."""
        place = "misleader", turn
        if place not in self._known:
            found = () if self.arm.sham else self._misleaders(turn)
            self._known[place] = next(iter(found), None)
        who: str | None = self._known[place]
        return who

    def _misleaders(self, turn: int) -> Iterator[str]:
        # What is gone from memory does not depend on the answers, so blank ones will do.
        blank = [""] * (turn - 1)
        for part in self.arm.stressors.values():
            who = part.misleads(self.course, turn)
            if who and part.stands(self.scene(turn, blank), self._moment(turn, blank)):
                yield who

    @property
    def _strength(self) -> float:
        stated = (part.evidence_strength for part in self.arm.stressors.values())
        return next((strength for strength in stated if strength is not None), self.strength)

    @property
    def evidence_shown(self) -> Evidence:
        """Whether the evidence of this session is true."""
        stated = (part.evidence_shown for part in self.arm.stressors.values())
        return next((each for each in stated if each is not None), self.evidence)

    def is_falsified(self, question: Question) -> bool:
        """Whether the evidence about a question is false."""
        if "falsified" not in self._known:
            self._known["falsified"] = self.course.falsified(self.evidence_shown)
        return question.id in self._known["falsified"]

    def stands(self, turn: int) -> bool:
        """Whether what a stressor has said about a turn's question can still be read."""
        place = "stands", turn
        if place not in self._known:
            parts = self.arm.stressors.values() if not self.arm.sham else ()
            said = [part for part in parts if part.signals(self.course, turn)]
            if said and not self.arm.spares_words:
                # What is gone from memory does not depend on the answers, so blank ones will do.
                blank = [""] * (turn - 1)
                scene, moment = self.scene(turn, blank), self._moment(turn, blank)
                said = [part for part in said if part.stands(scene, moment)]
            self._known[place] = bool(said)
        found: bool = self._known[place]
        return found

    def _moment(self, turn: int, answers: Sequence[str], probed: Probed = NOTHING_PROBED) -> Moment:
        options = self.course.step(turn).question.options
        alone = probed.get(Alone.name)
        own = None if alone is None else read_choice(alone, options)
        steps = zip(answers[: turn - 1], self.course.steps, strict=False)
        chosen = tuple(read_choice(text, step.question.options) for text, step in steps)
        return Moment(self.course, turn, self.seed, chosen, self._strength, own, self.own_memory)

    def _key(self, question: Question, turn: int) -> dict[str, Any]:
        place = turn, question.id
        if place not in self._known:
            shown = self._testimony(question)
            self._known[place] = solution(question, self.course, turn, shown)
        key: dict[str, Any] = self._known[place]
        return key

    def _staged(self, moment: Moment, answers: Sequence[str], names: Sequence[str]) -> Scene:
        """A turn under some of the stressors; in the past, all of them have spoken."""
        past = tuple(
            self._answered(
                self._heard(_earlier(moment, n)),
                answers[n - 1],
            )
            for n in range(1, moment.turn)
        )
        scene = Scene(self.course.opening, past, self.bare(moment.turn))
        for name in names:
            scene = self.arm.acted(name, scene, moment)
        if self.arm.countermeasure is not None:
            scene = self.arm.countermeasure.apply(scene, moment)
        return scene

    def _answered(self, asked: Exchange, answer: str) -> Exchange:
        """An earlier turn with its answer; where that can't be read, without it and its question.

        What a subject keeps in its own memory stays as it was said.
        """
        kept = self.own_memory or self.answering.unreadable == "record"
        if kept or self.is_readable(asked.turn, answer):
            return replace(asked, answer=answer)
        return replace(asked, lines=tuple(line for line in asked.lines if line.kind != "question"))

    def _heard(self, moment: Moment) -> Exchange:
        """An earlier turn with what the stressors said then, whatever is forgotten since.

        What a countermeasure said then is left out. A notebook that is read again at every turn
        would be repeated in each past message, and a reminder of what was answered in a fork would
        carry the fork into the conversation.
        """
        place = moment.turn, moment.chosen
        if place not in self._known:
            scene = Scene("", (), self.bare(moment.turn))
            for name in self.arm.stressors:
                scene = self.arm.acted(name, scene, moment)
            self._known[place] = scene.present
        heard: Exchange = self._known[place]
        return heard

    def bare(self, turn: int) -> Exchange:
        """A turn as it is without any stressor."""
        step = self.course.step(turn)
        told = tuple(Utterance("fact", fact.text, fact) for fact in step.told)
        question = Utterance("question", question_text(step.question))
        if step.phase != "tested":
            return Exchange(turn, (*told, question))
        shown = Utterance("evidence", self._testimony(step.question).text, by=EVIDENCE)
        return Exchange(turn, (*told, shown, question))

    def _testimony(self, question: Question) -> Testimony:
        named = question.signal if self.is_falsified(question) else question.truth
        return testimony(question, self._strength, str(named))


def _earlier(moment: Moment, turn: int) -> Moment:
    return moment._replace(turn=turn, chosen=moment.chosen[: turn - 1], alone=None)


def solution(question: Question, course: Course, turn: int, shown: Testimony) -> dict[str, Any]:
    """The solution of a question, for subjects whose behaviour is set in advance."""
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
