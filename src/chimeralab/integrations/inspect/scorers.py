"""Scorers for Inspect: the share of samples that loop, and how much of each has collapsed."""

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from chimeralab.detection.locked import LOCKED
from chimeralab.detection.seam import Detector
from chimeralab.integrations.inspect.messages import CitedFinding, find_collapse, find_loops
from chimeralab.integrations.inspect.talking import opened_study


@scorer(metrics=[mean(), stderr()])
def looping() -> Scorer:
    """1 where a sample goes round in circles, by words and tool calls; the mean is their share."""

    async def score(state: TaskState, target: Target) -> Score:
        finding = find_loops(state.messages, str(state.sample_id))
        return _score(float(bool(finding.found)), finding)

    return score


@scorer(metrics=[mean(), stderr()])
def collapse_rate(study: str | None = None, allow_code: bool = False) -> Scorer:
    """The share of a sample's judged turns that have collapsed: by the rule of a study's plan.

    Without a study it is the locked rule.
    """
    detector: Detector = LOCKED
    if study is not None:
        detector = opened_study(study, allow_code).plan.detector.settings

    async def score(state: TaskState, target: Target) -> Score:
        finding = find_collapse(state.messages, str(state.sample_id), detector)
        return _score(finding.detection.collapse_rate, finding)

    return score


def _score(value: float | None, finding: CitedFinding) -> Score:
    """Inspect View links messages that the explanation names to the references."""
    metadata = {**finding.as_metadata(), "scanner_references": finding.references}
    if value is None:
        return Score.unscored(explanation=finding.explanation, metadata=metadata)
    return Score(value=value, explanation=finding.explanation, metadata=metadata)
