"""Who takes part: our detectors, the rules of other projects, and two baselines."""

import importlib
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from benchmarks.stuck.rules import RULES
from benchmarks.stuck.rules.seam import Rule
from chimeralab import Trajectory
from chimeralab.core.errors import InputError
from chimeralab.detection.judging import Judge
from chimeralab.detection.locked import LOCKED
from chimeralab.detection.loops import Loops
from chimeralab.detection.seam import Detector, Observation, Signal, Stream, check_detector
from chimeralab.version import __version__


class Alarm(NamedTuple):
    """That a detector says it loops: at which message, since when (if it says), up to which."""

    noticed: int
    began: int | None
    ended: int


@dataclass(frozen=True, slots=True)
class Length(Rule):
    """The log has that many messages: the number that tells stuck from healthy logs best in the
    development half."""

    title = "length alone"
    source = "a baseline"
    release = ""

    messages: int = 60

    def start(self) -> Stream:
        return CountStream(lambda n: n >= self.messages)


@dataclass(frozen=True, slots=True)
class Chance(Rule):
    """Each message is an alarm with this probability."""

    title = "random"
    source = "a baseline"
    release = ""

    rate: float = 0.01
    seed: int = 1

    def start(self) -> Stream:
        rng = random.Random(self.seed)
        return CountStream(lambda _: rng.random() < self.rate)


class CountStream:
    """Judges by the number of a message alone."""

    def __init__(self, test: Any) -> None:
        self._turn, self._test = 0, test

    def update(self, observation: Observation) -> Signal:
        self._turn += 1
        return Signal(self._turn, collapsed=self._test(self._turn))


OURS: Mapping[str, Detector] = {
    "loops-2": Loops(),
    "loops-2, words": Loops(),
    "loops-1": Loops(version=1),
    "locked": LOCKED,
}
BASELINES: Mapping[str, Detector] = {"length alone": Length(), "random": Chance()}
EVERYBODY: Mapping[str, Detector] = OURS | RULES | BASELINES
NEEDS_VECTORS = frozenset({"loops-2", "locked"})


def describe(title: str, detector: Detector) -> dict[str, Any]:
    """What a row of results says of a contestant."""
    ours = title in OURS
    return {
        "contestant": title,
        "version": __version__ if ours else getattr(detector, "release", ""),
        "settings": detector.as_dict(),
        "source": "docs/loops.md, docs/detector.md" if ours else getattr(detector, "source", ""),
    }


def load_class(place: str) -> Detector:
    """A contestant from outside, such as `mypackage.mymodule:MyDetector`, with its defaults."""
    module, _, name = place.partition(":")
    try:
        detector = getattr(importlib.import_module(module), name)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise InputError(f"--add {place}: {error}; expected module:Class") from None
    check_detector(detector, place)
    return detector


def judge(talks: Sequence[Trajectory], titles: Iterable[str], added: Mapping[str, Detector]) -> Any:
    """The alarms of each contestant in each talk: by title, a list over talks."""
    titles = list(titles)
    found = {}
    for title in titles:
        detector = added.get(title) or EVERYBODY[title]
        if title not in OURS:
            found[title] = [list(watch(detector, talk)) for talk in talks]
        elif title not in NEEDS_VECTORS:
            by_words = Judge(None, detector).judge(talks)  # type: ignore[arg-type]
            found[title] = [list(verdicts(each.loops)) for _, each in by_words]
    if wanted := NEEDS_VECTORS.intersection(titles):
        judged = list(Judge(LOCKED, Loops()).judge(talks))
        ours = {
            "loops-2": [list(verdicts(each.loops)) for _, each in judged],
            "locked": [
                [
                    Alarm(each.positions[span.start - 1], None, each.positions[span.end - 1])
                    for span in each.episodes
                ]
                for _, each in judged
            ],
        }
        found |= {title: ours[title] for title in wanted}
    return found


def verdicts(loops: Iterable[Any]) -> Iterator[Alarm]:
    """The alarms of the loop detector; a notice is not one."""
    for loop in loops:
        if loop.level == "verdict":
            yield Alarm(loop.noticed, loop.began, loop.ended or 1_000_000_000)


def watch(detector: Detector, talk: Trajectory) -> Iterator[Alarm]:
    """The alarms of a detector that is shown all messages one by one: runs of collapsed turns."""
    stream, alarm = detector.start(), None
    for position, turn in enumerate(talk.turns, start=1):
        signal = stream.update(Observation(turn))
        if signal.collapsed and alarm is None:
            alarm = Alarm(position, signal.repeats, position)
        elif signal.collapsed:
            alarm = alarm._replace(ended=position)
        elif alarm is not None:
            yield alarm
            alarm = None
    if alarm is not None:
        yield alarm
