"""Conversations that a report shows in full: those that collapsed most, and the healthiest."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

from chimeralab import weights
from chimeralab.core.records import Detection, Trajectory, TurnTrace
from chimeralab.embedding.encoder import default_encoder
from chimeralab.report.charts import timeline as charts
from chimeralab.report.charts.figure import Figure, draw, draw_square
from chimeralab.report.charts.timeline import Line, Span
from chimeralab.report.messages import Gap, Message, list_messages
from chimeralab.report.similarities import compare, peaks
from chimeralab.report.words import heat_map_in_words, timeline_in_words, verdict_in_words

EACH = 2
# How many turns stand open at the beginning, and on both sides of the first collapse.
OPEN_HEAD, OPEN_AROUND = 2, 2


class Part(NamedTuple):
    """Messages next to each other that are open to see, or folded away."""

    folded: bool
    messages: Sequence[Message | Gap]

    @property
    def first(self) -> int:
        return _position(self.messages[0])

    @property
    def last(self) -> int:
        return _position(self.messages[-1])


class Shown(NamedTuple):
    """A conversation as the report shows it."""

    key: str
    kind: str
    detection: Detection
    verdict: str
    prompt: str
    timeline: Figure | None
    heat_map: Figure | None
    parts: Sequence[Part]


class Choice(NamedTuple):
    """Which conversations are shown, from the most to the least telling of their kind."""

    collapsed: Sequence[Detection]
    healthy: Sequence[Detection]


def choose(detections: Iterable[Detection], each: int = EACH) -> Choice:
    """The largest shares of collapsed turns, and the smallest; of equals, the most alike turns.

    A conversation is shown once, and none without a verdict.
    """
    known = [found for found in detections if found.collapse_rate is not None]
    worst = sorted(known, key=lambda found: (-(found.collapse_rate or 0), -_repetition(found)))
    collapsed = [found for found in worst[:each] if found.collapsed]
    chosen = {found.id for found in collapsed}
    rest = [found for found in reversed(worst) if found.id not in chosen]
    return Choice(collapsed, rest[:each])


def _repetition(detection: Detection) -> float:
    """How alike a turn is to the two before it, on average."""
    near = [max(row.s1 or 0.0, row.s2 or 0.0) for row in detection.trace or ()]
    return sum(near) / len(near) if near else 0.0


def show(choice: Choice, trajectories: Iterable[Trajectory]) -> list[Shown]:
    """Draw the chosen conversations."""
    wanted = {found.id for found in (*choice.collapsed, *choice.healthy)}
    texts = {talk.id: talk for talk in trajectories if talk.id in wanted}
    kinds = (("collapsed", choice.collapsed), ("healthy", choice.healthy))
    return [
        _shown(f"{kind}-{number}", kind, found, texts[found.id])
        for kind, chosen in kinds
        for number, found in enumerate(chosen, start=1)
    ]


def _shown(key: str, kind: str, detection: Detection, trajectory: Trajectory) -> Shown:
    trace = detection.trace or ()
    return Shown(
        key=key,
        kind=kind,
        detection=detection,
        verdict=verdict_in_words(detection),
        prompt=str(trajectory.metadata.get("prompt_text", "")),
        timeline=_timeline(f"timeline_{key}", detection, trace),
        heat_map=_heat_map(f"heat_map_{key}", detection, trajectory),
        parts=list(parts(list_messages(trajectory, detection), detection)),
    )


def _timeline(name: str, detection: Detection, trace: Sequence[TurnTrace]) -> Figure | None:
    settings = detection.detector["settings"]
    if len(trace) < 2 or not trace[0].lags or "s1" not in settings:
        return None
    lines = [
        Line("s1", "s1, to the turn before", *peaks([row.s1 for row in trace]), settings["s1"]),
        Line("s2", "s2, to the one before that", *peaks([row.s2 for row in trace]), settings["s2"]),
    ]
    chart = partial(charts.timeline, lines, _spans(detection), len(trace))
    label = timeline_in_words(detection, trace)
    return draw(name, label, lambda width: chart(width=width))


def _heat_map(name: str, detection: Detection, trajectory: Trajectory) -> Figure | None:
    """Every turn with every other; this needs the encoder, and its files are not pulled for it."""
    if len(detection.positions) < 2 or weights.locate("minilm") is None:
        return None
    kept = [trajectory.turns[place - 1].text for place in detection.positions]
    pairs = compare(default_encoder().encode(kept).vectors)
    chart = charts.heat_map(pairs.spans, pairs.values, _spans(detection))
    return draw_square(name, heat_map_in_words(pairs, len(kept)), chart)


def _spans(detection: Detection) -> list[Span]:
    return [Span(episode.start, episode.end) for episode in detection.episodes]


def parts(messages: Sequence[Message | Gap], detection: Detection) -> Iterator[Part]:
    """The transcript in order: what matters open, the rest folded."""
    opened = set(range(1, OPEN_HEAD + 1))
    if detection.first_collapse_turn is not None:
        onset = detection.positions[detection.first_collapse_turn - 1]
        opened |= set(range(onset - OPEN_AROUND, onset + OPEN_AROUND + 1))
    for is_open, group in groupby(messages, key=lambda item: _position(item) in opened):
        yield Part(not is_open, list(group))


def _position(item: Message | Gap) -> int:
    return item.first if isinstance(item, Gap) else item.position
