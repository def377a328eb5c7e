"""Robustness of a finding to the detector: every setting of it, and lexical measures."""

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
from chimeralab.selfplay.analysis import Analysis, primary_contrasts
from chimeralab.selfplay.outcomes import Outcomes
from chimeralab.selfplay.specifications import (
    SpecificationCurve,
    judge_with_all,
    specification_curve,
)
from chimeralab.stats.arrays import Floats

GRAM = 3
# The rule of the locked detector on two lexical measures of similarity.
SAME_WORDS = LockedRule(s1=1.0, s2=1.0, d1=0.0, d2=0.0)
TRIGRAM_OVERLAP = LockedRule(s1=0.5, s2=0.5, d1=0.5, d2=0.5)
# Below this size, the overhead of compression dominates.
MIN_BYTES = 200

Words = tuple[str, ...]
Likeness = Callable[[Words, Words], float]


@dataclass(frozen=True, slots=True)
class Lexical(Record):
    """Lexical measures of a conversation, without any embedding.

    ``repeated_share``: turns that repeat an earlier turn word for word. ``overlap``: mean overlap
    of word trigrams with the closer of the two turns before. ``repeat_rate`` and ``overlap_rate``:
    the share of turns that the locked rule marks when applied to these. ``compression_ratio``:
    compressed size over size; smaller means more repetitive.
    """

    id: str
    turns: int
    repeated_share: float | None
    overlap: float | None
    repeat_rate: float | None
    overlap_rate: float | None
    compression_ratio: float | None
    reasons: Mapping[str, str] = field(default_factory=dict)


def measure_lexically(trajectory: Trajectory, speaker: str | None = None) -> Lexical:
    """Measure the judged turns of a conversation."""
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
    """Split a text into words, ignoring case, punctuation and white space.

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
    """The Jaccard index of the word trigrams of two texts.

    >>> trigram_overlap(words("the cat sat down"), words("the cat sat up"))
    0.3333333333333333
    """
    one, two = _grams(now), _grams(past)
    return len(one & two) / len(one | two)


def compression_ratio(text: str) -> float | None:
    """Compressed size over size; None for a text that is too short.

    >>> round(compression_ratio("Thank you, and goodbye! " * 40), 2)
    0.04
    """
    raw = text.encode(errors="replace")
    return len(zlib.compress(raw, 9)) / len(raw) if len(raw) >= MIN_BYTES else None


def _grams(text: Words) -> set[Words]:
    """The trigrams of a text; a shorter text is its own only gram."""
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


# The sign of each measure: compression falls as collapse rises.
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
    """A lexical measure against the embedding's share of collapsed turns.

    ``correlation`` is Spearman's, signed so that agreement is positive. The counts say which of the
    two found any collapse, for measures with a verdict.
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
    """Compare each lexical measure with the collapse rates of the same conversations."""
    for name, direction in DIRECTIONS.items():
        both_known = [
            (getattr(each, name), rate)
            for each, rate in zip(lexical, collapse_rates, strict=True)
            if rate is not None and getattr(each, name) is not None
        ]
        columns = np.array(both_known, dtype=np.float64).reshape(-1, 2)
        correlation = spearman(columns[:, 0] * direction, columns[:, 1])
        why = {} if correlation is not None else {"correlation": "one of the two is constant"}
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


NO_VERDICT = "the measure gives no verdict"


def spearman(first: Floats, second: Floats) -> float | None:
    """Spearman's rank correlation; None if one side is constant.

    >>> spearman(np.array([1.0, 2.0, 9.0]), np.array([2.0, 3.0, 4.0]))
    1.0
    """
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(spearmanr(first, second).statistic)


@dataclass(frozen=True, slots=True)
class DetectorRobustness(Record):
    """The primary contrasts under every detector, and lexical measures of each conversation."""

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
    """Judge all turns with every detector and lexically; ``declared`` is the study's detector."""
    contrasts = primary_contrasts(outcomes, analysis.rank_stability.order)
    if not contrasts:
        raise InputError("--robustness needs two conditions to compare")
    words: list[Lexical] = []

    def collect_words() -> Iterator[Trajectory]:
        for trajectory in trajectories:
            words.append(measure_lexically(trajectory, "all"))
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
