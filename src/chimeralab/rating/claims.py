"""What may be claimed after the gate, and in which words."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import between, counted, percent
from chimeralab.core.records import Record
from chimeralab.core.result_words import FACT, MARK, ResultWords
from chimeralab.rating.gate import NOT_ASKED, GateOutcome, ValidityOutcome, outcome_name
from chimeralab.rating.validity import ValidityAgainst
from chimeralab.stats.clusters import Proportion

# What nobody may write of a study whose detector was not compared with raters, or fell short.
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

    name: Literal["validated", "reliable", "descriptive"]
    sentence: str
    forbidden: tuple[str, ...]

    @property
    def words(self) -> ResultWords:
        """How results are told: what the detector found is its mark until it is validated."""
        return FACT if self.name == "validated" else MARK


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


def claim_scope(outcome: GateOutcome, validity: ValidityOutcome = NOT_ASKED) -> ClaimScope:
    """What every later report has to keep to."""
    name = outcome_name(outcome, validity)
    if name == "not reliable":
        return ClaimScope(
            "descriptive",
            f"The reliability gate ({outcome.gate}) was not met. Every claim about collapse "
            "describes what the detector marked and compares conditions; none rests on labels "
            "that raters agree on.",
            FORBIDDEN,
        )
    met = f"The reliability gate ({outcome.gate}) was met on {outcome.gate.population}"
    if name == "validated":
        agreed = f"{met}, and the detector agrees with every rater as declared ({validity})."
        return ClaimScope("validated", agreed, ())
    return ClaimScope(
        "reliable",
        f"{met}: the labels are reliable. The detector is not validated: {validity.reason}. Every "
        "claim about collapse describes what the detector marked.",
        FORBIDDEN,
    )


def gate_headline(outcome: GateOutcome, validity: ValidityOutcome = NOT_ASKED) -> str:
    """The verdict of a gate in a few words."""
    if outcome.declared:
        met = "Gate met" if outcome.passed else "Gate NOT met"
        return f"{met} ({outcome_name(outcome, validity)})"
    return f"No gate was named. The customary one would {'' if outcome.passed else 'not '}be met"


def validity_in_words(against: ValidityAgainst) -> str:
    """How the detector does by the word of one rater, with every interval."""
    start = f"The detector against {against.rater}"
    if against.result is None:
        return f"{start}: unknown ({against.reason})."

    def shown(share: Proportion) -> str:
        if share.value is None or share.interval is None:
            return percent(share.value)
        low, high = map(percent, share.interval)
        return f"{percent(share.value)} ({low} – {high})"

    diagnosis = against.result.diagnosis
    agreed = diagnosis.agreement
    kappa = "undefined" if agreed.kappa is None else f"{agreed.kappa:.3f}"
    if agreed.kappa_ci_score is not None:
        kappa += f" ({between(agreed.kappa_ci_score, 3)})"
    classes = ", ".join(f"{count} {name}" for name, count in against.classes.items())
    return (
        f"{start}, {counted(agreed.n_valid, 'item')}: sensitivity {shown(diagnosis.sensitivity)}, "
        f"specificity {shown(diagnosis.specificity)}, kappa {kappa}; "
        f"they differ on {len(against.result.differences)}{f' ({classes})' if classes else ''}."
    )


def forbidden_words(text: str, scope: ClaimScope) -> Iterator[ForbiddenWords]:
    """Every place where a text claims more than the gate allows, in the order of the text."""
    if not scope.forbidden:
        return
    # A line break or a tie of LaTeX may stand where the phrase has a space.
    phrases = (re.escape(words).replace(r"\ ", r"[\s~]+") for words in scope.forbidden)
    # Whoever says that something is not validated claims nothing.
    pattern = rf"(?<!\bnot[\s~])\b(?:{'|'.join(phrases)})\b"
    for found in re.finditer(pattern, text, re.IGNORECASE):
        line = text.count("\n", 0, found.start()) + 1
        yield ForbiddenWords(line, " ".join(found[0].replace("~", " ").split()))


def check_wording(text: str, scope: ClaimScope) -> None:
    """Refuse a text that claims more than the gate allows."""
    for line, words in forbidden_words(text, scope):
        raise InputError(f"line {line} says '{words}', and the gate does not allow it: reword it")
