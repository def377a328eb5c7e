"""Countermeasures against stressors: a notebook, a review of the odds, a commitment.

What a countermeasure says is recorded under its own name, so that it is not taken for stress, and
appears only in the message of its own turn.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from chimeralab.core.parts import Seam
from chimeralab.core.records import Record
from chimeralab.trial.probes import PrivateAnswer
from chimeralab.trial.scene import Moment, Scene, Utterance, choose_evidence
from chimeralab.trial.stressors import Amnesia, Conformity, Infallibility


class TrialCountermeasure(Protocol):
    """The seam of countermeasures: a dataclass whose fields are its settings.

    Only `apply` is required. Optional attributes: `name`, under which it is recorded; `against`,
    the stressor it works against (without one, it may be combined with any); and `rests_on`, the
    probes it needs.
    """

    def apply(self, scene: Scene, moment: Moment) -> Scene: ...


Aid = TrialCountermeasure  # its first documented name
SEAM = Seam("apply", {"name": str, "against": str | None, "rests_on": tuple[str, ...]})


@dataclass(frozen=True, slots=True)
class Notebook(Record):
    """Against amnesia: everything told so far is kept in a notebook and reread before answering."""

    name: ClassVar[str] = "ledger"
    against: ClassVar[str] = Amnesia.name

    head: str = "Your notebook, which nobody else can change, reads:"

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        notes = [fact.text for fact in moment.course.facts_before(moment.turn)]
        if not notes:
            return scene
        return scene.saying(self.name, Utterance("notes", "\n".join((self.head, *notes))))


@dataclass(frozen=True, slots=True)
class Review(Record):
    """Against infallibility: evidence comes with its odds, which must be weighed."""

    name: ClassVar[str] = "review"
    against: ClassVar[str] = Infallibility.name

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        if moment.step.phase != "tested":
            return scene
        _, stated = choose_evidence(moment.step.question, moment.strength, moment.step.truth)
        odds = "a certainty" if stated == 1 else f"{stated / (1 - stated):.3g} to 1"
        text = (
            "Review the evidence before you answer. Earlier feedback gave no reasons. The odds of "
            f"the evidence are {odds}. Where it speaks against what you said before, "
            "change your answer."
        )
        return scene.saying(self.name, Utterance("review", text))


@dataclass(frozen=True, slots=True)
class Commit(Record):
    """Against conformity: the subject is reminded of its private answer."""

    name: ClassVar[str] = "commit"
    against: ClassVar[str] = Conformity.name
    rests_on: ClassVar[tuple[str, ...]] = (PrivateAnswer.name,)

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        if moment.step.consensus is None or moment.alone is None:
            return scene
        text = (
            f"Before you heard anyone else, you committed to this answer: {moment.alone}. "
            "Change it only for a reason."
        )
        return scene.saying(self.name, Utterance("commitment", text))


COUNTERMEASURES: dict[str, type] = {each.name: each for each in (Notebook, Review, Commit)}
