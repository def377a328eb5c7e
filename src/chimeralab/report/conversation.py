"""One conversation as a page: its verdict, its similarities as pictures, and every turn's text."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from chimeralab.core.records import Detection, Trajectory, TurnTrace
from chimeralab.detection import measurer_for, verdict
from chimeralab.detection.detectors import LOCKED, Detector
from chimeralab.embedding.encoder import Encoder, default_encoder
from chimeralab.report.charts import timeline as charts
from chimeralab.report.charts.timeline import Line, Span
from chimeralab.report.messages import Gap, Message, list_messages
from chimeralab.report.pages import render
from chimeralab.report.similarities import Pairs, compare, peaks
from chimeralab.report.theme import NARROW, WIDE
from chimeralab.report.words import (
    PAIRS_NAMED,
    facts,
    heat_map_in_words,
    timeline_in_words,
    verdict_in_words,
)


class Timeline(NamedTuple):
    """The similarities over the turns, for a wide and for a narrow screen, and in words."""

    wide: Markup
    narrow: Markup
    label: str
    block: int


class HeatMap(NamedTuple):
    """The similarity of any two turns, as a picture and in words."""

    picture: Markup
    label: str
    pairs: Pairs


def draw_conversation(
    trajectory: Trajectory,
    *,
    speaker: str | None = None,
    detector: Detector = LOCKED,
    open_encoder: Callable[[], Encoder] = default_encoder,
) -> str:
    """Judge a conversation and draw it as one self-contained HTML page."""
    measurer = measurer_for(detector, open_encoder, speaker=speaker)
    (measured,) = measurer.measure([trajectory])
    detection = verdict(measured, detector, measurer.encoder, trace=True)
    assert detection.trace is not None
    texts = [turn.text for turn in measured.series.turns]
    vectors = measurer.encoder.encode(texts).vectors if measurer.encoder else None
    messages = list_messages(trajectory, detection)
    shown = {item.turn for item in messages if isinstance(item, Message)}
    return render(
        "conversation.html",
        detection=detection,
        window=detector.thresholds.window if detector.thresholds else None,
        rule=detector.rule,
        verdict=verdict_in_words(detection),
        facts=list(facts(trajectory, detection, detector)),
        timeline=_timeline(detection, detection.trace),
        heat_map=_heat_map(detection, vectors),
        most_alike=PAIRS_NAMED,
        trace=[row for row in detection.trace if row.turn in shown],
        messages=messages,
        left_out=sum(item.messages for item in messages if isinstance(item, Gap)),
        total=len(trajectory.turns),
        linked=shown,
    )


def _timeline(detection: Detection, trace: Sequence[TurnTrace]) -> Timeline | None:
    settings = detection.detector["settings"]
    if len(trace) < 2 or not trace[0].lags or "s1" not in settings:
        return None
    s1, s2 = peaks([row.s1 for row in trace]), peaks([row.s2 for row in trace])
    lines = [
        Line("s1", "s1, to the turn before", *s1, settings["s1"]),
        Line("s2", "s2, to the one before that", *s2, settings["s2"]),
    ]
    draw = partial(charts.timeline, lines, _shaded(detection), len(trace))
    return Timeline(
        wide=_picture(draw(width=WIDE)),
        narrow=_picture(draw(width=NARROW)),
        label=timeline_in_words(detection, trace),
        block=s1.turns[1] - s1.turns[0],
    )


def _heat_map(detection: Detection, vectors: NDArray[np.float32] | None) -> HeatMap | None:
    if vectors is None or len(vectors) < 2:
        return None
    pairs = compare(vectors)
    chart = charts.heat_map(pairs.spans, pairs.values, _shaded(detection))
    return HeatMap(_picture(chart), heat_map_in_words(pairs, len(vectors)), pairs)


def _shaded(detection: Detection) -> list[Span]:
    return [Span(episode.start, episode.end) for episode in detection.episodes]


def _picture(chart: charts.Chart) -> Markup:
    # A drawing of our own, of numbers: nothing that was said in the log is in it.
    return Markup(charts.to_svg(chart))  # noqa: S704
