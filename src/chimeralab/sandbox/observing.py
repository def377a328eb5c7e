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
    cells = row.cells()

    def seen(point: Point, *names: str) -> Observation:
        return Observation(point, {name: cells[name] for name in names})

    yield seen("memory_recall_validated", "item", "response", "truth", "correct")
    if row.recalled:
        names = ("recall_response", "recall_truth", "recall_correct", "recall_lag", "intrusion")
        yield seen("memory_recall_validated", *names)
    if row.posed.kind in RELATIONAL:
        yield seen("relation_checked", "item", "kind", "claim", "correct")
    if row.posed.novel:
        yield seen("novel_task_flagged", "item", "kind", "correct")
    if row.confided.confidence is not None:
        yield seen("confidence_captured", "confidence", "correct")
    if row.posed.pair is not None:
        yield seen("pair_generated", "pair", "frame", "alone", "response")
    if row.pressed.bias:
        yield seen("bias_injected", "signal", "response", "consensus", "phase", "noticed")
