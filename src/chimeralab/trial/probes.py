"""Questions asked in a fork of the conversation, so that measuring changes nothing."""

from dataclasses import dataclass
from typing import ClassVar

from chimeralab.core.parts import Seam
from chimeralab.core.records import Record
from chimeralab.trial.course import Step
from chimeralab.trial.scenarios.items import Question

# How sure a subject can say that it is, where its replies are held to options.
LEVELS = tuple(f"{tenth / 10:g}" for tenth in range(11))


@dataclass(frozen=True, slots=True)
class Probe(Record):
    """The seam of probes: what is asked in a fork, and at which steps of a course.

    A probe of your own is a frozen dataclass that inherits from this one; its fields are its
    settings. It must have `text`; all else has a default. Its replies are stored and exported
    beside the trials, under the name that the plan gives it.

    `words` say what it asks for in the methods of a report. A probe with `first` is put before the
    answer of its turn, and leaves out the stressors that are not heard alone. `observed` names the
    hook at which its reply is told of, and the columns that are told.
    """

    name: ClassVar[str] = ""
    words: ClassVar[str] = ""
    first: ClassVar[bool] = False
    observed: ClassVar[tuple[str, ...] | None] = None

    def text(self, step: Step, misleader: str | None) -> str:
        """The words that follow the answer; `misleader` says who gave a false signal, if anyone."""
        raise NotImplementedError

    def fits(self, step: Step, misleader: str | None) -> bool:
        """Whether there is anything to ask at a step."""
        return True

    def question(self, step: Step) -> Question:
        """The question that it is about."""
        return step.question

    def options(self, step: Step) -> tuple[str, ...]:
        """The replies that can be read, where only some can."""
        return ()


SEAM = Seam("text", {"name": str, "words": str, "first": bool}, Probe)


class Alone(Probe):
    """The question itself, before the others are heard."""

    name: ClassVar[str] = "alone"
    words: ClassVar[str] = "the same question without the others"
    first: ClassVar[bool] = True

    def text(self, step: Step, misleader: str | None) -> str:
        return question_text(step.question)

    def fits(self, step: Step, misleader: str | None) -> bool:
        return step.consensus is not None

    def options(self, step: Step) -> tuple[str, ...]:
        return step.question.options


class Confidence(Probe):
    """How sure the subject is of its answer."""

    name: ClassVar[str] = "confidence"
    words: ClassVar[str] = "confidence from 0 to 1"
    observed: ClassVar[tuple[str, ...]] = ("confidence_captured", "confidence", "correct")

    def text(self, step: Step, misleader: str | None) -> str:
        return (
            "How sure are you that your last answer is right? Reply with one number from 0 "
            "(certainly wrong) to 1 (certainly right)."
        )

    def options(self, step: Step) -> tuple[str, ...]:
        return LEVELS


class StatedBelief(Probe):
    """How likely the subject holds the wrong answer to be."""

    name: ClassVar[str] = "belief"
    words: ClassVar[str] = "the likelihood of the wrong answer"

    def text(self, step: Step, misleader: str | None) -> str:
        asked = f"How likely is it that {step.lure} is the right answer?"
        return f"{asked} Reply with one number from 0 to 1."

    def fits(self, step: Step, misleader: str | None) -> bool:
        return step.phase is not None and step.lure is not None

    def options(self, step: Step) -> tuple[str, ...]:
        return LEVELS


class EarlierFact(Probe):
    """A fact that was told before."""

    name: ClassVar[str] = "recall"
    words: ClassVar[str] = "earlier facts"
    observed: ClassVar[tuple[str, ...]] = (
        "memory_recall_validated",
        "recall_response", "recall_truth", "recall_correct", "recall_lag", "intrusion",
    )  # fmt: skip

    def text(self, step: Step, misleader: str | None) -> str:
        return question_text(self.question(step))

    def fits(self, step: Step, misleader: str | None) -> bool:
        return step.recall is not None

    def question(self, step: Step) -> Question:
        return step.recall or step.question

    def options(self, step: Step) -> tuple[str, ...]:
        return self.question(step).options


class ManipulationCheck(Probe):
    """Whether a signal was taken in, not whether it was believed: the question leaves both open."""

    name: ClassVar[str] = "noticed"
    words: ClassVar[str] = "which answer the signal had named"

    def text(self, step: Step, misleader: str | None) -> str:
        who = misleader or "anybody"
        asked = f"Whatever you think yourself: which answer to the last question did {who} give?"
        return _choice(asked, step.question.options)

    def fits(self, step: Step, misleader: str | None) -> bool:
        return misleader is not None

    def options(self, step: Step) -> tuple[str, ...]:
        return step.question.options


PROBES: dict[str, Probe] = {
    each.name: each
    for each in (Alone(), Confidence(), StatedBelief(), EarlierFact(), ManipulationCheck())
}


def question_text(question: Question) -> str:
    """A question with its options, and the form in which an answer can be read."""
    if not question.options:
        return f"Question: {question.prompt}\nReply in one short sentence."
    return _choice(f"Question: {question.prompt}", question.options)


def _choice(asked: str, options: tuple[str, ...]) -> str:
    return f"{asked}\nOptions: {', '.join(options)}\nReply with one of the options only."
