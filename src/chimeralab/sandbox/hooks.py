"""Six points of a trial at which anyone can look on: metrics and displays are subscribers."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, get_args

from chimeralab.core.errors import InputError
from chimeralab.sandbox.scored import Scored

Point = Literal[
    "memory_recall_validated",
    "relation_checked",
    "novel_task_flagged",
    "confidence_captured",
    "pair_generated",
    "bias_injected",
]
POINTS: tuple[Point, ...] = get_args(Point)
RELATIONAL = ("converse", "transitive")


class Observed(NamedTuple):
    """Something seen at a hook point of one session."""

    point: Point
    session: str
    trial: int
    detail: Mapping[str, Any]


Watcher = Callable[[Observed], None]


class Hooks:
    """Passes what is observed on to those who asked for it; hand it to a run as `publish`.

    >>> hooks, seen = Hooks(), []
    >>> hooks.on("bias_injected", seen.append)
    >>> hooks(Observed("bias_injected", "s", 3, {"size": 5}))
    >>> seen[0].trial
    3
    """

    def __init__(self) -> None:
        self._watchers: defaultdict[str, list[Watcher]] = defaultdict(list)

    def on(self, point: Point, watcher: Watcher) -> None:
        """Call the watcher with everything that is seen at a point."""
        if point not in POINTS:
            raise InputError(f"unknown hook point {point!r}; known: {', '.join(POINTS)}")
        self._watchers[point].append(watcher)

    def __call__(self, news: object) -> None:
        if isinstance(news, Observed):
            for watcher in self._watchers[news.point]:
                watcher(news)


class Observation(NamedTuple):
    """A hook point, and what its watchers receive."""

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
