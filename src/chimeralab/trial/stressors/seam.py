"""The seam where stressors are exchanged: a scene in, the scene as the subject will see it out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from chimeralab.core.parts import Seam
from chimeralab.core.records import Record
from chimeralab.trial.agents.seam import Ability
from chimeralab.trial.course import Course, Evidence, Step
from chimeralab.trial.scene import Moment, Scene
from chimeralab.trial.scored import Scored


class Arrival(NamedTuple):
    """What the record must show before the arm of a stressor says anything.

    `shows` is true of the trials at which the stressor did its work. Where it gave a `signal` that
    a subject can notice, `asks` is true of the trials at which that can be asked. Where it took
    something away and the subject was asked for it, `keeps` says whether it still had it.
    """

    title: str
    said: str
    shows: Callable[[Scored], bool]
    signal: str | None = None
    asks: Callable[[Scored], bool] = lambda row: True
    keeps: Callable[[Scored], bool | None] | None = None


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
    # Settings under which it does what it did before it had them.
    early: ClassVar[dict[str, Any]] = {}

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
    def aimed_at(self) -> tuple[str, ...]:
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
