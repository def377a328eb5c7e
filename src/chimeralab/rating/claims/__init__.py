"""The claims check: a text with numbers in it, held against the counts that it speaks of."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from chimeralab.core.records import Record
from chimeralab.rating.claims.attach import attach, clause_of
from chimeralab.rating.claims.cues import cues
from chimeralab.rating.claims.mentions import Mention, mentions
from chimeralab.rating.claims.passages import Passage, passages
from chimeralab.rating.claims.verdicts import Outcome, judge
from chimeralab.stats.agreement import Table2x2

__all__ = ["Claim", "ClaimsReport", "Counts", "check_claims"]


@dataclass(frozen=True, slots=True)
class Counts(Record):
    """What a text is held against: the whole table, that of each stratum, the raters' names."""

    overall: Table2x2
    strata: Mapping[str, Table2x2]
    raters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim(Record):
    """One number of the text: what it states, whether that fits, and what would be right."""

    line: int
    stated: str
    quantity: str
    fits: bool
    right: str
    note: str
    sentence: str
    stratum: str | None = None


@dataclass(frozen=True, slots=True)
class ClaimsReport(Record):
    """All claims that were understood, and the numbers that none of our phrases explains."""

    claims: tuple[Claim, ...]
    not_understood: tuple[str, ...]

    @property
    def findings(self) -> tuple[Claim, ...]:
        return tuple(claim for claim in self.claims if not claim.fits)


def check_claims(text: str, counts: Counts) -> ClaimsReport:
    """Recompute what a text states about agreement, prevalence, counts and intervals."""
    claims: list[Claim] = []
    unknown: list[str] = []
    for passage in passages(text):
        for result in _claims(passage, counts):
            if isinstance(result, Claim):
                claims.append(result)
            else:
                unknown.append(result)
    return ClaimsReport(tuple(claims), tuple(unknown))


def _claims(passage: Passage, counts: Counts) -> Iterator[Claim | str]:
    found = mentions(passage)
    quantities = attach(passage.text, found, cues(passage.text, counts.raters))
    for mention, quantity in zip(found, quantities, strict=True):
        line = passage.line_of(mention.start)
        stratum = _stratum(passage.text, mention, tuple(counts.strata))
        table = counts.overall if stratum is None else counts.strata[stratum]
        outcome = None if quantity is None else judge(mention, quantity, passage.text, table)
        if quantity is None or outcome is None:
            yield f"line {line}: {mention.stated}"
        else:
            yield _claim(passage, line, mention.stated, outcome, stratum)


def _claim(
    passage: Passage, line: int, stated: str, outcome: Outcome, stratum: str | None
) -> Claim:
    sentence = " ".join(passage.text.split())
    return Claim(line, stated, sentence=sentence, stratum=stratum, **outcome._asdict())


def _stratum(text: str, mention: Mention, names: Sequence[str]) -> str | None:
    """The stratum that a number is about: named in its clause, or last before it."""
    clause = clause_of(text, mention)
    if OVERALL.search(text, clause.start, clause.end):
        return None
    found = [(match.start(), name) for name in names for match in _whole(name).finditer(text)]
    inside = [entry for entry in found if clause.start <= entry[0] < clause.end]
    before = [entry for entry in found if entry[0] < mention.start]
    if inside:
        return min(inside, key=lambda entry: abs(entry[0] - mention.start))[1]
    return max(before)[1] if before else None


@cache
def _whole(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")


OVERALL = re.compile(r"\b(?:overall|all\sconditions|pooled|in\stotal|altogether)\b", re.IGNORECASE)
