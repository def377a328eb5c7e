"""Which number belongs to which words: the nearest phrase that can take such a number."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from chimeralab.rating.claims.cues import MARGINS, NEGATIVE, Cue
from chimeralab.rating.claims.mentions import KindOfNumber, Mention

COEFFICIENTS = {
    "kappa", "largest kappa", "largest kappa with these margins", "PABAK", "AC1", "alpha",
    "prevalence index", "bias index", "standard error of kappa",
}  # fmt: skip
SHARES_ONLY = {"expected agreement", "positive agreement", "negative agreement"}
# Phrases that say little, and give way to one about the raters in the same clause.
VAGUE = {"prevalence (said)": 30, "items": 30, "items (said)": 70}
OF_RATERS = {
    "both raters say 1", "both raters say 0", "at least one rater says 1",
    "only the first rater says 1", "only the second rater says 1", "the first rater says 1",
    "the second rater says 1", "disagreement", "agreement",
}  # fmt: skip
OF_ZEROS = {
    "both raters say 1": "both raters say 0",
    "at least one rater says 1": "at least one rater says 0",
    "the first rater says 1": "the first rater says 0",
    "the second rater says 1": "the second rater says 0",
}
SAID = re.compile(
    r"label|rated|call|said|says|saw|flag|mark|cod(?:ed|es)|judg|found|collaps|positive|\b1s?\b",
    re.IGNORECASE,
)

LIST_MARK = re.compile(r"\s*(?:/|,|and|,\s*and)\s*")
OF_THE_DETECTOR = re.compile(
    r"\b(?:detector|classifier|algorithm)s?\b[^.;]{0,60}\b(?:agree\w*|kappa|κ|against)"
    r"|\b(?:agree\w*|kappa|κ)[^.;]{0,40}\b(?:detector|classifier|algorithm)",
    re.IGNORECASE,
)

ASIDE = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")

FARTHEST = 140
AFTER = 15
STRONG, WEAK, ANOTHER_NUMBER = 60, 35, 40
STRONG_BREAK = re.compile(
    r";|:\s|—|\bwhile\b|\bwhereas\b|\bbut\b|\bal?though\b|\byet\b|\bdespite\b|\bcompare[sd]?\b",
    re.IGNORECASE,
)
WEAK_BREAK = re.compile(r",|[()\[\]]|\band\b|\bwith\b|\bso\b", re.IGNORECASE)
CLAUSE_END = re.compile(r";|—|\bwhile\b|\bwhereas\b|\bbut\b|,\s|\band\b", re.IGNORECASE)


class Clause(NamedTuple):
    """Where the part of a sentence that holds a number begins and ends."""

    start: int
    end: int


def clause_of(text: str, mention: Mention) -> Clause:
    """The text around a number up to the next comma, semicolon or conjunction."""
    breaks = list(CLAUSE_END.finditer(text))
    start = max((b.end() for b in breaks if b.end() <= mention.start), default=0)
    end = min((b.start() for b in breaks if b.start() >= mention.end), default=len(text))
    return Clause(start, end)


def attach(text: str, found: Sequence[Mention], cues: Sequence[Cue]) -> list[str | None]:
    """The quantity that each number states; None where no phrase claims it."""
    if OF_THE_DETECTOR.search(text):
        return [None] * len(found)
    if _named_in_order(text, found, cues):
        return [cue.quantity for cue in cues]
    quantities: list[str | None] = []
    for n, mention in enumerate(found):
        inherited = _in_brackets_after(text, found, n, cues)
        if inherited is not None:
            quantities.append(quantities[inherited])
        else:
            quantities.append(_nearest(text, found, mention, cues))
    return quantities


def _named_in_order(text: str, found: Sequence[Mention], cues: Sequence[Cue]) -> bool:
    """All names first, then all numbers: "prevalence and bias indices were 0.82 and 0.006"."""
    if len(found) < 2 or len(cues) != len(found) or cues[-1].end > found[0].start:
        return False
    return all(LIST_MARK.fullmatch(text[one.end : other.start]) for one, other in pairwise(found))


def _in_brackets_after(
    text: str, found: Sequence[Mention], n: int, cues: Sequence[Cue]
) -> int | None:
    """A number in brackets right after another one restates it: 92.8 % (167/180)."""
    opening = max(text.rfind("(", 0, found[n].start), text.rfind("[", 0, found[n].start))
    if n == 0 or opening < found[n - 1].end or re.search(r"[)\]]", text[opening : found[n].start]):
        return None
    closing = re.compile(r"[)\]]|$").search(text, found[n].end)
    inside = (opening, closing.start() if closing else len(text))
    if any(
        inside[0] <= cue.start < inside[1] and not cue.quantity.startswith("items") for cue in cues
    ):
        return None
    between = text[found[n - 1].end : opening]
    named = any(
        found[n - 1].end <= cue.start < opening
        for cue in cues
        if not cue.quantity.startswith("items")
    )
    return None if named or len(between) > 30 or STRONG_BREAK.search(between) else n - 1


def _nearest(
    text: str, found: Sequence[Mention], mention: Mention, cues: Sequence[Cue]
) -> str | None:
    clause = clause_of(text, mention)
    able = [cue for cue in cues if _can_state(cue.quantity, mention.kind, text)]
    if any(cue.quantity in OF_RATERS and clause.start <= cue.start < clause.end for cue in able):
        able = [cue for cue in able if cue.quantity not in VAGUE]
    if text[: mention.start].rstrip().endswith("="):
        able = [cue for cue in able if cue.end <= mention.start] or able
    ranked = sorted((_cost(text, found, mention, cue), cue) for cue in able)
    if not ranked or ranked[0][0] > FARTHEST:
        return None
    quantity = ranked[0][1].quantity
    alone = sum(clause.start <= other.start < clause.end for other in found) == 1
    if quantity == "agreement" and alone and _speaks_of_chance(clause, able):
        return "expected agreement"
    return _refined(quantity, text[clause.start : clause.end])


def _speaks_of_chance(clause: Clause, cues: Sequence[Cue]) -> bool:
    """As in "chance alone would give an agreement of 0.83"."""
    return any(
        cue.quantity == "expected agreement" and clause.start <= cue.start < clause.end
        for cue in cues
    )


def _refined(quantity: str, clause: str) -> str:
    """What the rest of the clause adds to a phrase."""
    if NEGATIVE.search(clause) and quantity in OF_ZEROS:
        return OF_ZEROS[quantity]
    if quantity == "largest kappa" and MARGINS.search(clause):
        return "largest kappa with these margins"
    return "prevalence" if quantity == "prevalence (said)" else quantity


def _can_state(quantity: str, kind: KindOfNumber, text: str) -> bool:
    if quantity in COEFFICIENTS:
        return kind in {"decimal", "interval"}
    if quantity in SHARES_ONLY:
        return kind in {"decimal", "percent"}
    if quantity.startswith("items"):
        return kind in {"count", "fraction"}
    if quantity in {"the first rater says 1", "the second rater says 1"} and not SAID.search(text):
        return False
    if quantity.startswith("prevalence"):
        return kind != "count"
    return kind != "interval" or quantity == "agreement"


def _cost(text: str, found: Sequence[Mention], mention: Mention, cue: Cue) -> float:
    """How far apart a number and a phrase are, with what lies between them."""
    after = cue.start >= mention.end
    start, end = (mention.end, cue.start) if after else (cue.end, mention.start)
    # What stands in brackets on the way is an aside.
    between = ASIDE.sub("", text[start:end])
    asides = [aside.span() for aside in ASIDE.finditer(text[start:end])]
    others = sum(
        start <= other.start < end
        and not any(low <= other.start - start < high for low, high in asides)
        for other in found
    )
    breaks = STRONG * len(STRONG_BREAK.findall(between)) + WEAK * len(WEAK_BREAK.findall(between))
    return (
        len(between) + breaks + ANOTHER_NUMBER * others + AFTER * after + VAGUE.get(cue.quantity, 0)
    )
