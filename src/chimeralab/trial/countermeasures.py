"""What a subject is given against a stressor: a notebook, a review of the odds, a first answer.

What a countermeasure says is on record like an injection, but under its own name, so that nobody
mistakes it for stress. It stands only in the message of its own turn.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from chimeralab.core.parts import Seam
from chimeralab.core.records import Record
from chimeralab.trial.probes import Alone
from chimeralab.trial.scene import Moment, Scene, Utterance, odds, testimony
from chimeralab.trial.stressors import Amnesia, Conformity, Infallibility


class Aid(Protocol):
    """The seam of countermeasures: a dataclass whose fields are its settings.

    `apply` is the one required method. Three attributes are read where they are there: `name` is
    what it says goes on record under, `against` the name of the stressor that it helps against
    (without one it may stand beside any), and `rests_on` names the probes that it can't do without.
    """

    def apply(self, scene: Scene, moment: Moment) -> Scene: ...


SEAM = Seam("apply", {"name": str, "against": str | None, "rests_on": tuple[str, ...]})


@dataclass(frozen=True, slots=True)
class Notebook(Record):
    """Against amnesia: everything told so far is kept outside, and read again before answering."""

    name: ClassVar[str] = "ledger"
    against: ClassVar[str] = Amnesia.name

    head: str = "Your notebook, which nobody else can change, reads:"

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        kept = [fact.text for fact in moment.course.facts_before(moment.turn)]
        if not kept:
            return scene
        return scene.saying(self.name, Utterance("notes", "\n".join((self.head, *kept))))


@dataclass(frozen=True, slots=True)
class Review(Record):
    """Against infallibility: when evidence is shown, its odds are stated and must be weighed."""

    name: ClassVar[str] = "review"
    against: ClassVar[str] = Infallibility.name

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        if moment.step.phase != "tested":
            return scene
        _, stated = testimony(moment.step.question, moment.strength, moment.step.truth)
        text = (
            "Review the evidence before you answer. Earlier feedback gave no reasons. The odds of "
            f"the evidence are {odds(stated)}. Where it speaks against what you said before, "
            "change your answer."
        )
        return scene.saying(self.name, Utterance("review", text))


@dataclass(frozen=True, slots=True)
class Commit(Record):
    """Against conformity: the subject answers before it hears the others, and is reminded of it."""

    name: ClassVar[str] = "commit"
    against: ClassVar[str] = Conformity.name
    rests_on: ClassVar[tuple[str, ...]] = (Alone.name,)

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        if moment.step.consensus is None or moment.alone is None:
            return scene
        text = (
            f"Before you heard anyone else, you committed to this answer: {moment.alone}. "
            "Change it only for a reason."
        )
        return scene.saying(self.name, Utterance("commitment", text))


COUNTERMEASURES: dict[str, type] = {each.name: each for each in (Notebook, Review, Commit)}
