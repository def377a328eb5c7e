"""A guard inside a running conversation: tell it each turn, and it says when the talk loops."""

from collections import deque

from chimeralab.core.errors import InputError
from chimeralab.core.records import Turn
from chimeralab.detection.detectors import LOCKED, Detector, Seen, Signal
from chimeralab.detection.measure import GuardBand, is_blank, lag_similarities
from chimeralab.embedding.encoder import Encoder, default_encoder


class Guard:
    """Watches one conversation live.

    >>> guard = Guard()
    >>> [guard.update("I will try that again.").collapsed for _ in range(5)]
    [False, False, False, False, True]
    """

    def __init__(self, detector: Detector = LOCKED, encoder: Encoder | None = None) -> None:
        needs = detector.needs
        if needs.why_not_live:
            raise InputError(f"{detector.name} can't guard a conversation: {needs.why_not_live}")
        self._lags = needs.lags
        self._skip_blank = needs.skip_blank
        self._stream = detector.start()
        self._texts: deque[str] = deque(maxlen=needs.lags + 1)
        self._last = Signal(0)
        self._encoder: Encoder | None = None
        if needs.lags:
            self._encoder = encoder or default_encoder()
            self._band = GuardBand(self._encoder, needs.cutoffs)

    def update(self, turn: str | Turn) -> Signal:
        """Take the next turn and say at once whether it is collapsed."""
        if isinstance(turn, str):
            turn = Turn(turn)
        blank = is_blank(turn.text)
        if blank and self._skip_blank:
            return self._last._replace(collapsed=False, repeats=None)
        self._last = self._stream.update(Seen(turn, self._similarities(turn.text), blank))
        return self._last

    def _similarities(self, text: str) -> tuple[float, ...]:
        if self._encoder is None:
            return ()
        self._texts.append(text)
        texts = list(self._texts)
        table = lag_similarities(self._encoder.encode(texts).vectors, self._lags)
        self._band.sharpen(texts, table)
        return tuple(table[-1].tolist())
