"""How well alarms fit labels: recall, false alarms, delay and onset. Outcomes in, numbers out."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import mean, median
from typing import Any, NamedTuple

from benchmarks.stuck.contestants import Alarm

RESAMPLES = 2_000


class Outcome(NamedTuple):
    """What the labels and the contestants say of one log; without its text.

    `onsets` and `last` are None where the labels count messages in another way than the reader.
    """

    group: str
    id: str
    source: str
    kind: str
    stuck: bool
    messages: int
    onsets: tuple[int, ...] | None
    last: int | None
    alarms: dict[str, list[Alarm]]

    def hit(self, title: str) -> Alarm | None:
        """The first alarm about the loop; in a healthy log, the first alarm."""
        for alarm in self.alarms[title]:
            if not self.onsets or self.last is None:
                return alarm
            if (alarm.began or alarm.noticed) <= self.last and alarm.ended >= min(self.onsets):
                return alarm
        return None

    def is_early(self, alarm: Alarm) -> bool:
        """Whether an alarm is over before the loop begins."""
        return bool(self.onsets) and alarm.ended < min(self.onsets or (0,))


class Share(NamedTuple):
    """A count, of how many, and a 95 % interval of the share by a bootstrap over sources."""

    hits: int
    total: int
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.hits} of {self.total}"
        return f"{self.hits} of {self.total} ({self.low:.2f}-{self.high:.2f})"

    @property
    def value(self) -> float | None:
        return self.hits / self.total if self.total else None


def share(pairs: Iterable[tuple[str, bool]]) -> Share:
    """How many are true, of pairs of a source and whether it is so.

    >>> share([("a", True), ("a", False)])
    Share(hits=1, total=2, low=None, high=None)
    """
    groups: dict[str, list[bool]] = defaultdict(list)
    for source, hit in pairs:
        groups[source].append(hit)
    hits = [hit for group in groups.values() for hit in group]
    if len(groups) < 2:
        return Share(sum(hits), len(hits), None, None)
    rng, shares = random.Random(1), list[float]()
    listed = [groups[source] for source in sorted(groups)]
    for _ in range(RESAMPLES):
        drawn = rng.choices(listed, k=len(listed))
        shares.append(sum(map(sum, drawn)) / sum(map(len, drawn)))
    shares.sort()
    return Share(sum(hits), len(hits), shares[RESAMPLES // 40], shares[-RESAMPLES // 40])


def measure(title: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """All numbers of a contestant on a set of logs."""
    stuck = [each for each in outcomes if each.stuck]
    healthy = [each for each in outcomes if not each.stuck]
    timed = [each for each in stuck if each.onsets]
    found = [(each, alarm) for each in timed if (alarm := each.hit(title))]
    delays = [max(0, alarm.noticed - min(each.onsets or ())) for each, alarm in found]
    errors = [
        min(abs(alarm.began - onset) for onset in each.onsets or ())
        for each, alarm in found
        if alarm.began is not None
    ]
    return {
        "recall": share((each.source, each.hit(title) is not None) for each in stuck),
        "false": share((each.source, bool(each.alarms[title])) for each in healthy),
        "per_thousand": _per_thousand(title, outcomes),
        "early": sum(any(map(each.is_early, each.alarms[title])) for each in timed),
        "delay": median(delays) if delays else None,
        "waste": mean(_waste(title, each) for each in timed) if timed else None,
        "onset_error": median(errors) if errors else None,
        "by_kind": _by(title, stuck, lambda each: each.kind),
        "by_source": _by(title, outcomes, lambda each: each.source),
    }


def _waste(title: str, outcome: Outcome) -> float:
    """The share of the loop that is over when it is noticed; 1 if it never is."""
    alarm, onset = outcome.hit(title), min(outcome.onsets or ())
    if alarm is None or outcome.last is None:
        return 1.0
    return min(1.0, max(0, alarm.noticed - onset) / max(1, outcome.last - onset + 1))


def _per_thousand(title: str, outcomes: Iterable[Outcome]) -> float | None:
    """False alarms per 1,000 messages of healthy logs and of what comes before loops."""
    alarms = messages = 0
    for each in outcomes:
        if not each.stuck:
            alarms += len(each.alarms[title])
            messages += each.messages
        elif each.onsets:
            alarms += sum(map(each.is_early, each.alarms[title]))
            messages += min(each.onsets) - 1
    return 1000 * alarms / messages if messages else None


def _by(
    title: str, outcomes: Iterable[Outcome], key: Callable[[Outcome], str]
) -> dict[str, dict[str, int]]:
    """By kind or source: how many are stuck and found, healthy and alarmed about."""
    rows: dict[str, dict[str, int]] = {}
    for each in sorted(outcomes, key=key):
        row = rows.setdefault(key(each), dict.fromkeys(("stuck", "found", "healthy", "false"), 0))
        row["stuck" if each.stuck else "healthy"] += 1
        row["found" if each.stuck else "false"] += each.hit(title) is not None
    return rows


def kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Agreement of two readers beyond chance (Cohen 1960); None if both never vary.

    >>> round(kappa([("1", "1"), ("0", "0"), ("0", "1"), ("0", "0")]), 2)
    0.5
    """
    total = len(pairs)
    seen = sum(one == other for one, other in pairs) / total
    values = {value for pair in pairs for value in pair}
    chance = (
        sum(
            sum(one == v for one, _ in pairs) * sum(other == v for _, other in pairs)
            for v in values
        )
        / total**2
    )
    return None if chance == 1 else (seen - chance) / (1 - chance)
