"""Amnesia: now and then, part of the past is gone, or comes back with its values swapped."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from chimeralab.trial.agents.seam import Ability
from chimeralab.trial.course import Step
from chimeralab.trial.scenarios.items import Fact, pick, uniform
from chimeralab.trial.scene import EVIDENCE, Exchange, Injection, Moment, Scene
from chimeralab.trial.stressors.seam import Arrival, Stressor

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
EVERYTHING = "everything"


@dataclass(frozen=True, slots=True)
class Amnesia(Stressor):
    """An event begins at a share `frequency` of the trials, lasts `duration` trials, and hits a
    share `scope` of the episodes so far.

    `deprive` takes away what was told, asked and answered in an episode. What another stressor said
    there stays, and so does evidence, unless `also` names it (a stressor, "evidence" or
    "everything"): amnesia that took the other treatment away would pass for a cure. `corrupt` swaps
    the values of the facts that are hit, so that what is recalled is plausible and wrong.
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
    duration: Count = 2
    scope: Share = 0.7
    also: tuple[str, ...] = ()

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        starts = self.starts(moment)
        chance = moment.seed, moment.course.id, Amnesia.name
        hit = {
            each.turn: each
            for each in scene.past
            if any(uniform(*chance, turn, each.turn) < self.scope for turn in starts)
        }
        if self.mode == "deprive":
            parted = {turn: self._part(episode) for turn, episode in hit.items()}
            left = (parted[each.turn][0] if each.turn in hit else each for each in scene.past)
            past = tuple(each for each in left if each.lines)
            done = [
                Injection(self.name, "removed", turn, "episode", taken)
                for turn, (_, taken) in parted.items()
            ]
        else:
            values = _new_values(hit.values(), moment)
            past = tuple(_swapped(e, values) if e.turn in hit else e for e in scene.past)
            done = [
                Injection(self.name, "altered", turn, "fact", line.text, new.text)
                for turn, episode in hit.items()
                for line, new in zip(episode.lines, _swapped(episode, values).lines, strict=True)
                if line.fact is not None and line.fact.id in values
            ]
        return replace(scene, past=past, injections=(*scene.injections, *done))

    def acts_on(self, step: Step) -> bool:
        return bool(step.told)

    @property
    def acts_on_memory(self) -> Ability:
        return "forget" if self.mode == "deprive" else "recall"

    def starts(self, moment: Moment) -> list[int]:
        """The trials of the events that are going on; a first trial has no past to lose."""
        first = max(2, moment.turn - self.duration + 1)
        return [
            turn
            for turn in range(first, moment.turn + 1)
            if uniform(moment.seed, moment.course.id, Amnesia.name, turn) < self.frequency
        ]

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(name for name in self.also if name not in (EVERYTHING, EVIDENCE))

    @property
    def spares_others(self) -> bool:
        return {*self.also} <= {EVIDENCE}

    def _part(self, episode: Exchange) -> tuple[Exchange, str]:
        """What is left of an episode, and the text of what is taken away."""
        spared = [
            bool(line.by) and not {EVERYTHING, line.by} & {*self.also} for line in episode.lines
        ]
        left, taken = (
            replace(episode, lines=tuple(compress(episode.lines, which)), answer=None)
            for which in (spared, [not each for each in spared])
        )
        answer = [] if episode.answer is None else [episode.answer]
        return left, "\n\n".join([taken.text, *answer])


def _new_values(hit: Iterable[Exchange], moment: Moment) -> dict[str, str]:
    """By fact, the value that it is told with now; facts that can't be told wrong are missing."""
    facts = [line.fact for episode in hit for line in episode.lines if line.fact is not None]
    chance = moment.seed, moment.course.id, Amnesia.name, "swap"
    values: dict[str, str] = {}
    for relation in dict.fromkeys(fact.relation for fact in facts):
        alike = [fact for fact in facts if fact.relation == relation]
        values |= swapped_values(alike, *chance)
        for fact in alike:
            # Where nobody can swap with it: a value that any other fact of the relation has.
            others = [value for value in moment.course.alike(fact) if fits(value, fact)]
            if fact.id not in values and others:
                values[fact.id] = pick(others, *chance, fact.id)
    return values


def _swapped(episode: Exchange, values: Mapping[str, str]) -> Exchange:
    """An episode whose facts are told with their new values."""
    lines = (
        line
        if line.fact is None or line.fact.id not in values
        else line._replace(text=line.fact.text.replace(line.fact.value, values[line.fact.id]))
        for line in episode.lines
    )
    return replace(episode, lines=tuple(lines))


def swapped_values(facts: Sequence[Fact], *chance: Any) -> dict[str, str]:
    """The new values of facts of one relation, by fact. Each value is given to one fact at most.

    As many facts as possible get another's value; for the rest there is none that fits.

    >>> ada = Fact("1", "Ada", "owns", "a bell", "Ada owns a bell.")
    >>> bo = Fact("2", "Bo", "owns", "a lamp", "Bo owns a lamp.")
    >>> swapped_values([ada, bo], 7)
    {'1': 'a lamp', '2': 'a bell'}
    """
    # Places in the ring depend on each fact alone: one more fact hit disturbs few of the others.
    ring = sorted(facts, key=lambda fact: uniform(*chance, fact.id))
    takers: dict[int, int] = {}
    for taker in range(len(ring)):
        _find_giver(taker, ring, takers, set())
    values = {ring[taker].id: ring[giver].value for giver, taker in takers.items()}
    return {fact.id: values[fact.id] for fact in facts if fact.id in values}


def fits(value: str, fact: Fact) -> bool:
    """Whether a fact with this value is wrong, and does not relate somebody to themselves."""
    return value not in (fact.value, fact.subject)


def _find_giver(taker: int, ring: Sequence[Fact], takers: dict[int, int], tried: set[int]) -> bool:
    """Find a value for a fact, the next in the ring first; who has it already may have to move on.

    This is the search for augmenting paths, which gives a value to as many as can have one.
    """
    for step in range(1, len(ring)):
        giver = (taker + step) % len(ring)
        if giver in tried or not fits(ring[giver].value, ring[taker]):
            continue
        tried.add(giver)
        if giver not in takers or _find_giver(takers[giver], ring, takers, tried):
            takers[giver] = taker
            return True
    return False
