"""Winding down: a talk that does not end but says less and less, in ever new words.

Thanks, goodbyes, praise and poetic agreement repeat nothing word for word. What shows them is how
little a message says, measured against the same talk's own past:

- shrink: how much shorter it is than the talk's usual message,
- dry: how many fewer new content words it has than usual,
- wordless: it has no letter or digit at all, as an emoji or "...",
- empty: a linear head on its MiniLM vector, "says nothing new" (short messages only).

A logistic with fixed signs turns these into evidence from 0 to 1, and two CUSUMs add it up. The
verdict counts only messages whose vector was given; words alone make a notice. The weights are
fitted by `benchmarks/validity/winding_head.py`.
"""

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, log2
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chimeralab.detection.words import is_content, stem

if TYPE_CHECKING:
    from numpy.typing import NDArray

WEIGHTS = Path(__file__).with_name("winding.json")
MAX_VECTOR_WORDS = 150  # a longer message says something; its vector is not looked at
MAX_WORDS = 1_500  # of a message, for its stems
MAX_HALVINGS = 6.0
MAX_LOGIT = 6.0
ROUNDING = 1e-9

FEATURES = ("shrink", "dry", "wordless", "empty")
"""What is measured of a message; the last one needs its vector."""


@dataclass(frozen=True, slots=True)
class WindingSettings:
    """When winding down is reported; the weights of the features are in `winding.json`."""

    window: int = 32  # earlier messages that are the talk's own past
    progress: float = 0.4  # weight of a message after news from a tool
    drift: float = 0.5  # evidence that a healthy message may have
    on: float = 2.5  # the sum at which there is a verdict; it ends at half of that
    notice: float = 1.2  # the sum at which there is a notice


class RunningSum:
    """A CUSUM of evidence minus drift, capped at twice its threshold."""

    def __init__(self, drift: float, on: float) -> None:
        self._drift, self._on = drift, on
        self.value = 0.0
        self.on = False
        self.began = 0  # the message at which the sum left zero

    def add(self, number: int, evidence: float) -> None:
        if self.value <= ROUNDING:
            self.began = number
        self.value = min(2 * self._on, max(0.0, self.value + evidence - self._drift))
        self.on = self.value >= self._on - ROUNDING or (self.on and self.value > self._on / 2)


class WindingDown:
    """Judges one conversation message by message, in time that depends on the message alone."""

    def __init__(self, settings: WindingSettings | None = None) -> None:
        self.settings = s = settings or WindingSettings()
        self.number = 0
        self.verdict = RunningSum(s.drift, s.on)
        self.notice = RunningSum(s.drift, s.notice)
        self._lengths: deque[int] = deque(maxlen=s.window)
        self._new_counts: deque[int] = deque(maxlen=s.window)
        self._last_heard: dict[str, int] = {}
        self._last: Mapping[str, float] = {}

    @property
    def level(self) -> str:
        """What the talk deserves by now: "verdict", "notice" or ""."""
        return "verdict" if self.verdict.on else "notice" if self.notice.on else ""

    @property
    def began(self) -> int:
        """The number of the message, from 1, at which the talk began to wind down."""
        return (self.verdict if self.verdict.on else self.notice).began

    def update(
        self,
        words: Sequence[str],
        text: str,
        vector: "NDArray[Any] | None" = None,
        *,
        news: bool = False,
    ) -> float:
        """Take in the next message; return the evidence from 0 to 1 that it says nothing.

        `words` are its masked words, `vector` is the MiniLM vector of the whole message, and
        `news` says whether a tool has brought something new since the last message.
        """
        self.number += 1
        features = self.measure(words, text, vector)
        means = {
            name: (value + self._last.get(name, value)) / 2 for name, value in features.items()
        }
        self._last = features
        evidence = weigh(features, means) * (self.settings.progress if news else 1.0)
        seen = "empty" in features
        self.notice.add(self.number, evidence)
        # Without a vector a message can't raise the sum, but neither does it speak against it.
        self.verdict.add(self.number, evidence if seen else min(evidence, self.settings.drift))
        return evidence

    def measure(
        self, words: Sequence[str], text: str, vector: "NDArray[Any] | None"
    ) -> dict[str, float]:
        """The features of a message; `empty` only if its vector counts."""
        wordless = not any(map(str.isalnum, text))
        size = 0 if wordless else len(words)
        new = 0 if wordless else self._count_new_stems(words)
        features = {
            "shrink": halvings(size, self._lengths),
            "dry": halvings(new, self._new_counts),
            "wordless": float(wordless),
        }
        if vector is not None and size <= MAX_VECTOR_WORDS:
            features["empty"] = MAX_LOGIT if wordless else score_emptiness(vector)
        self._lengths.append(size)
        self._new_counts.append(new)
        return features

    def _count_new_stems(self, words: Sequence[str]) -> int:
        """The number of content stems that no message of the window has."""
        stems = {stem(word) for word in words[:MAX_WORDS] if is_content(word)}
        oldest = self.number - self.settings.window
        new = sum(self._last_heard.get(each, oldest - 1) < oldest for each in stems)
        self._last_heard.update(dict.fromkeys(stems, self.number))
        return new


def halvings(value: int, earlier: Sequence[int]) -> float:
    """How many times a number halves the upper quartile of earlier ones, from 0 to 6.

    >>> halvings(3, [15, 15, 2, 15]), halvings(40, [15, 15, 2, 15]), halvings(3, [])
    (2.0, 0.0, 0.0)
    """
    if not earlier:
        return 0.0
    usual = sorted(earlier)[(3 * len(earlier)) // 4 if len(earlier) > 1 else 0]
    return min(MAX_HALVINGS, max(0.0, log2((usual + 1) / (value + 1))))


def weigh(features: Mapping[str, float], means: Mapping[str, float]) -> float:
    """Evidence from 0 to 1, by the message itself and by the mean of it and the last one."""
    model = load_weights()["vectors" if "empty" in features else "words"]
    z = model["bias"] + sum(model["message"][name] * value for name, value in features.items())
    z += sum(model["mean"][name] * means[name] for name in features)
    return 1 / (1 + exp(-z))


def score_emptiness(vector: "NDArray[Any]") -> float:
    """The logit of "says nothing new" for the vector of a message."""
    weights, bias = load_head()
    return max(-MAX_LOGIT, min(MAX_LOGIT, float(vector @ weights) + bias))


@cache
def load_weights() -> dict[str, Any]:
    weights: dict[str, Any] = json.loads(WEIGHTS.read_text(encoding="ascii"))
    return weights


@cache
def load_head() -> tuple["NDArray[Any]", float]:
    import numpy as np  # noqa: PLC0415 - a hook without vectors must not load it

    head = load_weights()["head"]
    return np.array(head["weights"], dtype=np.float32), float(head["bias"])
