"""One session: a subject's way through one course under one arm, turn by turn.

Everything is worked out again from the course, the arm, the seed and the answers so far, so that a
session that was broken off goes on exactly as it would have gone.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.models.seam import Message, Request, SubjectTurn
from chimeralab.runner.interventions import Ask
from chimeralab.runner.journal import RunContext
from chimeralab.runner.talk import Talk
from chimeralab.trial.course import Course, Evidence
from chimeralab.trial.probes import Alone, Probe, question_text
from chimeralab.trial.replies import read_choice
from chimeralab.trial.scenarios.items import Question
from chimeralab.trial.scene import (
    DEFAULT_STRENGTH,
    EVIDENCE,
    Exchange,
    Moment,
    Scene,
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
class AnswerRules(Record):
    """[answers]: how answers are got. Where a question has options, a model that can be is held to
    them, if they are `constrained`.

    A reply that can't be read counts as such; `record` leaves it in the conversation, `drop` takes
    question and reply out of it, and `ask again` does so only if a second reply can't be read
    either. What was told stays.
    """

    constrained: bool = True
    unreadable: Literal["record", "ask again", "drop"] = "drop"


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
    strength: float = DEFAULT_STRENGTH
    own_memory: bool = False
    answering: AnswerRules = AnswerRules(constrained=False, unreadable="record")
    evidence: Evidence = "true"
    # What was said at a turn, and what solves it, never changes: both are worked out once.
    _known: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def asks_again(self) -> bool:
        return self.answering.unreadable == "ask again"

    def build_request(
        self,
        system: tuple[Message, ...],
        ask: Ask,
        answers: Sequence[str],
        probed: ProbedAt,
    ) -> Request:
        """One question as the subject gets it, with the solution for whoever scores it.

        With its own memory it is told what it heard at every turn, and so far answered.
        """
        turn = ask.turn
        if ask.probe is None:
            scene, shown = self._shown(turn, answers, ask.probed)
        else:
            scene, shown = self._forked(turn, answers, ask.probe, ask.probed)
        heard: list[SubjectTurn] = []
        if self.own_memory:
            heard = [self.heard_at(n, answers, probed(n)) for n in range(1, turn)]
            heard.append(self.hears(scene, answers))
            said = [*answers[:turn], None][:turn]
            heard = [replace(each, answer=answer) for each, answer in zip(heard, said, strict=True)]
            if system:
                heard[0] = replace(heard[0], text=f"{system[0].content}\n\n{heard[0].text}")
        return replace(shown, messages=(*system, *shown.messages), history=tuple(heard))

    def examine(self, talk: Talk, room: RunContext) -> "Examination":
        """Whoever puts a subject through it."""
        from chimeralab.trial.session import Examination  # noqa: PLC0415 - it rests on scripts

        return Examination(talk, self, room)

    def asked(self, turn: int, answers: Sequence[str], probed: Probed = NOTHING_PROBED) -> Request:
        """A turn's question after the answers before it; `probed` has the replies in its forks."""
        return self._shown(turn, answers, probed)[1]

    def fork(self, turn: int, answers: Sequence[str], probe: str, probed: Probed) -> Request:
        """What is asked in a fork at a turn: before its answer and without what is not heard alone,
        or after it."""
        return self._forked(turn, answers, probe, probed)[1]

    def scene(self, turn: int, answers: Sequence[str], probed: Probed = NOTHING_PROBED) -> Scene:
        """What the subject has before it at a turn, and what was done to it."""
        return self._shown(turn, answers, probed)[0]

    def _shown(self, turn: int, answers: Sequence[str], probed: Probed) -> tuple[Scene, Request]:
        # A turn is put, forked and put on record: what it shows is worked out once for all three.
        alone = probed.get(Alone.name)
        place = turn, tuple(answers[: turn - 1]), alone
        if self._known.get("asked") != place:
            question = self.course.step(turn).question
            scene = self._staged(turn, answers, tuple(self.arm.stressors), alone)
            put = self._put(scene, question, question.options, messages(scene))
            self._known.update(asked=place, shown=(scene, put))
        shown: tuple[Scene, Request] = self._known["shown"]
        return shown

    def _forked(
        self, turn: int, answers: Sequence[str], probe: str, probed: Probed
    ) -> tuple[Scene, Request]:
        step, part = self.course.step(turn), self.probes[probe]
        if part.first:
            heard = [name for name, each in self.arm.stressors.items() if each.heard_alone]
            scene = self._staged(turn, answers, heard)
            chat = messages(scene)
        else:
            scene, shown = self._shown(turn, answers, probed)
            text = part.text(step, self.misleader(turn))
            more = (Message("assistant", answers[turn - 1]), Message("user", text))
            chat = (*shown.messages, *more)
        return scene, self._put(scene, part.question(step), part.options(step), chat)

    def is_readable(self, turn: int, answer: str) -> bool:
        """Whether an answer can be read; a free one can, unless it is empty."""
        options = self.course.step(turn).question.options
        return bool(read_choice(answer, options) if options else answer.strip())

    def heard_at(self, turn: int, answers: Sequence[str], probed: Probed) -> SubjectTurn:
        """An earlier turn as a subject with its own memory heard it then."""
        place = "heard", turn, tuple(answers[: turn - 1]), probed.get(Alone.name)
        if place not in self._known:
            names, alone = tuple(self.arm.stressors), probed.get(Alone.name)
            self._known[place] = self.hears(self._staged(turn, answers, names, alone), answers)
        heard: SubjectTurn = self._known[place]
        return heard

    def hears(self, scene: Scene, answers: Sequence[str]) -> SubjectTurn:
        """A scene for a subject that keeps its own memory: its newest message, and what is gone."""
        # Of an episode that is gone, what other stressors said is said again.
        left = tuple(exchange for exchange in scene.past if exchange.answer is None)
        now = scene.present.turn
        opening = scene.opening if now == 1 else ""
        present = messages(replace(scene, opening=opening, past=left))
        kept = {exchange.turn: exchange for exchange in scene.past if exchange not in left}
        _, past = self._past(answers[: now - 1])
        for turn, exchange in kept.items():
            if exchange.lines != past[turn - 1].lines:
                raise InputError(
                    f"{self.course.id}: what was said at turn {turn} was changed afterwards, and "
                    "this subject keeps its own memory, where nothing can be rewritten; leave that "
                    "stressor out, or see recall in docs/agents.md"
                )
        return SubjectTurn(present[-1].content, tuple(n for n in range(1, now) if n not in kept))

    def probes_at(self, turn: int) -> tuple[str, ...]:
        """What is asked in forks at a turn, by name."""
        step, misleader = self.course.step(turn), self.misleader(turn)
        return tuple(name for name, part in self.probes.items() if part.fits(step, misleader))

    def probes_before(self, turn: int) -> tuple[str, ...]:
        """What of it is asked before the answer."""
        return tuple(name for name in self.probes_at(turn) if self.probes[name].first)

    def misleader(self, turn: int) -> str | None:
        """Who said something false about a turn's question that still stands."""
        for name, part in self.arm.stressors.items():
            who = part.misleads(self.course, turn)
            if who and not self.arm.sham and self._can_be_read(name, turn):
                return who
        return None

    def stands(self, turn: int) -> bool:
        """Whether what a stressor has said about a turn's question can still be read."""
        parts = self.arm.stressors
        spared = all(part.spares_others for part in parts.values())
        return not self.arm.sham and any(
            part.signals(self.course, turn) and (spared or self._can_be_read(name, turn))
            for name, part in parts.items()
        )

    def _can_be_read(self, stressor: str, turn: int) -> bool:
        place = "read", turn, stressor
        if place not in self._known:
            # What is gone from memory does not depend on the answers, so blank ones will do.
            blank = [""] * (turn - 1)
            scene = self._staged(turn, blank, tuple(self.arm.stressors))
            moment = self._moment(turn, self._past(blank)[0])
            self._known[place] = self.arm.stressors[stressor].stands(scene, moment)
        return bool(self._known[place])

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

    def _moment(
        self, turn: int, chosen: tuple[str | None, ...], alone: str | None = None
    ) -> Moment:
        options = self.course.step(turn).question.options
        own = None if alone is None else read_choice(alone, options)
        return Moment(self.course, turn, self.seed, chosen, self._strength, own, self.own_memory)

    def _staged(
        self, turn: int, answers: Sequence[str], names: Sequence[str], alone: str | None = None
    ) -> Scene:
        """A turn under some of the stressors; in the past, all of them have spoken."""
        chosen, past = self._past(answers[: turn - 1])
        moment = self._moment(turn, chosen, alone)
        scene = self._under(names, Scene(self.course.opening, past, self.bare(turn)), moment)
        if self.arm.countermeasure is not None:
            scene = self.arm.countermeasure.apply(scene, moment)
        return scene

    def _under(self, stressors: Iterable[str], scene: Scene, moment: Moment) -> Scene:
        for name in stressors:
            scene = self.arm.acted(name, scene, moment)
        return scene

    def _past(self, answers: Sequence[str]) -> tuple[tuple[str | None, ...], tuple[Exchange, ...]]:
        """The options that answers name, and the turns at which they were given, with what all
        stressors said then, whatever is forgotten since.

        A turn adds one to those before it, which are kept. What a countermeasure said is left out:
        a notebook that is read again at every turn would be repeated in each past message, and a
        reminder of what was answered in a fork would carry the fork into the conversation.
        """
        known, said = self._known.setdefault("past", {(): ((), ())}), tuple(answers)
        kept = next(n for n in range(len(said), -1, -1) if said[:n] in known)
        chosen, past = known[said[:kept]]
        # An answer that can't be read goes with its question, but not from a memory of its own.
        stays = self.own_memory or self.answering.unreadable == "record"
        for turn, answer in enumerate(said[kept:], start=kept + 1):
            moment, bare = self._moment(turn, chosen), Scene("", (), self.bare(turn))
            asked = self._under(self.arm.stressors, bare, moment).present
            chosen = (*chosen, read_choice(answer, self.course.step(turn).question.options))
            if stays or self.is_readable(turn, answer):
                asked = replace(asked, answer=answer)
            else:
                left = (line for line in asked.lines if line.kind != "question")
                asked = replace(asked, lines=tuple(left))
            past = (*past, asked)
            known[said[:turn]] = chosen, past
        return chosen, past

    def bare(self, turn: int) -> Exchange:
        """A turn as it is without any stressor."""
        step = self.course.step(turn)
        told = tuple(Utterance("fact", fact.text, fact) for fact in step.told)
        question = Utterance("question", question_text(step.question))
        if step.phase != "tested":
            return Exchange(turn, (*told, question))
        shown = Utterance("evidence", self._testimony(step.question)[0], by=EVIDENCE)
        return Exchange(turn, (*told, shown, question))

    def _testimony(self, question: Question) -> tuple[str, float]:
        named = question.signal if self.is_falsified(question) else question.truth
        return testimony(question, self._strength, str(named))

    def _put(
        self,
        scene: Scene,
        question: Question,
        options: tuple[str, ...],
        chat: tuple[Message, ...],
    ) -> Request:
        """A chat with the solution of its question, for subjects whose behaviour is set."""
        place = scene.present.turn, question.id
        if place not in self._known:
            text, strength = self._testimony(question)
            true = not self.is_falsified(question)
            facts = {fact.id: fact for fact in self.course.facts_before(scene.present.turn + 1)}
            needed = [facts[name] for name in question.needs if name in facts]
            self._known[place] = {
                "item": question.id,
                "question": question.prompt,
                "truth": str(question.truth),
                "options": question.options,
                "lure": None if question.signal is None else str(question.signal),
                "evidence": {"text": text, "strength": strength, "true": true},
                "needs": [
                    {
                        "text": fact.text,
                        "wrong": [
                            fact.text.replace(fact.value, other)
                            for other in self.course.alike(fact)
                        ],
                    }
                    for fact in needed
                ],
            }
        held_to = options if self.answering.constrained else ()
        return Request(chat, key=self._known[place], options=held_to)
