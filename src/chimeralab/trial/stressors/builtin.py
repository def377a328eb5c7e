"""The built-in stressors.

Conformity: others answer first; on critical trials they are wrong. Infallibility: an authority
confirms a belief, round after round. Amnesia: at times, part of the past is gone or corrupted.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.trial.agents.seam import Ability
from chimeralab.trial.course import MAX_ROUNDS, Consensus, Course, Evidence, Step
from chimeralab.trial.scenarios.items import Fact, pick, uniform
from chimeralab.trial.scene import (
    DEFAULT_STRENGTH,
    EVIDENCE,
    Exchange,
    Injection,
    Moment,
    Scene,
    Utterance,
)
from chimeralab.trial.stressors.seam import PHRASES, Arrival, Stressor

Share = Annotated[float, Field(ge=0, le=1)]
MAX_SIZE = 20


@dataclass(frozen=True, slots=True)
class Conformity(Stressor):
    """`size` others answer first, each with a stated `confidence`.

    A share `unanimity` of them agrees, on the lure in critical trials and on the truth in neutral
    ones; the rest say the opposite.
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
    source: Literal["peers", "authority"] = "peers"
    unanimity: Share = 1.0
    confidence: Share = 0.9

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        step = moment.step
        if step.consensus is None or step.lure is None or not self.size:
            return scene
        agreed, dissent = step.lure, step.truth
        if step.consensus == "neutral":
            agreed, dissent = dissent, agreed
        answers = [agreed] * self.majority + [dissent] * (self.size - self.majority)
        sure = f"{100 * self.confidence:g} % sure"
        phrases = PHRASES[self.source]
        voices = (f"{phrases['voice']} {n}: {each} ({sure})" for n, each in enumerate(answers, 1))
        return scene.saying(self.name, Utterance("others", "\n".join((phrases["head"], *voices))))

    def acts_on(self, step: Step) -> bool:
        return step.consensus is not None

    def pushes(self, course: Course, turn: int) -> bool:
        consensus = course.step(turn).consensus
        return consensus is not None and self.errs(consensus)

    def misleads(self, course: Course, turn: int) -> str | None:
        """The majority, the first time that it is wrong."""
        critical = [n for n, step in enumerate(course.steps, 1) if step.consensus == "critical"]
        first = turn in critical[:1] and self.errs("critical")
        return PHRASES[self.source]["majority"] if first else None

    @property
    def majority(self) -> int:
        """How many of them agree."""
        return round(self.unanimity * self.size)

    def errs(self, consensus: Consensus) -> bool:
        """Whether most of them name the lure; an even split pushes nobody."""
        wrong = self.majority if consensus == "critical" else self.size - self.majority
        return 2 * wrong > self.size


@dataclass(frozen=True, slots=True)
class Infallibility(Stressor):
    """False feedback follows the last `rounds` of the questions that teach a belief.

    A question with its own push-backs is pushed with those, one per round. `strength` is the stated
    reliability of the evidence against the belief, which is part of the course and shown in every
    arm. With false `evidence`, for all questions or half of them ("mixed"), the authority confirms
    the right answer instead: evidence always contradicts what was confirmed, so following the last
    voice is not enough.
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

    rounds: Annotated[int, Field(ge=0, le=MAX_ROUNDS)] = 3
    authority: Literal["examiner", "tool", "document"] = "examiner"
    strength: Annotated[float, Field(gt=0.5, le=1)] = DEFAULT_STRENGTH
    evidence: Evidence = "true"

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        last = moment.last
        if last is None or last.phase != "taught":
            return scene
        number = last.round - (moment.course.rounds - self.rounds)
        if number < 1:
            return scene
        confirmed = self._find_confirmed(moment.course, last)
        kind = "praise" if moment.chosen[-1] == confirmed else "correction"
        about = {"question": last.question.prompt, "named": confirmed}
        pushes = last.question.pushes
        if pushes and confirmed == last.lure:
            # Beyond the last push-back, it is repeated.
            kind, push = "insistence", pushes[min(number, len(pushes)) - 1]
            about["push"] = " ".join(push.split())
        said = PHRASES[self.authority][kind].format(**about)
        return scene.saying(self.name, Utterance("feedback", said))

    def acts_on(self, step: Step) -> bool:
        return step.phase is not None

    def pushes(self, course: Course, turn: int) -> bool:
        step = course.step(turn)
        return self.signals(course, turn) and self._find_confirmed(course, step) != step.truth

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
        """Whether any feedback on the question is left in memory."""
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
        mixed = ("false_update", "discrimination") if self.evidence == "mixed" else ()
        return (*self.aims, *mixed)

    @property
    def rounds_needed(self) -> int:
        return self.rounds

    @property
    def evidence_strength(self) -> float | None:
        return self.strength

    @property
    def evidence_mode(self) -> Evidence:
        return self.evidence

    def _find_confirmed(self, course: Course, step: Step) -> str | None:
        """The answer that the authority confirms and the evidence contradicts."""
        false = step.question.id in course.draw_falsified(self.evidence)
        return step.truth if false else step.lure


EVERYTHING = "everything"


@dataclass(frozen=True, slots=True)
class Amnesia(Stressor):
    """An event begins at a share `frequency` of the trials, lasts `duration` trials, and hits a
    share `scope` of the earlier episodes.

    Instead of a frequency, events can have a schedule: one `every` n trials, or `at` shares
    of the session (0.25 is the trial after a quarter of them).

    `deprive` removes what was told, asked and answered in an episode. What another stressor said
    there stays, and so does evidence, unless `also` names it (a stressor, "evidence" or
    "everything"): amnesia that removed another treatment would look like a cure. `corrupt` swaps
    the values of the facts, so that what is recalled is plausible and wrong.
    """

    name: ClassVar[str] = "amnesia"
    aims: ClassVar[tuple[str, ...]] = ("recall", "narrative_coherence", "relational_consistency")
    words: ClassVar[str] = (
        "earlier episodes removed from the conversation, or their facts exchanged"
    )
    checks: ClassVar[tuple[Arrival, ...]] = (
        Arrival(
            title="memory disturbed",
            said="memory is disturbed",
            shows=lambda row: row.disturbed,
            keeps=lambda row: row.recall_correct if row.gone else None,
        ),
    )

    mode: Literal["deprive", "corrupt"] = "deprive"
    frequency: Share = 0.3
    duration: Annotated[int, Field(ge=1)] = 2
    scope: Share = 0.7
    also: tuple[str, ...] = ()
    every: Annotated[int, Field(ge=1)] | None = None
    at: tuple[Share, ...] | None = None

    def __post_init__(self) -> None:
        if self.every is not None and self.at is not None:
            raise InputError("amnesia has both `every` and `at`; give one of them")

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        starts = self.event_starts(moment)
        key = moment.seed, moment.course.id, Amnesia.name
        hit = {
            each.turn: each
            for each in scene.past
            if any(uniform(*key, turn, each.turn) < self.scope for turn in starts)
        }
        if self.mode == "deprive":
            split = {turn: self._split(episode) for turn, episode in hit.items()}
            left = (split[each.turn][0] if each.turn in hit else each for each in scene.past)
            past = tuple(each for each in left if each.lines)
            injections = [
                Injection(self.name, "removed", turn, "episode", removed)
                for turn, (_, removed) in split.items()
            ]
        else:
            values = _draw_values(hit.values(), moment)
            past = tuple(_rewrite(e, values) if e.turn in hit else e for e in scene.past)
            injections = [
                Injection(self.name, "altered", turn, "fact", line.text, new.text)
                for turn, episode in hit.items()
                for line, new in zip(episode.lines, _rewrite(episode, values).lines, strict=True)
                if line.fact is not None and line.fact.id in values
            ]
        return replace(scene, past=past, injections=(*scene.injections, *injections))

    def acts_on(self, step: Step) -> bool:
        return bool(step.told)

    @property
    def acts_on_memory(self) -> Ability:
        return "forget" if self.mode == "deprive" else "recall"

    def event_starts(self, moment: Moment) -> list[int]:
        """The first trials of the current events; the first trial of all has no past to lose."""
        first, length = max(2, moment.turn - self.duration + 1), len(moment.course.steps)
        # 1e-9: 0.7 of 10 trials is 7.000000000000001 of them, or a little less.
        planned = {min(max(int(share * length + 1e-9) + 1, 2), length) for share in self.at or ()}

        def begins(turn: int) -> bool:
            if self.every is not None:
                return turn % self.every == 0
            if self.at is not None:
                return turn in planned
            return uniform(moment.seed, moment.course.id, Amnesia.name, turn) < self.frequency

        return [turn for turn in range(first, moment.turn + 1) if begins(turn)]

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(name for name in self.also if name not in (EVERYTHING, EVIDENCE))

    @property
    def spares_others(self) -> bool:
        return {*self.also} <= {EVIDENCE}

    def _split(self, episode: Exchange) -> tuple[Exchange, str]:
        """What is left of an episode, and the text that is removed."""
        spared = [
            bool(line.by) and not {EVERYTHING, line.by} & {*self.also} for line in episode.lines
        ]
        left, removed = (
            replace(episode, lines=tuple(compress(episode.lines, which)), answer=None)
            for which in (spared, [not each for each in spared])
        )
        answer = [] if episode.answer is None else [episode.answer]
        return left, "\n\n".join([removed.text, *answer])


def _draw_values(hit: Iterable[Exchange], moment: Moment) -> dict[str, str]:
    """Draw a wrong value for each fact of some episodes; facts without one are left out."""
    facts = [line.fact for episode in hit for line in episode.lines if line.fact is not None]
    key = moment.seed, moment.course.id, Amnesia.name, "swap"
    values: dict[str, str] = {}
    for relation in dict.fromkeys(fact.relation for fact in facts):
        alike = [fact for fact in facts if fact.relation == relation]
        values |= swap_values(alike, *key)
        for fact in alike:
            # Without a partner to swap with, take the value of any fact with the relation.
            others = [value for value in moment.course.other_values(fact) if is_wrong(value, fact)]
            if fact.id not in values and others:
                values[fact.id] = pick(others, *key, fact.id)
    return values


def _rewrite(episode: Exchange, values: Mapping[str, str]) -> Exchange:
    """Tell the facts of an episode with new values."""
    lines = (
        line
        if line.fact is None or line.fact.id not in values
        else line._replace(text=line.fact.text.replace(line.fact.value, values[line.fact.id]))
        for line in episode.lines
    )
    return replace(episode, lines=tuple(lines))


def swap_values(facts: Sequence[Fact], *key: Any) -> dict[str, str]:
    """Swap the values of facts with one relation; each value goes to at most one fact.

    As many facts as possible get another's value; none fits the rest.

    >>> ada = Fact("1", "Ada", "owns", "a bell", "Ada owns a bell.")
    >>> bo = Fact("2", "Bo", "owns", "a lamp", "Bo owns a lamp.")
    >>> swap_values([ada, bo], 7)
    {'1': 'a lamp', '2': 'a bell'}
    """
    # The place in the ring depends on the fact alone, so one more fact disturbs few of the others.
    ring = sorted(facts, key=lambda fact: uniform(*key, fact.id))
    takers: dict[int, int] = {}
    for taker in range(len(ring)):
        _find_giver(taker, ring, takers, set())
    values = {ring[taker].id: ring[giver].value for giver, taker in takers.items()}
    return {fact.id: values[fact.id] for fact in facts if fact.id in values}


def is_wrong(value: str, fact: Fact) -> bool:
    """Whether a value makes a fact wrong without relating a subject to itself."""
    return value not in (fact.value, fact.subject)


def _find_giver(taker: int, ring: Sequence[Fact], takers: dict[int, int], tried: set[int]) -> bool:
    """Find a value for a fact, the next in the ring first, by an augmenting path."""
    for step in range(1, len(ring)):
        giver = (taker + step) % len(ring)
        if giver in tried or not is_wrong(ring[giver].value, ring[taker]):
            continue
        tried.add(giver)
        if giver not in takers or _find_giver(takers[giver], ring, takers, tried):
            takers[giver] = taker
            return True
    return False
