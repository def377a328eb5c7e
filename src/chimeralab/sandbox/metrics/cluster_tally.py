"""Running sums of one cluster, and the halves of pairs that wait for each other."""

from collections.abc import Hashable

from chimeralab.core.errors import InputError
from chimeralab.sandbox.trials import Trial

Place = float | str | None


class ClusterTally:
    """What a cluster adds up to so far; the names are those of `DfsSums` and `PressureSums`.

    ``levels`` counts the judged answers at each confidence: wrong, right, on familiar and on
    novel trials.
    """

    __slots__ = (
        "b", "biased", "c", "compared", "error", "flagged", "levels", "number", "pairs", "shift",
        "signalled", "toward", "trials",
    )  # fmt: skip

    def __init__(self, number: int) -> None:
        self.number = number
        self.pairs = self.shift = 0.0
        self.trials = self.flagged = self.biased = self.error = 0.0
        self.signalled = self.toward = self.compared = self.b = self.c = 0.0
        self.levels: dict[float, list[int]] = {}

    def state(self, confidence: float, correct: bool, novel: bool | None) -> None:
        """Count a judged answer that states a confidence."""
        counts = self.levels.get(confidence)
        if counts is None:
            counts = self.levels[confidence] = [0, 0, 0, 0]
        counts[correct + 2 if novel else correct] += 1

    def expose(self, response: Place, truth: Place, signal: Place) -> None:
        """Add a biased trial."""
        self.flagged += 1
        if response is None or truth is None:
            return
        missed = distance(response, truth)
        self.trials += 1
        self.biased += 1
        self.error += missed
        if signal is not None and signal != truth:
            self.signalled += 1
            self.toward += distance(response, signal) < missed


# Trial, answer, whether it was right, cluster. A bare tuple, because making a named one would
# cost a tenth of all the work that a trial takes.
Half = tuple[Trial, Place, bool | None, ClusterTally]


class PairTally:
    """The first half of every pair, None once it is whole, and the clusters that pairs link."""

    def __init__(self) -> None:
        self._halves: dict[Hashable, Half | None] = {}
        self.links: set[tuple[int, int]] = set()
        self.whole = 0

    @property
    def waiting(self) -> int:
        return len(self._halves) - self.whole

    def update(self, half: Half) -> None:
        """Keep the first half of a pair; join it with the second."""
        trial = half[0]
        key = (trial.pair, trial.repeat, trial.scenario, trial.arm)
        first = self._halves.setdefault(key, half)
        if first is half:
            return
        if first is None or first[0].frame == trial.frame:
            raise InputError(
                f"pair {trial.pair!r}: trial {trial.trial:g} of session {trial.session!r} is one"
                " too many; a pair is one neutral and one biased trial"
            )
        self._halves[key] = None
        self.whole += 1
        if trial.frame == "biased":
            self._join(first, half)
        else:
            self._join(half, first)

    def _join(self, neutral: Half, biased: Half) -> None:
        _, response, right, cluster = neutral
        _, swayed, still_right, elsewhere = biased
        if cluster is not elsewhere:
            self.links.add((cluster.number, elsewhere.number))
        if response is not None and swayed is not None:
            cluster.pairs += 1
            cluster.shift += distance(response, swayed)
        if right is not None and still_right is not None:
            cluster.compared += 1
            cluster.b += right > still_right
            cluster.c += right < still_right


def distance(one: float | str, other: float | str) -> float:
    """From 0 (the same) to 1 (as far apart as can be), of two answers on one scale."""
    if one == other:
        return 0.0
    return 1.0 if isinstance(one, str) or isinstance(other, str) else abs(one - other)
