"""What speaks for the truth once a belief has been taught, and how far it can be trusted."""

import math

from chimeralab.sandbox.course import Step
from chimeralab.sandbox.scene import Line

CHECK = "A check that is right in {percent} % of cases says: {statement}"


def evidence_line(step: Step, strength: float) -> Line | None:
    """The evidence of a tested step: the item's own of that strength, else a plain check."""
    if step.phase != "tested":
        return None
    graded = step.question.evidence
    if graded:
        text = min(graded, key=lambda each: abs(_reliability(each.odds) - strength)).text
    else:
        text = f"the answer to “{step.question.prompt}” is {step.truth}."
    return Line("evidence", CHECK.format(percent=f"{100 * strength:g}", statement=text))


def odds(strength: float) -> str:
    """A reliability as odds.

    >>> odds(0.9), odds(1.0)
    ('9 to 1', 'a certainty')
    """
    return "a certainty" if strength == 1 else f"{strength / (1 - strength):.3g} to 1"


def _reliability(for_one: float) -> float:
    return 1.0 if math.isinf(for_one) else for_one / (1 + for_one)
