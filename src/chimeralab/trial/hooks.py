"""Six points of a trial at which anyone can look on, each told of when it happens."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, cast, get_args

from chimeralab.core.errors import InputError
from chimeralab.trial.probes import Probe
from chimeralab.trial.trials import TrialRow

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


class HookEvent(NamedTuple):
    """Something seen at a hook point of one session."""

    point: Point
    session: str
    trial: int
    detail: Mapping[str, Any]

    def as_event(self) -> dict[str, Any]:
        """As a line of `run --events`: it goes by the name of its point."""
        return {"event": self.point, "talk": self.session, "turn": self.trial, **self.detail}


Watcher = Callable[[HookEvent], None]
Sightings = Iterator[tuple[Point, dict[str, Any]]]


class Hooks:
    """Passes what is observed on to those who asked for it; hand it to a run as `publish`.

    >>> hooks, seen = Hooks(), []
    >>> hooks.on("bias_injected", seen.append)
    >>> hooks(HookEvent("bias_injected", "s", 3, {"size": 5}))
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
        if isinstance(news, HookEvent):
            for watcher in self._watchers[news.point]:
                watcher(news)


def at_question(row: TrialRow) -> Sightings:
    """What can be observed when a question is put; of the row, no answer has to be there."""
    if row.novel:
        yield "novel_task_flagged", {"item": row.item, "kind": row.kind}
    if row.pair is not None:
        yield "pair_generated", {"pair": row.pair, "frame": row.frame}
    if row.bias:
        where = {"consensus": row.consensus, "phase": row.phase}
        where |= {"evidence": row.evidence} if row.evidence else {}
        yield "bias_injected", {"signal": row.signal, **where}


def at_answer(row: TrialRow) -> Sightings:
    """What can be observed when the answer is there; of the row, nothing else has to be."""
    cells = row.cells()
    judged = {name: cells[name] for name in ("item", "response", "truth", "correct")}
    yield "memory_recall_validated", judged
    if row.kind in RELATIONAL:
        checked = {name: cells[name] for name in ("item", "kind", "claim", "correct")}
        yield "relation_checked", checked


def at_probe(probe: Probe, row: TrialRow) -> Sightings:
    """What can be observed when the reply to a probe is there and can be read."""
    if probe.observed is None:
        return
    point, *columns = probe.observed
    cells = row.cells()
    if cells[columns[0]] is not None:
        yield cast("Point", point), {name: cells[name] for name in columns}
