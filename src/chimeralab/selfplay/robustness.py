"""Does a finding depend on the detector? Every setting of it, and the words alone, beside it."""

import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import spearmanr

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record, Trajectory, Turn
from chimeralab.detection.locked import LockedRule
from chimeralab.detection.seam import Observation, list_judged_turns
from chimeralab.embedding.encoder import Encoder
from chimeralab.selfplay.analysis import Analysis
from chimeralab.selfplay.outcomes import PAIRS, Outcomes
from chimeralab.selfplay.specifications import (
    SpecificationCurve,
    judge_with_all,
    specification_curve,
)
from chimeralab.stats.arrays import Floats
from chimeralab.stats.effects import Weights, list_pairs

GRAM = 3
# The rule of the locked detector, three turns in a row, on two other measures of likeness.
SAME_WORDS = LockedRule(s1=1.0, s2=1.0, d1=0.0, d2=0.0)
TRIGRAM_OVERLAP = LockedRule(s1=0.5, s2=0.5, d1=0.5, d2=0.5)
# The dictionary of a compressor outweighs a text shorter than this.
MIN_BYTES = 200

Words = tuple[str, ...]
Likeness = Callable[[Words, Words], float]


@dataclass(frozen=True, slots=True)
class Lexical(Record):
    """What the words of a conversation say about collapse, without any embedding.

    ``repeated_share``: turns that repeat some earlier turn word for word. ``overlap``: word
    trigrams shared with the last turn or the one before, whichever is closer, on average.
    ``repeat_rate`` and ``overlap_rate``: the share of turns that the locked rule would mark as
    collapsed if it went by these. ``compression_ratio``: compressed size over size; the smaller,
    the more repetitive.
    """

    id: str
    turns: int
    repeated_share: float | None
    overlap: float | None
    repeat_rate: float | None
    overlap_rate: float | None
    compression_ratio: float | None
    reasons: Mapping[str, str] = field(default_factory=dict)


def lexical(trajectory: Trajectory, speaker: str | None = None) -> Lexical:
    """Look at the judged turns of a conversation, the same ones that the detector sees."""
    texts = [turn.text for turn in list_judged_turns(trajectory, speaker)]
    turns = [words(text) for text in texts]
    closest = [
        max(trigram_overlap(now, past) for past in turns[max(0, n - 2) : n])
        for n, now in enumerate(turns)
        if n
    ]
    seen = [turn in turns[:n] for n, turn in enumerate(turns) if n]
    numbers = {
        "repeated_share": sum(seen) / len(turns) if seen else None,
        "overlap": sum(closest) / len(closest) if closest else None,
        "repeat_rate": _collapse_rate(turns, same_words, SAME_WORDS),
        "overlap_rate": _collapse_rate(turns, trigram_overlap, TRIGRAM_OVERLAP),
        "compression_ratio": compression_ratio("\n".join(texts)),
    }
    missing = {name: _MISSING[name] for name, number in numbers.items() if number is None}
    return Lexical(trajectory.id, len(turns), **numbers, reasons=missing)


_MISSING = {
    "repeated_share": "needs two turns",
    "overlap": "needs two turns",
    "repeat_rate": f"needs {SAME_WORDS.turns_needed} turns",
    "overlap_rate": f"needs {TRIGRAM_OVERLAP.turns_needed} turns",
    "compression_ratio": f"needs {MIN_BYTES} bytes of text",
}


def words(text: str) -> Words:
    """The words of a text without case, punctuation and white space.

    >>> words("Thank you -- THANK you!")
    ('thank', 'you', 'thank', 'you')
    """
    return tuple(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))


def same_words(now: Words, past: Words) -> float:
    """1 for the same words in the same order, else 0.

    >>> same_words(words("Bye."), words("bye!"))
    1.0
    """
    return float(now == past)


def trigram_overlap(now: Words, past: Words) -> float:
    """Word trigrams that two texts share, of all that they have (Jaccard 1901).

    >>> trigram_overlap(words("the cat sat down"), words("the cat sat up"))
    0.3333333333333333
    """
    one, two = _grams(now), _grams(past)
    return len(one & two) / len(one | two)


def compression_ratio(text: str) -> float | None:
    """Size after compression over size before; None for a text too short to tell.

    >>> round(compression_ratio("Thank you, and goodbye! " * 40), 2)
    0.04
    """
    raw = text.encode(errors="replace")
    return len(zlib.compress(raw, 9)) / len(raw) if len(raw) >= MIN_BYTES else None


def _grams(text: Words) -> set[Words]:
    """Trigrams; a text of fewer words is its own only gram."""
    return {text[n : n + GRAM] for n in range(max(1, len(text) - GRAM + 1))}


def _collapse_rate(turns: Sequence[Words], likeness: Likeness, rule: LockedRule) -> float | None:
    if len(turns) < rule.turns_needed:
        return None

    def back(n: int, lag: int) -> float:
        return likeness(turns[n], turns[n - lag]) if n >= lag else float("nan")

    signals = rule.judge(
        Observation(Turn(" ".join(words)), (back(n, 1), back(n, 2)))
        for n, words in enumerate(turns)
    )
    return sum(signal.collapsed for signal in signals) / len(turns)


# Which way each number points: compression falls as collapse rises.
DIRECTIONS = {
    "repeat_rate": 1,
    "overlap_rate": 1,
    "repeated_share": 1,
    "overlap": 1,
    "compression_ratio": -1,
}
VERDICTS = ("repeat_rate", "overlap_rate")


@dataclass(frozen=True, slots=True)
class CoDetector(Record):
    """A lexical number beside the embedding's share of collapsed turns.

    ``correlation`` is Spearman's, turned so that agreement is positive. The counts say which of
    the two found any collapse; only numbers that follow the detector's rule have them.
    """

    name: str
    conversations: int
    correlation: float | None
    both: int | None
    only_lexical: int | None
    only_embedding: int | None
    neither: int | None
    reasons: Mapping[str, str] = field(default_factory=dict)


def co_detectors(
    lexical: Sequence[Lexical], collapse_rates: Sequence[float | None]
) -> Iterator[CoDetector]:
    """Set each lexical number against the collapse rates of the same conversations."""
    for name, direction in DIRECTIONS.items():
        both_known = [
            (getattr(each, name), rate)
            for each, rate in zip(lexical, collapse_rates, strict=True)
            if rate is not None and getattr(each, name) is not None
        ]
        columns = np.array(both_known, dtype=np.float64).reshape(-1, 2)
        correlation = spearman(columns[:, 0] * direction, columns[:, 1])
        why = {} if correlation is not None else {"correlation": "one of the two never differs"}
        counts: dict[str, int | None] = dict.fromkeys(
            ("both", "only_lexical", "only_embedding", "neither")
        )
        if name in VERDICTS:
            words, embedding = columns.T > 0
            cells = (words & embedding, words & ~embedding, ~words & embedding, ~words & ~embedding)
            counts = {who: int(cell.sum()) for who, cell in zip(counts, cells, strict=True)}
        else:
            why |= dict.fromkeys(counts, NO_VERDICT)
        yield CoDetector(name, len(columns), correlation, **counts, reasons=why)


NO_VERDICT = "a number without a verdict of its own"


def spearman(first: Floats, second: Floats) -> float | None:
    """Correlation of ranks, ties sharing their mean rank; None when one side never differs.

    >>> spearman(np.array([1.0, 2.0, 9.0]), np.array([2.0, 3.0, 4.0]))
    1.0
    """
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(spearmanr(first, second).statistic)


@dataclass(frozen=True, slots=True)
class DetectorRobustness(Record):
    """The primary contrasts under every detector, and each conversation in its words alone."""

    curves: tuple[SpecificationCurve, ...]
    co_detectors: tuple[CoDetector, ...]
    lexical: tuple[Lexical, ...]


def robustness(
    trajectories: Iterable[Trajectory],
    analysis: Analysis,
    outcomes: Outcomes,
    declared: LockedRule,
    encoder: Encoder,
) -> DetectorRobustness:
    """Judge all turns of the conversations every way; ``declared`` is the study's own detector."""
    contrasts = primary_contrasts(outcomes, analysis.rank_stability.order)
    if not contrasts:
        raise InputError("--robustness needs two conditions to compare")
    words: list[Lexical] = []

    def collect_words() -> Iterator[Trajectory]:
        for trajectory in trajectories:
            words.append(lexical(trajectory, "all"))
            yield trajectory

    found = judge_with_all(collect_words(), encoder, declared, "all")
    return DetectorRobustness(
        curves=tuple(
            specification_curve(found, weights, analysis.settings, declared, outcomes.primary)
            for weights in contrasts
        ),
        co_detectors=tuple(co_detectors(words, found.rates(declared))),
        lexical=tuple(words),
    )


def primary_contrasts(outcomes: Outcomes, order: Sequence[str]) -> list[Weights]:
    """What the first primary estimand compares; every pair when nothing was declared."""
    primary = outcomes.primary
    if primary and primary.contrast != PAIRS:
        named = {contrast.name: contrast.by_condition for contrast in outcomes.contrasts}
        return [named[primary.contrast]]
    return [asked.weights for asked in list_pairs(order)]
