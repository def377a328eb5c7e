"""DeepEval: its metric of loops in the trace of an agent."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from benchmarks.stuck.rules.seam import Event, Rule

# Common words and those of agents' set phrases, of three letters or more.
COMMON = frozenset(
    {"the", "are", "was", "were", "will", "now", "based", "information", "provided", "and", "that"}
    | {"this", "with", "for", "next", "step", "going", "have", "has", "not", "but", "from", "let"}
    | {"about", "above", "below", "its"}
)
MIN_WORDS, IDENTICAL = 20, 0.95
WEIGHTS = {"repetition": 0.40, "stagnation": 0.35, "cycles": 0.25}


def count_words(text: str) -> list[str]:
    """The words of a text that are compared."""
    return [word for word in text.lower().split() if word not in COMMON and len(word) > 2]


def similarity(one: Sequence[str], other: Sequence[str], least: float = 0) -> float:
    """The share of pairs of words in common, or of text in the same order: the larger of both.

    Below `least` it is 0.
    """
    if min(len(one), len(other)) < MIN_WORDS:
        return 0
    pairs = set(pairwise(one)), set(pairwise(other))
    jaccard = len(pairs[0] & pairs[1]) / len(pairs[0] | pairs[1])
    matcher = SequenceMatcher(None, " ".join(one), " ".join(other))
    bounds = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)
    order = matcher.ratio() if all(bound() >= least for bound in bounds) else 0
    found = max(jaccard, order)
    return found if found >= least else 0


@dataclass(frozen=True, slots=True)
class DeepEval(Rule):
    """The score of the trace so far is below `threshold`: 0.4 for no call that comes 3 times (half
    of that below 6), 0.35 for no two answers in a row that are 85 % alike (half of that up to
    95 %), 0.25 for no span inside its like, of which logs tell nothing."""

    title = "DeepEval"
    source = "confident-ai/deepeval: docs, metrics-agent-loop-detection.mdx"
    release = "a2e0d4cfd3118352d321c1c84bdeba17d4a201bc"

    threshold: float = 0.5
    repetition_threshold: int = 3
    similarity_threshold: float = 0.85

    def verdicts(self, events: Iterator[Event]) -> Iterator[int | None]:
        counts, first = Counter[str](), dict[str, int]()
        repetition = stagnation = 1.0
        last: tuple[list[str], int] | None = None
        for event in events:
            began = None
            if event.kind == "call":
                counts[event.call] += 1
                first.setdefault(event.call, event.position)
                if counts[event.call] >= self.repetition_threshold:
                    began = first[event.call]
                    severe = counts[event.call] >= 2 * self.repetition_threshold
                    repetition = min(repetition, 0.0 if severe else 0.5)
            elif event.kind == "text":
                words = count_words(event.text)
                alike = similarity(last[0], words, self.similarity_threshold) if last else 0
                if last and alike:
                    began = last[1]
                    stagnation = min(stagnation, 0.0 if alike > IDENTICAL else 0.5)
                last = words, event.position
            yield began if self.score(repetition, stagnation) < self.threshold else None

    def score(self, repetition: float, stagnation: float, cycles: float = 1.0) -> float:
        """The weighted score of a trace: 1 is clean."""
        return (
            WEIGHTS["repetition"] * repetition
            + WEIGHTS["stagnation"] * stagnation
            + WEIGHTS["cycles"] * cycles
        )
