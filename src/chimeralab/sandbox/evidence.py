"""What speaks for the truth once a belief has been taught, and how far it can be trusted."""

import math
from typing import NamedTuple

from chimeralab.sandbox.course import Step
from chimeralab.sandbox.scenarios.items import Question
from chimeralab.sandbox.scene import Line

CHECK = "A check that is right in {percent} % of cases says: the answer to “{question}” is {truth}."


class Testimony(NamedTuple):
    """A piece of evidence as it is shown, with the reliability that it states."""

    text: str
    strength: float


def testimony(question: Question, strength: float) -> Testimony:
    """What is shown for a question: of its own evidence the nearest in strength, else a check.

    >>> from chimeralab.sandbox.scenarios.items import Question
    >>> testimony(Question("q", "recall", "Where?", "Rome"), 0.9).text
    'A check that is right in 90 % of cases says: the answer to “Where?” is Rome.'
    """
    own = [Testimony(each.text, _reliability(each.odds)) for each in question.evidence]
    if own:
        return min(own, key=lambda each: abs(each.strength - strength))
    percent, truth = f"{100 * strength:g}", str(question.truth)
    text = CHECK.format(percent=percent, question=question.prompt, truth=truth)
    return Testimony(text, strength)


def evidence_line(step: Step, strength: float) -> Line | None:
    """The evidence of a tested step."""
    if step.phase != "tested":
        return None
    return Line("evidence", testimony(step.question, strength).text)


def odds(strength: float) -> str:
    """A reliability as odds.

    >>> odds(0.9), odds(1.0)
    ('9 to 1', 'a certainty')
    """
    return "a certainty" if strength == 1 else f"{strength / (1 - strength):.3g} to 1"


def _reliability(for_one: float) -> float:
    return 1.0 if math.isinf(for_one) else for_one / (1 + for_one)
