"""Similarities as a study has stored them, ready to be judged by other detectors without encoding.

Near the thresholds of the declared detector they are exact; near those of others they are as exact
as the encoder's fast vectors.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from chimeralab.analysis.selfplay.specifications import (
    MeasuredTwice,
    every_detector,
    measure_for_all,
)
from chimeralab.core.records import Detection, Trajectory, TurnTrace
from chimeralab.detection.detectors import Locked
from chimeralab.detection.measure import Measured, is_blank, judged
from chimeralab.embedding.encoder import default_encoder

NOTHING = float("nan")


def stored_series(
    detections: Iterable[Detection], trajectories: Iterable[Trajectory], declared: Locked
) -> Iterator[MeasuredTwice]:
    """Conversations with their stored similarities, where all of their turns were judged.

    One with blank turns is measured again, with and without them, since detectors differ in what
    they do about these.
    """
    traces = {detection.id: detection.trace for detection in detections}
    for trajectory in trajectories:
        trace = traces.get(trajectory.id)
        if trace is None:
            continue
        if any(is_blank(turn.text) for turn in trajectory.turns):
            again = [trajectory]
            yield from measure_for_all(
                again, list(every_detector(declared)), default_encoder(), "all"
            )
        else:
            stored = _measured(trajectory, trace)
            yield MeasuredTwice(stored, stored)


def _measured(trajectory: Trajectory, trace: tuple[TurnTrace, ...]) -> Measured:
    rows = [[NOTHING if lag is None else lag for lag in turn.lags] for turn in trace]
    none = np.zeros(len(trace), dtype=bool)
    series = judged(trajectory, "all")
    return Measured(trajectory, series, np.array(rows, dtype=np.float64), none, none, 0)
