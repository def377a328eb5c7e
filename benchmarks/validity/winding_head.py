"""Fits the winding-down channel and writes its weights to `winding.json`.

The head "says nothing new" is linear on MiniLM vectors and learns from made sentences alone
(`winding_sentences`). The weights of the features are fitted to development logs, with fixed signs.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.validity.winding_logs import (
    Case,
    dialogues,
    read_labelled,
    selfplay,
    sessions,
    spoken_messages,
    zoo_talks,
)
from benchmarks.validity.winding_sentences import blank_shortcuts, make_examples
from chimeralab.detection.winding import (
    MAX_VECTOR_WORDS,
    VECTOR_FEATURES,
    WEIGHTS,
    WORD_FEATURES,
    Features,
    WindingDown,
    count_words,
    load_heads,
    load_weights,
)
from chimeralab.detection.words import SpokenMessage
from chimeralab.embedding.encoder import Encoder, default_encoder

PER_CATEGORY = 400
HEAD_RIDGE = 4.0
RIDGE = 1.0
ENDINGS = ("farewell", "praise", "emoji")  # kinds of loops that wind down
# What all messages of a group weigh together: talks between models count most, made ones least.
GROUP_WEIGHTS = {"set 1": 400.0, "dialogues": 200.0, "tau-bench": 200.0, "zoo": 150.0}
OTHER_WEIGHT = 100.0
NEVER = 10**9  # a position after every message

Floats = NDArray[np.float64]
Measured = tuple[Case, list[tuple[int, bool, Features]]]
"""A case with the position, the news and the features of each spoken message."""


def fit_logistic(
    rows: Floats,
    truth: Floats,
    weights: Floats | None = None,
    *,
    ridge: float,
    positive: bool = False,
) -> tuple[Floats, float]:
    """Weights and bias of a logistic regression with ridge; `positive` weights are at least 0.

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
        return value, np.append(rows.T @ error + ridge * point[:-1], error.sum())

    bounds = [(0 if positive else None, None)] * rows.shape[1] + [(None, None)]
    start = np.zeros(rows.shape[1] + 1)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return found.x[:-1], float(found.x[-1])


# The heads


def fit_heads(encoder: Encoder) -> dict[str, dict[str, Any]]:
    """Weights and biases, rounded; prints the accuracy on held-out patterns."""
    learned = make_examples(1, PER_CATEGORY, held_out=False)
    vectors = encoder.encode([each.text for each in learned]).vectors.astype(np.float64)
    empty = np.array([each.empty for each in learned])
    courtesy = np.array([each.courtesy for each in learned])
    # Whether courtesy is ordinary is asked only of messages that say nothing new.
    fits = {
        "empty": fit_logistic(vectors, empty.astype(float), ridge=HEAD_RIDGE),
        "courtesy": fit_logistic(vectors[empty], courtesy[empty], ridge=HEAD_RIDGE),
    }
    heads = {
        name: {"bias": round(bias, 2), "weights": weights.round(2).tolist()}
        for name, (weights, bias) in fits.items()
    }
    report_heads(encoder, heads)
    return heads


def report_heads(encoder: Encoder, heads: Mapping[str, Mapping[str, Any]]) -> None:
    tried = make_examples(2, PER_CATEGORY // 4, held_out=True)
    vectors = encoder.encode([each.text for each in tried]).vectors
    empty, courtesy = (vectors @ np.array(h["weights"]) + h["bias"] for h in heads.values())
    groups = defaultdict(list)
    for n, example in enumerate(tried):
        groups[not example.empty, example.category].append(n)
    print("| category | says | messages | right | ordinary courtesy |\n|---|---|---|---|---|")
    for (content, category), places in sorted(groups.items()):
        says = "something" if content else "nothing new"
        right, ordinary = (empty[places] > 0) != content, courtesy[places] > 0
        share = f"{right.mean():.3f} | {ordinary.mean():.3f}"
        print(f"| {category} | {says} | {len(places)} | {share} |")
    truth = np.array([each.empty for each in tried])
    print(f"\nright: {((empty > 0) == truth).mean():.3f}")


# The weights of the features


def measure(case: Case, encoder: Encoder, *, blank: bool = False) -> Measured:
    """The features of a case's messages; with `blank`, without question marks and digits."""
    messages = list(spoken_messages(case.log.talk))
    texts = [blank_shortcuts(each.text) if blank else each.text for each in messages]
    stream, measured = WindingDown(), []
    spoken = [SpokenMessage(text) for text in texts]
    sizes = [count_words(each.text, each.masked_words) for each in spoken]
    short = [n for n, size in enumerate(sizes) if size <= MAX_VECTOR_WORDS]
    vectors = dict(zip(short, encoder.encode([texts[n] for n in short]).vectors, strict=True))
    for n, (message, said) in enumerate(zip(messages, spoken, strict=True)):
        features = stream.measure(said.masked_words, texts[n], vectors.get(n))
        measured.append((message.position, message.news, features))
    return case, measured


def fit_weights(cases: Iterable[Measured]) -> dict[str, dict[str, float]]:
    """The weights of the features, for messages with a vector and without."""
    groups = defaultdict(list)
    for case, measured in cases:
        if not case.stuck or case.kind.split("/")[0] in ENDINGS:
            groups[case.group, case.stuck].append((case, measured))
    return {
        "vectors": _fit_features(groups, VECTOR_FEATURES),
        "words": _fit_features(groups, WORD_FEATURES),
    }


def _fit_features(
    groups: dict[tuple[str, bool], list[Measured]], names: Sequence[str]
) -> dict[str, float]:
    rows, truth, weights = list[list[float]](), list[bool](), list[float]()
    for (group, _), cases in groups.items():
        found = [row for case in cases for row in _rows(*case, names)]
        rows += [means for means, _ in found]
        truth += [stuck for _, stuck in found]
        weights += [GROUP_WEIGHTS.get(group, OTHER_WEIGHT) / max(1, len(found))] * len(found)
    fitted, bias = fit_logistic(
        np.array(rows), np.array(truth, float), np.array(weights), ridge=RIDGE, positive=True
    )
    return dict(zip(names, fitted.round(3).tolist(), strict=True)) | {"bias": round(bias, 3)}


def _rows(
    case: Case, measured: Sequence[tuple[int, bool, Features]], names: Sequence[str]
) -> Iterator[tuple[list[float], bool]]:
    """The features of a case's messages, averaged with the last one's, and whether they loop.

    Messages after a loop are left out: nobody has labelled them.
    """
    first, end = case.log.spans[0] if case.log.spans else (NEVER, NEVER)
    last: Features = {}
    for position, _, features in measured:
        if position <= end and all(name in features for name in names):
            means = [(features[name] + last.get(name, features[name])) / 2 for name in names]
            yield means, position >= first
        last = features


def development_cases() -> list[Case]:
    """Every log that the channel is chosen on."""
    return [*selfplay(), *read_labelled(), *sessions(), *dialogues(), *zoo_talks()]


def main() -> None:
    encoder = default_encoder()
    heads = fit_heads(encoder)
    write_weights({"heads": heads})
    load_weights.cache_clear()
    load_heads.cache_clear()
    fitted = fit_weights(measure(case, encoder) for case in development_cases())
    write_weights({"heads": heads, **fitted})
    for name, weights in fitted.items():
        print(f"{name}: {weights}")


def write_weights(weights: Mapping[str, Any]) -> None:
    WEIGHTS.write_text(json.dumps(weights, separators=(",", ":")) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
