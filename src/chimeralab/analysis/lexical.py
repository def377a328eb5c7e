"""Collapse seen in the words alone, beside the embedding: repeats, shared n-grams, compression."""

import re
import unicodedata
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from chimeralab.core.records import Record, Trajectory
from chimeralab.detection.detectors import Lags, Locked
from chimeralab.detection.series import judged

GRAM = 3
# The rule of the locked detector, three turns in a row, on two other measures of likeness.
SAME_WORDS = Locked(s1=1.0, s2=1.0, d1=0.0, d2=0.0)
SHARED_GRAMS = Locked(s1=0.5, s2=0.5, d1=0.5, d2=0.5)
# The dictionary of a compressor outweighs a text shorter than this.
FEWEST_BYTES = 200

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
    texts = [turn.text for turn in judged(trajectory, speaker).turns]
    turns = [words(text) for text in texts]
    closest = [
        max(shared_grams(now, past) for past in turns[max(0, n - 2) : n])
        for n, now in enumerate(turns)
        if n
    ]
    seen = [turn in turns[:n] for n, turn in enumerate(turns) if n]
    numbers = {
        "repeated_share": sum(seen) / len(turns) if seen else None,
        "overlap": sum(closest) / len(closest) if closest else None,
        "repeat_rate": _collapse_rate(turns, same_words, SAME_WORDS),
        "overlap_rate": _collapse_rate(turns, shared_grams, SHARED_GRAMS),
        "compression_ratio": compression_ratio("\n".join(texts)),
    }
    missing = {name: _MISSING[name] for name, number in numbers.items() if number is None}
    return Lexical(trajectory.id, len(turns), **numbers, reasons=missing)


_MISSING = {
    "repeated_share": "needs two turns",
    "overlap": "needs two turns",
    "repeat_rate": f"needs {SAME_WORDS.turns_needed} turns",
    "overlap_rate": f"needs {SHARED_GRAMS.turns_needed} turns",
    "compression_ratio": f"needs {FEWEST_BYTES} bytes of text",
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


def shared_grams(now: Words, past: Words) -> float:
    """Word trigrams that two texts share, of all that they have (Jaccard 1901).

    >>> shared_grams(words("the cat sat down"), words("the cat sat up"))
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
    return len(zlib.compress(raw, 9)) / len(raw) if len(raw) >= FEWEST_BYTES else None


def _grams(text: Words) -> set[Words]:
    """Trigrams; a text of fewer words is its own only gram."""
    return {text[n : n + GRAM] for n in range(max(1, len(text) - GRAM + 1))}


def _collapse_rate(turns: Sequence[Words], likeness: Likeness, rule: Locked) -> float | None:
    if len(turns) < rule.turns_needed:
        return None

    def back(n: int, lag: int) -> float:
        return likeness(turns[n], turns[n - lag]) if n >= lag else float("nan")

    signals = rule.judge(Lags(back(n, 1), back(n, 2)) for n in range(len(turns)))
    return sum(signal.collapsed for signal in signals) / len(turns)
