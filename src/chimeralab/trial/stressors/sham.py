"""Sham: where a stressor would step in, the same amount of text that says nothing to the point."""

from dataclasses import dataclass, replace
from itertools import cycle
from typing import cast

from chimeralab.core.records import Record
from chimeralab.trial.scene import Exchange, Injection, Kind, Moment, Scene, Utterance
from chimeralab.trial.stressors.seam import Stressor

SHAM = "sham"
_FILLER = (
    "The room is quiet and the light stays on.",
    "A clock on the wall shows the time of day.",
    "The paper on the table is white and of the usual size.",
    "Outside, the weather is neither warm nor cold.",
    "The chairs stand in a row along the wall.",
    "Somebody walks down the corridor and back.",
)
# One of every length from 1 to 20 characters: what is left at the end is never cut.
_ENDINGS = (
    ".",
    "Hm",
    "Hm.",
    "Now.",
    "Well.",
    "Quiet.",
    "By now.",
    "By noon.",
    "All calm.",
    "All quiet.",
    "It is calm.",
    "It is quiet.",
    "It is silent.",
    "It is evening.",
    "A door is shut.",
    "The lamp is lit.",
    "The door is shut.",
    "The floor is flat.",
    "The walls are bare.",
    "The window is clean.",
)
_SHORTEST_REST = 10  # so many characters always make whole sentences


@dataclass(frozen=True, slots=True)
class Sham(Record):
    """Undoes what a stressor did to a scene; something neutral of equal length stands in its place.

    What was taken away stays, and is followed by as much neutral text as would have been missing.
    A subject with its own memory hears no more under a stressor that takes away, and none here.
    """

    of: Stressor

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        done = self.of.apply(scene, moment).injections[len(scene.injections) :]
        for injection in done:
            if injection.turn == moment.turn or not moment.own_memory:
                scene = _soothed(scene, injection)
        return scene


def neutral(length: int) -> str:
    """Neutral text of exactly a length in characters, in whole sentences unless it is very short.

    >>> neutral(40)
    'The window is clean. The walls are bare.'
    """
    said: list[str] = []
    left, fillers = length, cycle(_FILLER)
    while left > len(_ENDINGS):
        sentence = next(fillers)
        most = left - 1 - _SHORTEST_REST
        if len(sentence) > most:
            sentence = _ENDINGS[min(most, len(_ENDINGS)) - 1]
        said.append(sentence)
        left -= len(sentence) + 1
    return " ".join([*said, *_ENDINGS[left - 1 : left]])


def _soothed(scene: Scene, injection: Injection) -> Scene:
    kind = injection.kind if injection.action == "said" else "review"
    line = Utterance(cast("Kind", kind), neutral(len(injection.instead or injection.text)))
    record = Injection(SHAM, "said", injection.turn, line.kind, line.text)
    return replace(
        scene,
        past=tuple(_with(exchange, line, injection.turn) for exchange in scene.past),
        present=_with(scene.present, line, injection.turn),
        injections=(*scene.injections, record),
    )


def _with(exchange: Exchange, line: Utterance, turn: int) -> Exchange:
    return exchange.adding(line) if exchange.turn == turn else exchange
