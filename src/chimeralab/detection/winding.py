"""Winding down: a talk that does not end but says less and less, in ever new words.

Thanks, goodbyes, praise and poetic agreement repeat nothing word for word. What shows them is how
little a message says, measured against the same talk's own past:

- shrink: how much shorter it is than the talk's usual message,
- dry: how many fewer new content words it has than usual,
- wordless: it has no letter or digit at all, as an emoji or "...",
- empty: a linear head on its MiniLM vector, "says nothing new" (short messages only).

A logistic with fixed signs turns the mean of the last two messages into evidence from 0 to 1, and
CUSUMs (Page 1954) add it up. A second head tells ordinary courtesy apart: a goodbye may take a few
lines and is not yet a loop. A verdict counts only messages with a vector; words alone make a
notice. `benchmarks/validity/winding_head.py` fits the weights.
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
DIMENSIONS = 384  # of MiniLM; the heads know no other encoder
MAX_VECTOR_WORDS = 150  # in a longer message the head is not consulted
MAX_WORDS = 1_500  # of a message, whose stems are counted
PRUNED_EVERY = 256  # messages after which old stems are forgotten
MAX_HALVINGS = 6.0
MAX_LOGIT = 6.0
ROUNDING = 1e-9

WORD_FEATURES = ("shrink", "dry", "wordless")
VECTOR_FEATURES = (*WORD_FEATURES, "empty")

Features = dict[str, float]
"""What is measured of a message, by name; `empty` and `courtesy` only where its vector counts."""

Weights = Mapping[str, Mapping[str, float]]
"""The weight of each feature and a `bias`, under `words` and under `vectors`."""


@dataclass(frozen=True, slots=True)
class WindingSettings:
    """When winding down is reported."""

    window: int = 32  # earlier messages that are the talk's own past
    progress: float = 0.4  # weight of a message after news from a tool
    drift: float = 0.7  # evidence that a healthy message may have
    on: float = 1.2  # the sum at which there is a verdict; it ends at half of that
    notice: float = 0.6  # the sum at which there is a notice
    goodbye: int = 6  # messages that an ordinary goodbye may take
    ordinary: float = 0.4  # mean courtesy from which a stretch is an ordinary goodbye


DEFAULTS = WindingSettings()


class WindingSum:
    """A CUSUM of evidence minus drift; it is on from a threshold until it falls to half of that.

    The stretch since it left zero began at message `began`, counted from 1, and is not reported
    while it may be an ordinary goodbye.
    """

    def __init__(self, settings: WindingSettings, threshold: float, goodbye: int = 0) -> None:
        self._settings, self._threshold, self._goodbye = settings, threshold, goodbye
        self.value = 0.0
        self.on = False
        self.began = self._length = 0
        self._courtesy = 0.0

    def add(self, number: int, evidence: float, courtesy: float) -> None:
        """Add the evidence of message `number`."""
        if self.value <= ROUNDING:
            self.began, self._length, self._courtesy = number, 0, 0.0
        self._length += 1
        self._courtesy += courtesy
        value = self.value + evidence - self._settings.drift
        self.value = min(2 * self._threshold, max(0.0, value))
        if self.on:
            self.on = self.value > self._threshold / 2
        else:
            self.on = self.value >= self._threshold - ROUNDING and not self._may_be_goodbye

    @property
    def _may_be_goodbye(self) -> bool:
        ordinary = self._courtesy >= self._settings.ordinary * self._length
        return ordinary and self._length <= self._goodbye


class WindingDown:
    """Judges one conversation, message by message."""

    def __init__(
        self, settings: WindingSettings | None = None, weights: Weights | None = None
    ) -> None:
        self.settings = s = settings or DEFAULTS
        self.number = 0
        self.verdict = WindingSum(s, s.on, s.goodbye)
        self.notice = WindingSum(s, s.notice)
        self._weights = weights or load_weights()
        self._lengths: deque[int] = deque(maxlen=s.window)
        self._new_stems: deque[int] = deque(maxlen=s.window)
        self._last_heard: dict[str, int] = {}
        self._last: Features = {}

    @property
    def level(self) -> str:
        """What is to be reported now: "verdict", "notice" or ""."""
        return "verdict" if self.verdict.on else "notice" if self.notice.on else ""

    @property
    def began(self) -> int:
        """The message, counted from 1, at which the talk began to wind down."""
        return (self.verdict if self.verdict.on else self.notice).began

    def update(
        self, words: Sequence[str], text: str, vector: "NDArray[Any] | None", news: bool
    ) -> float:
        """Take in the next message; return the evidence from 0 to 1 that it says nothing.

        `words` are its masked words, `vector` is the MiniLM vector of the whole message, if there
        is one, and `news` is whether a tool has brought something new since the last message.
        """
        return self.judge(self.measure(words, text, vector), news)

    def measure(self, words: Sequence[str], text: str, vector: "NDArray[Any] | None") -> Features:
        """The features of the next message."""
        self.number += 1
        wordless = not any(map(str.isalnum, text))
        size = 0 if wordless else count_words(text, words)
        new = 0 if wordless else self._count_new_stems(words)
        features = {
            "shrink": count_halvings(size, self._lengths),
            "dry": count_halvings(new, self._new_stems),
            "wordless": float(wordless),
        }
        if vector is not None and len(vector) == DIMENSIONS and size <= MAX_VECTOR_WORDS:
            features |= {"empty": MAX_LOGIT, "courtesy": 0.0} if wordless else apply_heads(vector)
        self._lengths.append(size)
        self._new_stems.append(new)
        return features

    def judge(self, features: Features, news: bool) -> float:
        """Add the evidence of the message that was measured last, and return it."""
        s = self.settings
        last, self._last = self._last, features
        means = {name: (value + last.get(name, value)) / 2 for name, value in features.items()}
        evidence = weigh(means, self._weights) * (s.progress if news else 1.0)
        courtesy = features.get("courtesy", 0.0)
        self.notice.add(self.number, evidence, courtesy)
        # A message without a vector can't raise the sum of the verdict, but it may lower it.
        counted = evidence if "empty" in features else min(evidence, s.drift)
        self.verdict.add(self.number, counted, courtesy)
        return evidence

    def _count_new_stems(self, words: Sequence[str]) -> int:
        """The number of content stems that no message of the window has."""
        oldest = self.number - self.settings.window
        stems = {stem(word) for word in words[:MAX_WORDS] if is_content(word)}
        new = sum(self._last_heard.get(each, oldest - 1) < oldest for each in stems)
        self._last_heard.update(dict.fromkeys(stems, self.number))
        if self.number % PRUNED_EVERY == 0:
            self._last_heard = {k: n for k, n in self._last_heard.items() if n > oldest}
        return new


def count_words(text: str, words: Sequence[str]) -> int:
    """The length of a message with its blocks, which `words` may mask.

    >>> count_words("He said: > yes yes yes", ["he", "said", "block"])
    6
    """
    return max(len(words), len(text.split()))


def count_halvings(value: int, earlier: Sequence[int]) -> float:
    """How many times the upper quartile of earlier numbers halves to this one, from 0 to 6.

    >>> count_halvings(3, [15, 15, 2, 15]), count_halvings(40, [15, 2]), count_halvings(3, [])
    (2.0, 0.0, 0.0)
    """
    if not earlier:
        return 0.0
    usual = sorted(earlier)[3 * (len(earlier) - 1) // 4]
    return min(MAX_HALVINGS, max(0.0, log2((usual + 1) / (value + 1))))


def weigh(features: Features, weights: Weights) -> float:
    """Evidence from 0 to 1, by the weights for messages with a vector or without."""
    model = weights["vectors" if "empty" in features else "words"]
    return logistic(sum(value * features.get(name, 1.0) for name, value in model.items()))


def apply_heads(vector: "NDArray[Any]") -> Features:
    """How empty a message is (a logit from -6 to 6), and how far ordinary courtesy (0 to 1)."""
    weights, biases = load_heads()
    empty, courtesy = (weights @ vector + biases).tolist()
    return {"empty": max(-MAX_LOGIT, min(MAX_LOGIT, empty)), "courtesy": logistic(courtesy)}


def logistic(z: float) -> float:
    return 1 / (1 + exp(-z))


@cache
def load_weights() -> dict[str, Any]:
    weights: dict[str, Any] = json.loads(WEIGHTS.read_text(encoding="ascii"))
    return weights


@cache
def load_heads() -> tuple["NDArray[Any]", "NDArray[Any]"]:
    """The weights of both heads, a row each, and their biases."""
    import numpy as np  # noqa: PLC0415 - the hook, which has no vectors, starts without numpy

    heads = [load_weights()["heads"][name] for name in ("empty", "courtesy")]
    weights = np.array([head["weights"] for head in heads], dtype=np.float32)
    return weights, np.array([head["bias"] for head in heads], dtype=np.float32)
