"""Does a finding hang on the detector? Every setting of it, and the words alone, beside it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from chimeralab.analysis.co_detectors import CoDetector, Pair, co_detectors
from chimeralab.analysis.comparisons import Weights, pairs_of
from chimeralab.analysis.estimands import PAIRS, Outcomes
from chimeralab.analysis.judged_by_all import judge_by_all
from chimeralab.analysis.lexical import Lexical, lexical
from chimeralab.analysis.specifications import Question, SpecificationCurve, specification_curve
from chimeralab.core.records import Record, Trajectory
from chimeralab.detection.detectors import Locked
from chimeralab.embedding.encoder import Encoder


@dataclass(frozen=True, slots=True)
class Robustness(Record):
    """The primary contrasts under every detector, and each conversation in its words alone."""

    curves: tuple[SpecificationCurve, ...]
    co_detectors: tuple[CoDetector, ...]
    lexical: tuple[Lexical, ...]


def robustness(
    trajectories: Iterable[Trajectory],
    questions: Sequence[Question],
    encoder: Encoder,
    speaker: str | None = None,
) -> Robustness:
    """Judge the conversations every way; all questions are of the same declared detector."""
    words: list[Lexical] = []

    def noted() -> Iterator[Trajectory]:
        for trajectory in trajectories:
            words.append(lexical(trajectory, speaker))
            yield trajectory

    declared = questions[0].detector
    found = judge_by_all(noted(), encoder, declared, speaker)
    return Robustness(
        curves=tuple(specification_curve(found, question) for question in questions),
        co_detectors=co_detectors(map(Pair, words, found.rates(declared))),
        lexical=tuple(words),
    )


def primary_questions(
    outcomes: Outcomes, order: Sequence[str], tau: float, detector: Locked
) -> list[Question]:
    """What the first primary estimand asks; every pair on the share when nothing was declared."""
    primary = outcomes.primary
    named = {contrast.name: contrast.by_condition for contrast in outcomes.contrasts}
    contrasts: list[Weights] = pairs_of(order)
    if primary and primary.contrast != PAIRS:
        contrasts = [named[primary.contrast]]
    measure = primary.measure if primary else "share"
    return [Question(each, measure, tau, outcomes.level, detector, primary) for each in contrasts]
