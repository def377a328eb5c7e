"""What may be claimed after the gate, in which words: the one place that holds these words."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record
from chimeralab.rating.gate import GateOutcome

# What nobody may write of a study whose raters did not meet the gate.
FORBIDDEN = (
    "validated",
    "validates",
    "validation",
    "confirmed by human raters",
    "confirmed by raters",
    "confirmed by people",
)


@dataclass(frozen=True, slots=True)
class ClaimScope(Record):
    """What a report may claim after the gate, and the words that it must do without."""

    name: Literal["validated", "descriptive"]
    sentence: str
    forbidden: tuple[str, ...]

    @property
    def marked(self) -> str:
        """How collapsed turns are spoken of: as marks of the detector, until raters agreed."""
        return "collapsed" if self.name == "validated" else "marked as collapsed"


NO_AUDIT = ClaimScope(
    "descriptive",
    "No reliability audit has been run. Every claim about collapse describes what the detector "
    "marked and compares conditions; whether people would call the same turns collapsed has not "
    "been asked.",
    FORBIDDEN,
)


class ForbiddenWords(NamedTuple):
    """Words of a text that claim more than the gate allows, and the line they start in."""

    line: int
    words: str


def claim_scope(outcome: GateOutcome) -> ClaimScope:
    """What every later report has to keep to."""
    if outcome.passed:
        met = f"The reliability gate ({outcome.gate}) was met on {outcome.gate.population}."
        return ClaimScope("validated", met, ())
    return ClaimScope(
        "descriptive",
        f"The reliability gate ({outcome.gate}) was not met. Every claim about collapse describes "
        "what was seen and compares conditions; none rests on a detector that raters confirmed.",
        FORBIDDEN,
    )


def gate_headline(outcome: GateOutcome) -> str:
    """The verdict of a gate in a few words."""
    if outcome.declared:
        return "Gate met" if outcome.passed else "Gate NOT met"
    return f"No gate was named. The customary one would {'' if outcome.passed else 'not '}be met"


def forbidden_words(text: str, scope: ClaimScope) -> Iterator[ForbiddenWords]:
    """Every place where a text claims more than the gate allows, in the order of the text."""
    if not scope.forbidden:
        return
    # A line break or a tie of LaTeX may stand where the phrase has a space.
    phrases = (re.escape(words).replace(r"\ ", r"[\s~]+") for words in scope.forbidden)
    for found in re.finditer(rf"\b(?:{'|'.join(phrases)})\b", text, re.IGNORECASE):
        line = text.count("\n", 0, found.start()) + 1
        yield ForbiddenWords(line, " ".join(found[0].replace("~", " ").split()))


def check_wording(text: str, scope: ClaimScope) -> None:
    """Refuse a text that claims more than the gate allows."""
    for line, words in forbidden_words(text, scope):
        raise InputError(f"line {line} says '{words}', and the gate was not met: reword it")
