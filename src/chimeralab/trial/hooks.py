"""Hooks: six points of a trial at which observers are called."""

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
    """What a hook of one session reports."""

    point: Point
    session: str
    trial: int
    detail: Mapping[str, Any]

    def as_event(self) -> dict[str, Any]:
        """The event as a line of `run --events`, named after its hook."""
        return {"event": self.point, "talk": self.session, "turn": self.trial, **self.detail}


Observer = Callable[[HookEvent], None]
Observations = Iterator[tuple[Point, dict[str, Any]]]


class Hooks:
    """Calls observers at the hooks they registered for; pass it to a run as `publish`.

    >>> hooks, seen = Hooks(), []
    >>> hooks.on("bias_injected", seen.append)
    >>> hooks(HookEvent("bias_injected", "s", 3, {"size": 5}))
    >>> seen[0].trial
    3
    """

    def __init__(self) -> None:
        self._observers: defaultdict[str, list[Observer]] = defaultdict(list)

    def on(self, point: Point, observer: Observer) -> None:
        """Register an observer at a hook."""
        if point not in POINTS:
            raise InputError(f"unknown hook {point!r}; known: {', '.join(POINTS)}")
        self._observers[point].append(observer)

    def __call__(self, news: object) -> None:
        if isinstance(news, HookEvent):
            for observer in self._observers[news.point]:
                observer(news)


def at_question(row: TrialRow) -> Observations:
    """Observations before a question; the row need not have an answer."""
    if row.novel:
        yield "novel_task_flagged", {"item": row.item, "kind": row.kind}
    if row.pair is not None:
        yield "pair_generated", {"pair": row.pair, "frame": row.frame}
    if row.bias:
        where = {"consensus": row.consensus, "phase": row.phase}
        where |= {"evidence": row.evidence} if row.evidence else {}
        yield "bias_injected", {"signal": row.signal, **where}


def at_answer(row: TrialRow) -> Observations:
    """Observations after an answer; the row need not have replies to probes."""
    cells = row.cells()
    columns = ("item", "response", "truth", "correct")
    yield "memory_recall_validated", {name: cells[name] for name in columns}
    if row.kind in RELATIONAL:
        columns = ("item", "kind", "claim", "correct")
        yield "relation_checked", {name: cells[name] for name in columns}


def at_probe(probe: Probe, row: TrialRow) -> Observations:
    """Observations after a probe whose reply can be read."""
    if probe.observed is None:
        return
    point, *columns = probe.observed
    cells = row.cells()
    if cells[columns[0]] is not None:
        yield cast("Point", point), {name: cells[name] for name in columns}
