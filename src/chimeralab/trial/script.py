"""The script of one session: a course under an arm, turn by turn.

Everything is derived from the course, the arm, the seed and the answers so far, so an interrupted
session resumes exactly where it stopped.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.models.seam import Message, Request, SubjectTurn
from chimeralab.runner.interventions import Ask
from chimeralab.runner.journal import RunContext
from chimeralab.runner.talk import Talk
from chimeralab.trial.course import Course, Evidence
from chimeralab.trial.probes import PrivateAnswer, Probe, question_text
from chimeralab.trial.replies import read_choice
from chimeralab.trial.scenarios.items import Question
from chimeralab.trial.scene import (
    DEFAULT_STRENGTH,
    EVIDENCE,
    Exchange,
    Moment,
    Scene,
    Utterance,
    choose_evidence,
    render_messages,
)
from chimeralab.trial.stressors import Stressor, apply_sham, read_evidence

if TYPE_CHECKING:
    from chimeralab.trial.session import Examination

# The replies to the probes of a turn, by probe.
Replies = Mapping[str, str]
NOT_PROBED: Replies = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Arm(Record):
    """The stressors that a subject is exposed to, by name, and a countermeasure if any.

    A `sham` arm has neutral text instead. `cell` says which stressors are on, as in 101. A dose
    design varies the key `dosed` and gives this arm the value `dose`. `against` is the name of the
    countermeasure in the plan.
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
        """A key shared by all arms with the same stressors and settings."""
        settings = {name: part.as_dict() for name, part in self.stressors.items()}
        return json.dumps(settings, sort_keys=True, default=str)

    def apply(self, stressors: Iterable[str], scene: Scene, moment: Moment) -> Scene:
        """Apply some of the stressors, or their shams, in order; each is recorded by its name."""
        for name in stressors:
            part, before, said = self.stressors[name], scene.injections, scene.present.lines
            after = apply_sham(part, scene, moment) if self.sham else part.apply(scene, moment)
            new = after.injections[len(before) :]
            if not new and after is not scene and after != scene:
                raise InputError(
                    f"[stressors.{name}] changed a scene without recording it; "
                    "add an Injection for every change, as Scene.saying does"
                )
            if not self.sham:
                new = tuple(replace(each, stressor=name) for each in new)
            lines = tuple(
                line if line in said else line._replace(by=name) for line in after.present.lines
            )
            present = replace(after.present, lines=lines)
            scene = replace(after, present=present, injections=(*before, *new))
        return scene


@dataclass(frozen=True, slots=True)
class AnswerRules(Record):
    """[answers]: how answers are elicited and read.

    With `constrained`, a model that supports it can only reply with an option of the question. An
    `unreadable` reply is counted; `record` keeps it in the conversation, `drop` removes question
    and reply but not the facts told, and `ask again` drops only if the second reply is unreadable.
    """

    constrained: bool = True
    unreadable: Literal["record", "ask again", "drop"] = "drop"


@dataclass(frozen=True, slots=True)
class Script(Record):
    """A course under an arm. All arms share the `seed`, so events fall on the same trials.

    `strength` and `evidence` are the reliability and truth of the evidence unless the arm sets
    them. A subject with its `own_memory` gets one message at a time.
    """

    course: Course
    arm: Arm
    seed: int
    probes: Mapping[str, Probe]
    strength: float = DEFAULT_STRENGTH
    own_memory: bool = False
    answering: AnswerRules = AnswerRules(constrained=False, unreadable="record")
    evidence: Evidence = "true"
    _cache: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def _compute_once(self, key: Any, compute: Callable[[], Any]) -> Any:
        if key not in self._cache:
            self._cache[key] = compute()
        return self._cache[key]

    @property
    def asks_again(self) -> bool:
        return self.answering.unreadable == "ask again"

    def build_request(
        self,
        system: tuple[Message, ...],
        ask: Ask,
        answers: Sequence[str],
        probed: Callable[[int], Replies],
    ) -> Request:
        """Build the request for a question or probe.

        A subject with its own memory gets every turn so far, with its answers.
        """
        turn = ask.turn
        if ask.probe is None:
            scene, request = self._pose(turn, answers, ask.probed)
        else:
            scene, request = self._pose_probe(turn, answers, ask.probe, ask.probed)
        history: list[SubjectTurn] = []
        if self.own_memory:
            history = [self._recall_turn(n, answers, probed(n)) for n in range(1, turn)]
            history.append(self._as_subject_turn(scene, answers))
            said = [*answers[:turn], None][:turn]
            history = [replace(one, answer=text) for one, text in zip(history, said, strict=True)]
            if system:
                history[0] = replace(history[0], text=f"{system[0].content}\n\n{history[0].text}")
        return replace(request, messages=(*system, *request.messages), history=tuple(history))

    def examine(self, talk: Talk, context: RunContext) -> "Examination":
        from chimeralab.trial.session import Examination  # noqa: PLC0415 - it imports scripts

        return Examination(talk, self, context)

    def pose(self, turn: int, answers: Sequence[str], probed: Replies = NOT_PROBED) -> Request:
        """The question of a turn, given the earlier answers and the replies to its probes."""
        return self._pose(turn, answers, probed)[1]

    def pose_probe(self, turn: int, answers: Sequence[str], probe: str, probed: Replies) -> Request:
        return self._pose_probe(turn, answers, probe, probed)[1]

    def scene(self, turn: int, answers: Sequence[str], probed: Replies = NOT_PROBED) -> Scene:
        """What the subject sees at a turn, and every manipulation of it."""
        return self._pose(turn, answers, probed)[0]

    def _pose(self, turn: int, answers: Sequence[str], probed: Replies) -> tuple[Scene, Request]:
        # A turn is posed, probed and recorded; its scene is staged once for all three.
        alone = probed.get(PrivateAnswer.name)
        key = turn, tuple(answers[: turn - 1]), alone
        if self._cache.get("turn") != key:
            question = self.course.step(turn).question
            scene = self._stage(turn, answers, self.arm.stressors, alone)
            request = self._request(scene, question, question.options, render_messages(scene))
            self._cache.update(turn=key, posed=(scene, request))
        posed: tuple[Scene, Request] = self._cache["posed"]
        return posed

    def _pose_probe(
        self, turn: int, answers: Sequence[str], probe: str, probed: Replies
    ) -> tuple[Scene, Request]:
        """Ask before the answer, without the stressors that are not heard alone, or after it."""
        step, part = self.course.step(turn), self.probes[probe]
        if part.first:
            heard = [name for name, each in self.arm.stressors.items() if each.heard_alone]
            scene = self._stage(turn, answers, heard)
            chat = render_messages(scene)
        else:
            scene, posed = self._pose(turn, answers, probed)
            text = part.text(step, self.misleader(turn))
            more = (Message("assistant", answers[turn - 1]), Message("user", text))
            chat = (*posed.messages, *more)
        return scene, self._request(scene, part.question(step), part.options(step), chat)

    def is_readable(self, turn: int, answer: str) -> bool:
        """Whether an answer can be read; a free one can unless it is empty."""
        options = self.course.step(turn).question.options
        return bool(read_choice(answer, options) if options else answer.strip())

    def _recall_turn(self, turn: int, answers: Sequence[str], probed: Replies) -> SubjectTurn:
        """An earlier turn as a subject with its own memory got it."""
        alone = probed.get(PrivateAnswer.name)

        def compute() -> SubjectTurn:
            scene = self._stage(turn, answers, self.arm.stressors, alone)
            return self._as_subject_turn(scene, answers)

        key = "recall", turn, tuple(answers[: turn - 1]), alone
        found: SubjectTurn = self._compute_once(key, compute)
        return found

    def _as_subject_turn(self, scene: Scene, answers: Sequence[str]) -> SubjectTurn:
        """The newest message and the forgotten turns, for a subject with its own memory."""
        # What other stressors said in a removed episode is repeated.
        left = tuple(exchange for exchange in scene.past if exchange.answer is None)
        now = scene.present.turn
        opening = scene.opening if now == 1 else ""
        present = render_messages(replace(scene, opening=opening, past=left))
        kept = {exchange.turn: exchange for exchange in scene.past if exchange not in left}
        _, past = self._past(answers[: now - 1])
        for turn, exchange in kept.items():
            if exchange.lines != past[turn - 1].lines:
                raise InputError(
                    f"{self.course.id}: a stressor rewrote turn {turn}, but this subject keeps its "
                    "own memory, which can't be rewritten; leave that stressor out, or see recall "
                    "in docs/agents.md"
                )
        return SubjectTurn(present[-1].content, tuple(n for n in range(1, now) if n not in kept))

    def probes_at(self, turn: int) -> tuple[str, ...]:
        """The names of the probes of a turn."""
        step, misleader = self.course.step(turn), self.misleader(turn)
        return tuple(name for name, part in self.probes.items() if part.fits(step, misleader))

    def probes_before(self, turn: int) -> tuple[str, ...]:
        """Those of them that are asked before the answer."""
        return tuple(name for name in self.probes_at(turn) if self.probes[name].first)

    def misleader(self, turn: int) -> str | None:
        """Who said something false about a turn's question that can still be read."""
        for name, part in self.arm.stressors.items():
            who = part.misleads(self.course, turn)
            if who and not self.arm.sham and self._is_visible(name, turn):
                return who
        return None

    def stands(self, turn: int) -> bool:
        """Whether a signal about a turn's question can still be read."""
        parts = self.arm.stressors
        spared = all(part.spares_others for part in parts.values())
        return not self.arm.sham and any(
            part.signals(self.course, turn) and (spared or self._is_visible(name, turn))
            for name, part in parts.items()
        )

    def _is_visible(self, stressor: str, turn: int) -> bool:
        def compute() -> bool:
            # What is forgotten does not depend on the answers.
            blank = [""] * (turn - 1)
            scene = self._stage(turn, blank, self.arm.stressors)
            moment = self._moment(turn, self._past(blank)[0])
            return self.arm.stressors[stressor].stands(scene, moment)

        return bool(self._compute_once(("visible", turn, stressor), compute))

    @property
    def _strength(self) -> float:
        return read_evidence(self.arm.stressors.values(), self.strength, self.evidence)[0]

    @property
    def evidence_mode(self) -> Evidence:
        """Whether the evidence of this session is true, false or mixed."""
        return read_evidence(self.arm.stressors.values(), self.strength, self.evidence)[1]

    def is_falsified(self, question: Question) -> bool:
        """Whether the evidence about a question is false."""
        draw = partial(self.course.draw_falsified, self.evidence_mode)
        return question.id in self._compute_once("falsified", draw)

    def _moment(
        self, turn: int, chosen: tuple[str | None, ...], alone: str | None = None
    ) -> Moment:
        options = self.course.step(turn).question.options
        own = None if alone is None else read_choice(alone, options)
        return Moment(self.course, turn, self.seed, chosen, self._strength, own, self.own_memory)

    def _stage(
        self, turn: int, answers: Sequence[str], names: Iterable[str], alone: str | None = None
    ) -> Scene:
        """Stage a turn under some of the stressors; all of them acted in the past."""
        chosen, past = self._past(answers[: turn - 1])
        moment = self._moment(turn, chosen, alone)
        scene = Scene(self.course.opening, past, self.baseline(turn))
        scene = self.arm.apply(names, scene, moment)
        if self.arm.countermeasure is not None:
            scene = self.arm.countermeasure.apply(scene, moment)
        return scene

    def _past(self, answers: Sequence[str]) -> tuple[tuple[str | None, ...], tuple[Exchange, ...]]:
        """The options chosen so far, and the past turns with everything that stressors said then.

        Built up turn by turn in the cache. Countermeasures are left out: a notebook would be
        repeated in each past message, and a reminder of a private answer would carry a fork into
        the conversation.
        """
        known, said = self._cache.setdefault("past", {(): ((), ())}), tuple(answers)
        kept = next(n for n in range(len(said), -1, -1) if said[:n] in known)
        chosen, past = known[said[:kept]]
        # An unreadable answer is dropped with its question, unless the subject has its own memory.
        keeps = self.own_memory or self.answering.unreadable == "record"
        for turn, answer in enumerate(said[kept:], start=kept + 1):
            moment, scene = self._moment(turn, chosen), Scene("", (), self.baseline(turn))
            exchange = self.arm.apply(self.arm.stressors, scene, moment).present
            chosen = (*chosen, read_choice(answer, self.course.step(turn).question.options))
            if keeps or self.is_readable(turn, answer):
                exchange = replace(exchange, answer=answer)
            else:
                left = (line for line in exchange.lines if line.kind != "question")
                exchange = replace(exchange, lines=tuple(left))
            past = (*past, exchange)
            known[said[:turn]] = chosen, past
        return chosen, past

    def baseline(self, turn: int) -> Exchange:
        """A turn without any stressor."""
        step = self.course.step(turn)
        told = tuple(Utterance("fact", fact.text, fact) for fact in step.told)
        question = Utterance("question", question_text(step.question))
        if step.phase != "tested":
            return Exchange(turn, (*told, question))
        shown = Utterance("evidence", self._evidence_for(step.question)[0], by=EVIDENCE)
        return Exchange(turn, (*told, shown, question))

    def _evidence_for(self, question: Question) -> tuple[str, float]:
        named = question.signal if self.is_falsified(question) else question.truth
        return choose_evidence(question, self._strength, str(named))

    def _request(
        self,
        scene: Scene,
        question: Question,
        options: tuple[str, ...],
        chat: tuple[Message, ...],
    ) -> Request:
        """A chat with the solution of its question, which only phantoms receive."""
        turn = scene.present.turn
        solution = self._compute_once((turn, question.id), partial(self._solve, turn, question))
        allowed = options if self.answering.constrained else ()
        return Request(chat, key=solution, options=allowed)

    def _solve(self, turn: int, question: Question) -> dict[str, Any]:
        text, strength = self._evidence_for(question)
        told = {fact.id: fact for fact in self.course.facts_before(turn + 1)}
        needs = []
        for fact in (told[name] for name in question.needs if name in told):
            others = self.course.other_values(fact)
            wrong = [fact.text.replace(fact.value, other) for other in others]
            needs.append({"text": fact.text, "wrong": wrong})
        return {
            "item": question.id,
            "question": question.prompt,
            "truth": str(question.truth),
            "options": question.options,
            "lure": None if question.signal is None else str(question.signal),
            "evidence": {
                "text": text,
                "strength": strength,
                "true": not self.is_falsified(question),
            },
            "needs": needs,
        }
