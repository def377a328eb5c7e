"""The seam of stressors: a scene in, the scene as the subject will see it out.

A sham arm has neutral text of the same length wherever a stressor would act.
"""

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, NamedTuple, cast

from chimeralab.core.parts import Seam
from chimeralab.core.records import Record
from chimeralab.core.text import neutral_text
from chimeralab.trial.agents.seam import Ability
from chimeralab.trial.course import Course, Evidence, Step
from chimeralab.trial.scene import Injection, Kind, Moment, Scene, Utterance
from chimeralab.trial.trials import TrialRow


class Arrival(NamedTuple):
    """What the record must show before the arm of a stressor is informative.

    `shows` is true of the trials at which the stressor acted. If it gave a `signal` that a subject
    can notice, `asks` is true of the trials at which it can be asked about. If it removed something
    that the subject was then asked for, `keeps` says whether the subject still knew it.
    """

    title: str
    said: str
    shows: Callable[[TrialRow], bool]
    signal: str | None = None
    asks: Callable[[TrialRow], bool] = lambda row: True
    keeps: Callable[[TrialRow], bool | None] | None = None


@dataclass(frozen=True, slots=True)
class Stressor(Record):
    """A manipulation of a scene, and everything that other modules need to know about it.

    A custom stressor is a frozen dataclass that inherits from this one. Its fields are its
    settings, which a plan may set and vary as doses. Only `apply` is required.

    `aims` names the measures that it should move, `words` describe it in the methods section of a
    report, and `checks` say what the record must show. `heard_alone` is False for a signal that
    the private answer leaves out.
    """

    name: ClassVar[str] = ""
    aims: ClassVar[tuple[str, ...]] = ()
    words: ClassVar[str] = ""
    heard_alone: ClassVar[bool] = True
    checks: ClassVar[tuple[Arrival, ...]] = ()

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        """Change a scene, and record each change as an injection.

        Must depend on the scene and the moment alone, so that a session can be resumed and
        verified. `Scene.saying` adds a line to the present and records it.
        """
        raise NotImplementedError

    def acts_on(self, step: Step) -> bool:
        """Whether it can act at, or because of, a step."""
        return True

    def pushes(self, course: Course, turn: int) -> bool:
        """Whether it has given a false signal about a turn's question, then or before."""
        return False

    def signals(self, course: Course, turn: int) -> bool:
        """Whether it has given any signal about a turn's question."""
        return self.pushes(course, turn)

    def misleads(self, course: Course, turn: int) -> str | None:
        """Who gives a false signal about a turn's question, such as "the examiner"; None if nobody.

        Where it is not None, the manipulation check is asked.
        """
        return None

    def stands(self, scene: Scene, moment: Moment) -> bool:
        """Whether its signal about the question can still be read."""
        return True

    @property
    def targets(self) -> tuple[str, ...]:
        """The measures that it should move with its settings."""
        return self.aims

    @property
    def spares_others(self) -> bool:
        """Whether it leaves alone what other stressors said."""
        return True

    @property
    def others(self) -> tuple[str, ...]:
        """The stressors that its settings name."""
        return ()

    @property
    def acts_on_memory(self) -> Ability | None:
        """The ability that an agent with its own memory needs: "forget" if episodes are removed,
        "recall" if they are rewritten, None if the past does not change."""
        return None

    @property
    def rounds_needed(self) -> int:
        """How often a belief must be asked for before the evidence."""
        return 0

    @property
    def evidence_strength(self) -> float | None:
        """The reliability of the evidence, if this stressor sets it."""
        return None

    @property
    def evidence_mode(self) -> Evidence | None:
        """Whether the evidence is true, if this stressor sets it."""
        return None


def read_evidence(
    stressors: Iterable[Stressor], strength: float, mode: Evidence
) -> tuple[float, Evidence]:
    """Strength and mode of the evidence: what the first stressors set, or else the defaults."""
    parts = tuple(stressors)
    strengths = (part.evidence_strength for part in parts)
    modes = (part.evidence_mode for part in parts)
    return (
        next((each for each in strengths if each is not None), strength),
        next((each for each in modes if each is not None), mode),
    )


SEAM = Seam(
    "apply",
    {
        "name": str, "aims": tuple[str, ...], "words": str, "heard_alone": bool,
        "rounds_needed": int, "evidence_strength": float | None,
    },
    Stressor,
)  # fmt: skip


SHAM = "sham"
# What stressors say, by speaker.
PHRASES = tomllib.loads(Path(__file__).with_name("phrases.toml").read_text(encoding="utf-8"))


def apply_sham(of: Stressor, scene: Scene, moment: Moment) -> Scene:
    """Say something neutral of equal length wherever a stressor would act.

    What it would remove stays, followed by as much neutral text. A subject with its own memory is
    not told more when something is removed, so it is not told anything here either.
    """
    for injection in of.apply(scene, moment).injections[len(scene.injections) :]:
        if injection.turn != moment.turn and moment.own_memory:
            continue
        kind = cast("Kind", injection.kind if injection.action == "said" else "review")
        line = Utterance(kind, neutral_text(len(injection.instead or injection.text)))
        past, present = (
            tuple(
                each.with_line(line) if each.turn == injection.turn else each for each in exchanges
            )
            for exchanges in (scene.past, (scene.present,))
        )
        record = Injection(SHAM, "said", injection.turn, line.kind, line.text)
        scene = replace(
            scene, past=past, present=present[0], injections=(*scene.injections, record)
        )
    return scene
