"""Running sums of one session."""

from chimeralab.sandbox.trials import Trial


class SessionTally:
    """What a session adds up to so far; the names are those of `MciSums` and `GfqSums`."""

    __slots__ = (
        "confident_right",
        "judged",
        "last",
        "movement",
        "novel",
        "novel_right",
        "novel_stated",
        "right",
        "scenario",
        "seen",
        "seen_right",
        "stated",
        "weighed",
        "weight",
        "weighted_right",
    )

    def __init__(self, scenario: str | None) -> None:
        self.scenario = scenario
        self.last = 0.0
        self.judged = self.right = self.stated = self.movement = 0.0
        self.weighed = self.weight = self.weighted_right = 0.0
        self.novel = self.novel_right = self.novel_stated = self.confident_right = 0.0
        self.seen = self.seen_right = 0.0

    def update(self, trial: Trial) -> None:
        if trial.scenario != self.scenario:
            self.scenario = None
        correct, confidence = trial.correct, trial.confidence
        if confidence is not None:
            if self.stated:
                self.movement += abs(confidence - self.last)
            self.stated += 1
            self.last = confidence
        if correct is None:
            return
        self.judged += 1
        self.right += correct
        if (weight := trial.weight) is not None:
            self.weighed += 1
            self.weight += weight
            self.weighted_right += weight * correct
        if trial.novel:
            self._generalise(correct, confidence)
        elif trial.novel is not None:
            self.seen += 1
            self.seen_right += correct

    def _generalise(self, correct: bool, confidence: float | None) -> None:
        self.novel += 1
        self.novel_right += correct
        if confidence is not None:
            self.novel_stated += 1
            self.confident_right += confidence * correct
