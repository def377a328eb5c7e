"""A guard inside a running conversation: tell it each turn, and it says when the talk loops."""

from collections import deque

import numpy as np

from chimeralab.core.errors import InputError
from chimeralab.detection.detectors import LOCKED, Lags, Locked, Signal
from chimeralab.detection.measure import is_blank
from chimeralab.detection.similarity import GuardBand, lag_similarities
from chimeralab.embedding.encoder import Encoder, default_encoder


class Guard:
    """Watches one conversation live.

    >>> guard = Guard()
    >>> [guard.update("I will try that again.").collapsed for _ in range(5)]
    [False, False, False, False, True]
    """

    def __init__(self, detector: Locked = LOCKED, encoder: Encoder | None = None) -> None:
        if detector.marking != "causal":
            raise InputError("a guard can't mark turns that have passed; use marking='causal'")
        self._encoder = encoder or default_encoder()
        self._band = GuardBand(self._encoder, detector.cutoffs)
        self._skip_blank = detector.empty == "skip"
        self._stream = detector.start()
        self._texts: deque[str] = deque(maxlen=3)
        self._last = Signal(0, np.nan, np.nan, False, False, 0, collapsed=False)

    def update(self, text: str) -> Signal:
        """Take the next turn and say at once whether it is collapsed."""
        blank = is_blank(text)
        if blank and self._skip_blank:
            return self._last._replace(collapsed=False)
        self._texts.append(text)
        texts = list(self._texts)
        similarities = lag_similarities(self._encoder.encode(texts).vectors, 2)
        self._band.sharpen(texts, similarities)
        s1, s2 = similarities[-1].tolist()
        self._last = self._stream.update(Lags(s1, s2, blank))
        return self._last
