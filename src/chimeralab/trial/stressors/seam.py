"""The seam where stressors are exchanged: a scene in, the scene as the subject will see it out.

In a sham arm, where a stressor would step in, the same amount of text says nothing to the point.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import ClassVar, NamedTuple, cast

from chimeralab.core.parts import Seam
from chimeralab.core.records import Record
from chimeralab.trial.agents.seam import Ability
from chimeralab.trial.course import Course, Evidence, Step
from chimeralab.trial.scene import Injection, Kind, Moment, Scene, Utterance
from chimeralab.trial.trials import TrialRow


class Arrival(NamedTuple):
    """What the record must show before the arm of a stressor says anything.

    `shows` is true of the trials at which the stressor did its work. Where it gave a `signal` that
    a subject can notice, `asks` is true of the trials at which that can be asked. Where it took
    something away and the subject was asked for it, `keeps` says whether it still had it.
    """

    title: str
    said: str
    shows: Callable[[TrialRow], bool]
    signal: str | None = None
    asks: Callable[[TrialRow], bool] = lambda row: True
    keeps: Callable[[TrialRow], bool | None] | None = None


@dataclass(frozen=True, slots=True)
class Stressor(Record):
    """Settings that can change a scene, and everything that others need to know of them.

    A stressor of your own is a frozen dataclass that inherits from this one. Its fields are its
    settings, which a plan sets and may vary as doses. It must have `apply`; all else has a default.

    `aims` names the measures that it is meant to move, `words` say what it does in the methods of a
    report, and `checks` what the record must show of it. `heard_alone` is False for a signal that
    the question asked alone leaves out.
    """

    name: ClassVar[str] = ""
    aims: ClassVar[tuple[str, ...]] = ()
    words: ClassVar[str] = ""
    heard_alone: ClassVar[bool] = True
    checks: ClassVar[tuple[Arrival, ...]] = ()

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        """The scene with what is done to it, each change on record as an injection.

        What is done depends on the scene and the moment alone, so that a session can be continued
        and verified. `Scene.saying` adds a line to the present and records it.
        """
        raise NotImplementedError

    def acts_on(self, step: Step) -> bool:
        """Whether it can do anything at, or because of, this step of a course."""
        return True

    def pushes(self, course: Course, turn: int) -> bool:
        """Whether it has given a false signal about a turn's question, then or before."""
        return False

    def signals(self, course: Course, turn: int) -> bool:
        """Whether it has said anything about a turn's question, false or not."""
        return self.pushes(course, turn)

    def misleads(self, course: Course, turn: int) -> str | None:
        """Who says something false about a turn's question, where the subject is asked about that:
        "the examiner", for instance. None where nobody does."""
        return None

    def stands(self, scene: Scene, moment: Moment) -> bool:
        """Whether what it said about the question can still be read; asked only where it spoke."""
        return True

    @property
    def targets(self) -> tuple[str, ...]:
        """The measures that it is meant to move as it is set: `aims`, unless a setting matters."""
        return self.aims

    @property
    def spares_others(self) -> bool:
        """Whether what the other stressors said stays where it is."""
        return True

    @property
    def others(self) -> tuple[str, ...]:
        """The stressors that its settings name."""
        return ()

    @property
    def acts_on_memory(self) -> Ability | None:
        """What it takes of an agent with its own memory to be disturbed by this: "forget" where
        episodes go, "recall" where they are rewritten, None where the past stays as it was."""
        return None

    @property
    def rounds_needed(self) -> int:
        """How many times a belief has to be asked for before the evidence."""
        return 0

    @property
    def evidence_strength(self) -> float | None:
        """How far the evidence can be trusted, where this stressor has a say in it."""
        return None

    @property
    def evidence_shown(self) -> Evidence | None:
        """Whether the evidence is true, where this stressor has a say in it."""
        return None


SEAM = Seam(
    "apply",
    {
        "name": str, "aims": tuple[str, ...], "words": str, "heard_alone": bool,
        "rounds_needed": int, "evidence_strength": float | None,
    },
    Stressor,
)  # fmt: skip


SHAM = "sham"
# What stressors say to a subject, by who speaks.
PHRASES = tomllib.loads(Path(__file__).with_name("phrases.toml").read_text(encoding="utf-8"))
_FILLER: list[str] = PHRASES["sham"]["filler"]
# One of every length from 1 to 20 characters: what is left at the end is never cut.
_ENDINGS: list[str] = PHRASES["sham"]["endings"]
_MIN_REST = 10  # so many characters always make whole sentences


def apply_sham(of: Stressor, scene: Scene, moment: Moment) -> Scene:
    """Undo what a stressor did to a scene; something neutral of equal length stands in its place.

    What was taken away stays, and is followed by as much neutral text as would have been missing.
    A subject with its own memory hears no more under a stressor that takes away, and none here.
    """
    for done in of.apply(scene, moment).injections[len(scene.injections) :]:
        if done.turn != moment.turn and moment.own_memory:
            continue
        kind = cast("Kind", done.kind if done.action == "said" else "review")
        line = Utterance(kind, neutral(len(done.instead or done.text)))
        past, present = (
            tuple(each.adding(line) if each.turn == done.turn else each for each in exchanges)
            for exchanges in (scene.past, (scene.present,))
        )
        record = Injection(SHAM, "said", done.turn, line.kind, line.text)
        scene = replace(
            scene, past=past, present=present[0], injections=(*scene.injections, record)
        )
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
        most = left - 1 - _MIN_REST
        if len(sentence) > most:
            sentence = _ENDINGS[min(most, len(_ENDINGS)) - 1]
        said.append(sentence)
        left -= len(sentence) + 1
    return " ".join([*said, *_ENDINGS[left - 1 : left]])
