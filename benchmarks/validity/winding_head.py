"""Trains the head of the winding-down channel: a linear one on MiniLM vectors, "says nothing new".

The sentences are made from our own patterns (`winding_sentences.toml`). Every fourth pattern of a
category is held out; accuracy is reported on messages of held-out patterns alone.
"""

import random
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from chimeralab.embedding.encoder import Encoder, default_encoder

SENTENCES = Path(__file__).with_name("winding_sentences.toml")
PER_CATEGORY = 400
HELD_OUT = 4  # every fourth pattern
RIDGE = 4.0
LENGTHS = (1, 1, 1, 2, 2, 3, 4, 6)  # sentences in a message
OPENED = 0.35  # share of messages with content that open politely
CLOSED = 0.15  # and that close politely
BLANKED = 0.5  # share of messages whose question marks and digits are removed
_SLOT = re.compile(r"\{(\w+)\}")
_SHORTCUTS = re.compile(r"[?\d]")

Floats = NDArray[np.float64]


class Example(NamedTuple):
    """A message with its category; `empty` if it says nothing new."""

    text: str
    empty: bool
    category: str


class Grammar:
    """Fills the slots of patterns at random."""

    def __init__(self, rng: random.Random, *, held_out: bool) -> None:
        self._tables: Mapping[str, Any] = tomllib.loads(SENTENCES.read_text(encoding="utf-8"))
        self._rng, self._held_out = rng, held_out

    def categories(self, group: str) -> list[str]:
        return sorted(self._tables[group])

    def sentence(self, group: str, category: str) -> str:
        return self._fill(self._pick(self._tables[group][category]["patterns"]))

    def opener(self) -> str:
        return self._fill(self._pick(self._tables["openers"]["patterns"]))

    def _pick(self, patterns: Sequence[str]) -> str:
        mine = [p for n, p in enumerate(patterns) if (n % HELD_OUT == 1) == self._held_out]
        return self._rng.choice(mine)

    def _fill(self, pattern: str) -> str:
        text = _SLOT.sub(lambda slot: self._rng.choice(self._tables["slots"][slot[1]]), pattern)
        return text[:1].upper() + text[1:] if self._rng.random() < 0.9 else text


def make_examples(seed: int, count: int, *, held_out: bool) -> list[Example]:
    """Messages of every category, of one to six sentences."""
    rng = random.Random(f"{seed} {held_out}")
    grammar = Grammar(rng, held_out=held_out)
    empty, content = grammar.categories("empty"), grammar.categories("content")
    examples = []
    for category in empty:
        others = [each for each in empty if each != "signs"]
        for _ in range(count):
            more = [rng.choice([category, *others]) for _ in range(rng.choice(LENGTHS) - 1)]
            sentences = [grammar.sentence("empty", each) for each in (category, *more)]
            examples.append(Example(_join(rng, sentences), True, category))
    for category in content:
        for _ in range(count * len(empty) // len(content)):
            more = [rng.choice([category, *content]) for _ in range(rng.choice(LENGTHS) - 1)]
            sentences = [grammar.sentence("content", each) for each in (category, *more)]
            if rng.random() < OPENED:
                sentences.insert(0, grammar.opener())
            if rng.random() < CLOSED and len(sentences) > 1:
                sentences.append(grammar.sentence("empty", rng.choice(empty)))
            examples.append(Example(_join(rng, sentences), False, category))
    return examples


def _join(rng: random.Random, sentences: Sequence[str]) -> str:
    text = rng.choice((" ", " ", " ", "\n\n")).join(sentences)
    return _SHORTCUTS.sub("", text) if rng.random() < BLANKED else text


def fit_logistic(
    rows: Floats,
    truth: Floats,
    weights: Floats | None = None,
    *,
    ridge: float,
    signs: Sequence[int] | None = None,
) -> tuple[Floats, float]:
    """Weights and bias of a ridge-penalised logistic regression.

    `signs` are 1 or -1 for weights that may not change sign, 0 for free ones.

    >>> weights, bias = fit_logistic(
    ...     np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 0.0, 1.0, 1.0]), ridge=0.1
    ... )
    >>> bool(weights[0] > 0 > bias)
    True
    """
    each = np.ones(len(truth)) if weights is None else weights

    def loss(point: Floats) -> tuple[float, Floats]:
        z = rows @ point[:-1] + point[-1]
        error = each * (1 / (1 + np.exp(-z)) - truth)
        value = float((each * (np.logaddexp(0, z) - truth * z)).sum())
        value += ridge / 2 * float(point[:-1] @ point[:-1])
        slope = np.append(rows.T @ error + ridge * point[:-1], error.sum())
        return value, slope

    limits = {0: (None, None), 1: (0, None), -1: (None, 0)}
    bounds = [limits[sign] for sign in signs or [0] * rows.shape[1]]
    start = np.zeros(rows.shape[1] + 1)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[*bounds, (None, None)])
    return found.x[:-1], float(found.x[-1])


def encode(encoder: Encoder, texts: Sequence[str]) -> Floats:
    return encoder.encode(texts).vectors.astype(np.float64)


def fit_head(
    encoder: Encoder, report: Callable[[str], None] = print
) -> tuple[list[float], float]:
    """The head's weights and bias, rounded; prints its accuracy on held-out patterns."""
    learned = make_examples(1, PER_CATEGORY, held_out=False)
    tried = make_examples(2, PER_CATEGORY // 4, held_out=True)
    truth = np.array([each.empty for each in learned], float)
    weights, bias = fit_logistic(encode(encoder, [e.text for e in learned]), truth, ridge=RIDGE)
    weights = weights.round(3)
    bias = round(bias, 3)
    logits = encode(encoder, [e.text for e in tried]) @ weights + bias
    right = defaultdict(list)
    for example, logit in zip(tried, logits, strict=True):
        right["empty" if example.empty else "content", example.category].append(
            (logit > 0) == example.empty
        )
    report("| category | says | messages | right |\n|---|---|---|---|")
    for (group, category), each in sorted(right.items()):
        report(f"| {category} | {group} | {len(each)} | {np.mean(each):.3f} |")
    report(f"all: {np.mean([x for each in right.values() for x in each]):.3f}")
    return weights.tolist(), bias


def main() -> None:
    fit_head(default_encoder())


if __name__ == "__main__":
    main()
