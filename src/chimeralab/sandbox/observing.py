"""What each hook point tells of a scored trial."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from chimeralab.sandbox.hooks import Point
from chimeralab.sandbox.scored import Scored

RELATIONAL = ("converse", "transitive")


class Observation(NamedTuple):
    """A hook point, and what is told there."""

    point: Point
    detail: dict[str, Any]


def observations(row: Scored) -> Iterator[Observation]:
    """Everything that can be observed at one trial."""
    yield Observation("memory_recall_validated", _told(row, "item", "response", "truth", "correct"))
    if row.recall_truth is not None:
        names = ("recall_response", "recall_truth", "recall_correct", "recall_lag", "intrusion")
        yield Observation("memory_recall_validated", _told(row, *names))
    if row.kind in RELATIONAL:
        yield Observation("relation_checked", _told(row, "item", "kind", "claim", "correct"))
    if row.novel:
        yield Observation("novel_task_flagged", _told(row, "item", "kind", "correct"))
    if row.confidence is not None:
        yield Observation("confidence_captured", _told(row, "confidence", "correct"))
    if row.pair is not None:
        yield Observation("pair_generated", _told(row, "pair", "frame", "alone", "response"))
    if row.bias:
        names = ("signal", "response", "consensus", "phase", "noticed")
        yield Observation("bias_injected", _told(row, *names))


def _told(row: Scored, *names: str) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}
