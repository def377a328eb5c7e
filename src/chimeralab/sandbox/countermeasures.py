"""What a subject is given against a stressor: a notebook, a review of the odds, a first answer.

What a countermeasure says is on record like an injection, but under its own name, so that nobody
takes it for stress. It stands only in the message of its own turn.
"""

from dataclasses import dataclass

from chimeralab.core.records import Record
from chimeralab.sandbox.scene import Moment, Scene, Utterance, odds, testimony


@dataclass(frozen=True, slots=True)
class Notebook(Record):
    """Against amnesia: everything told so far is kept outside, and read again before answering."""

    head: str = "Your notebook, which nobody else can change, reads:"

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        kept = [fact.text for fact in moment.course.told_before(moment.turn)]
        if not kept:
            return scene
        return scene.saying("ledger", Utterance("notes", "\n".join((self.head, *kept))))


@dataclass(frozen=True, slots=True)
class Review(Record):
    """Against infallibility: when evidence is shown, its odds are stated and must be weighed."""

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        if moment.step.phase != "tested":
            return scene
        stated = testimony(moment.step.question, moment.strength).strength
        text = (
            "Review the evidence before you answer. Earlier feedback gave no reasons. The odds of "
            f"the evidence are {odds(stated)}. Where it speaks against what you said before, "
            "change your answer."
        )
        return scene.saying("review", Utterance("review", text))


@dataclass(frozen=True, slots=True)
class Commit(Record):
    """Against conformity: the subject answers before it hears the others, and is reminded of it."""

    def apply(self, scene: Scene, moment: Moment) -> Scene:
        if moment.step.consensus is None or moment.alone is None:
            return scene
        text = (
            f"Before you heard anyone else, you committed to this answer: {moment.alone}. "
            "Change it only for a reason."
        )
        return scene.saying("commit", Utterance("commitment", text))


COUNTERMEASURES: dict[str, type] = {"ledger": Notebook, "review": Review, "commit": Commit}
AGAINST = {"ledger": "amnesia", "review": "infallibility", "commit": "conformity"}
