"""Amnesia: now and then, part of the past is gone, or comes back with its values swapped."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from chimeralab.records import Record
from chimeralab.sandbox.draws import pick, uniform
from chimeralab.sandbox.scene import Exchange, Injection, Line, Moment, Scene

NAME = "amnesia"
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True)
class Amnesia(Record):
    """An event begins at a share `frequency` of the trials, lasts `duration` trials, and hits a
    share `scope` of the episodes so far.

    `deprive` takes an episode away whole. `corrupt` gives each of its facts a value that another
    fact has, so that what is recalled is plausible and wrong.
    """

    mode: Literal["deprive", "corrupt"] = "deprive"
    frequency: Share = 0.3
    duration: Count = 2
    scope: Share = 0.7

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        hit = [episode for episode in scene.past if self._hits(episode.turn, moment)]
        if self.mode == "deprive":
            past = tuple(episode for episode in scene.past if episode not in hit)
            done = [_removed(episode) for episode in hit]
        else:
            past = tuple(_swapped(e, moment) if e in hit else e for e in scene.past)
            done = [injection for episode in hit for injection in _altered(episode, moment)]
        return replace(scene, past=past, injections=(*scene.injections, *done))

    def starts(self, moment: Moment) -> list[int]:
        """The trials of the events that are going on; a first trial has no past to lose."""
        first = max(2, moment.turn - self.duration + 1)
        return [
            turn
            for turn in range(first, moment.turn + 1)
            if uniform(moment.seed, moment.course.id, NAME, turn) < self.frequency
        ]

    def _hits(self, episode: int, moment: Moment) -> bool:
        place = moment.seed, moment.course.id, NAME
        return any(uniform(*place, turn, episode) < self.scope for turn in self.starts(moment))


def _removed(episode: Exchange) -> Injection:
    said = episode.text if episode.answer is None else f"{episode.text}\n\n{episode.answer}"
    return Injection(NAME, "removed", episode.turn, "episode", said)


def _altered(episode: Exchange, moment: Moment) -> list[Injection]:
    return [
        Injection(NAME, "altered", episode.turn, "fact", line.text, _swap(line, moment).text)
        for line in episode.lines
        if line.fact is not None
    ]


def _swapped(episode: Exchange, moment: Moment) -> Exchange:
    return replace(episode, lines=tuple(_swap(line, moment) for line in episode.lines))


def _swap(line: Line, moment: Moment) -> Line:
    """The line with a value that another fact of the same relation has."""
    fact = line.fact
    others = [] if fact is None else moment.course.alike(fact)
    if fact is None or not others:
        return line
    value = pick(others, moment.seed, moment.course.id, NAME, "swap", fact.id)
    return line._replace(text=fact.text.replace(fact.value, value))
