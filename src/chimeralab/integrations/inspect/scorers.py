"""Scorers for Inspect: whether a sample loops, and how much of it has collapsed."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from inspect_ai.model import ChatMessage
from inspect_ai.scorer import Reference, Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from chimeralab.core.errors import InputError
from chimeralab.core.records import Detection, Loop, Trajectory
from chimeralab.detection.judging import detect
from chimeralab.detection.locked import LOCKED
from chimeralab.detection.seam import Detector
from chimeralab.integrations.inspect.samples import open_study
from chimeralab.readers.evaluations import inspect_turns
from chimeralab.readers.seam import Unreadable

# Fields of a detection that become metadata of a score or result.
SHOWN = ("judged", "turns", "collapse_rate", "collapsed", "steps", "loop_score", "loops")


class CitedFinding(NamedTuple):
    """A detector's finding; `found` is None if there is no verdict.

    The explanation cites messages as `[M3]`, and `references` link them.
    """

    found: bool | None
    explanation: str
    references: list[Reference]
    detection: Detection

    def as_metadata(self) -> dict[str, Any]:
        """Return the detection's main fields as JSON values."""
        found = self.detection.as_dict()
        return {name: found[name] for name in SHOWN if found[name] not in (None, [])}


def trajectory_of(messages: Iterable[ChatMessage], name: str) -> Trajectory:
    """Convert messages as the log reader does."""
    try:
        return Trajectory(
            name, inspect_turns(each.model_dump(exclude_none=True) for each in messages)
        )
    except Unreadable as error:
        raise InputError(f"{name} can't be judged: {error}") from None


def find_loops(messages: Sequence[ChatMessage], name: str) -> CitedFinding:
    """Find loops by words and tool calls; a notice is explained, but only a verdict counts."""
    detection = detect(trajectory_of(messages, name), detector=None)
    verdicts = [loop for loop in detection.loops if loop.level == "verdict"]
    shown = verdicts or detection.loops
    sentences = [_describe_loop(loop) for loop in shown]
    places = [place for loop in shown for place in (loop.began, *loop.repeats, loop.noticed)]
    return CitedFinding(
        detection.looping,
        " ".join(sentences) or f"No loop in {detection.steps} steps.",
        _references(places, messages),
        detection,
    )


def find_collapse(
    messages: Sequence[ChatMessage], name: str, detector: Detector = LOCKED
) -> CitedFinding:
    """Find collapsed turns with a detector."""
    detection = detect(trajectory_of(messages, name), detector=detector, loops=None)
    if detection.collapsed_turns is None:
        return CitedFinding(None, f"{detection.reason}.", [], detection)
    at, repeated = detection.positions, {each.turn: each.repeats for each in detection.evidence}
    shown, places = [], []
    for episode in detection.episodes:
        first, last = at[episode.start - 1], at[episode.end - 1]
        words = f"[M{first}]" if first == last else f"[M{first}] to [M{last}]"
        places += [first, last]
        if episode.start in repeated:
            earlier = at[repeated[episode.start] - 1]
            words += f", where [M{first}] repeats [M{earlier}]"
            places.append(earlier)
        shown.append(words)
    share = f"{detection.collapsed_turns} of {detection.turns} turns are collapsed"
    return CitedFinding(
        bool(detection.collapsed),
        f"{share}: {'; '.join(shown)}." if shown else f"{share}.",
        _references(places, messages),
        detection,
    )


def _describe_loop(loop: Loop) -> str:
    verdict = "Loop" if loop.level == "verdict" else "Perhaps a loop"
    end = f"to [M{loop.ended}]" if loop.ended else "to the end"
    repeated = ", ".join(f"[M{place}]" for place in loop.repeats)
    noticed = f"noticed at [M{loop.noticed}]" + (f", which repeats {repeated}" if repeated else "")
    what = loop.excerpt.rstrip(".")
    return f"{verdict} ({loop.kind}) from [M{loop.began}] {end}, {noticed}: “{what}”."


def _references(places: Iterable[int], messages: Sequence[ChatMessage]) -> list[Reference]:
    """Link each `[M3]` to its message; messages of old logs have no id to link to."""
    found = ((place, messages[place - 1].id) for place in sorted(set(places)))
    return [Reference(type="message", cite=f"[M{place}]", id=name) for place, name in found if name]


@scorer(metrics=[mean(), stderr()])
def looping() -> Scorer:
    """Score 1 for a looping sample, by words and tool calls; the mean is the looping share."""

    async def score(state: TaskState, target: Target) -> Score:
        finding = find_loops(state.messages, str(state.sample_id))
        return _score(float(bool(finding.found)), finding)

    return score


@scorer(metrics=[mean(), stderr()])
def collapse_rate(study: str | None = None, allow_code: bool = False) -> Scorer:
    """Score the share of collapsed turns, by the detector of a study or the locked rule."""
    detector: Detector = LOCKED
    if study is not None:
        detector = open_study(study, allow_code).plan.detector.settings

    async def score(state: TaskState, target: Target) -> Score:
        finding = find_collapse(state.messages, str(state.sample_id), detector)
        return _score(finding.detection.collapse_rate, finding)

    return score


def _score(value: float | None, finding: CitedFinding) -> Score:
    """Make a score; Inspect View links the messages that its explanation cites."""
    metadata = {**finding.as_metadata(), "scanner_references": finding.references}
    if value is None:
        return Score.unscored(explanation=finding.explanation, metadata=metadata)
    return Score(value=value, explanation=finding.explanation, metadata=metadata)
