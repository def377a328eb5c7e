"""The detector of a study held against its raters."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from chimeralab.core.records import Detection, Record
from chimeralab.detection.verdict import from_json
from chimeralab.rating.label_table import LabelTable
from chimeralab.rating.ratings import Rating
from chimeralab.rating.validity import Validity, validity
from chimeralab.study.detecting import stored_detections
from chimeralab.study.folder import Study
from chimeralab.study.ratings import Candidate


@dataclass(frozen=True, slots=True)
class ValidityAgainst(Record):
    """How the detector does by the word of one rater; without a result, `reason` says why."""

    rater: str
    result: Validity | None
    classes: Mapping[str, int]
    reason: str | None = None


def validate(
    study: Study,
    table: LabelTable,
    ratings: Mapping[str, Mapping[str, Rating]],
    known: Mapping[str, Candidate],
) -> tuple[ValidityAgainst, ...]:
    """Compare the stored verdicts with each rater's labels on the same conversations."""
    detections = [from_json(row) for row in stored_detections(study)]
    judged = {each.id for each in detections}
    if any(item not in judged for item in table.items):
        why = "some conversations have no verdict yet: run `chimera detect`"
        return tuple(ValidityAgainst(name, None, {}, why) for name in ratings)
    return tuple(_against(name, given, table, detections, known) for name, given in ratings.items())


def _against(
    name: str,
    given: Mapping[str, Rating],
    table: LabelTable,
    detections: list[Detection],
    known: Mapping[str, Candidate],
) -> ValidityAgainst:
    if all(rating.label is None for rating in given.values()):
        return ValidityAgainst(name, None, {}, "the rater gave no label")
    if len(given) < len(table.items):
        return ValidityAgainst(name, None, {}, "the rater has not rated every item")
    result = validity(
        detections,
        [given[item] for item in table.items],
        {item: found.item for item, found in known.items()},
        rng=np.random.default_rng(0),
        design=table.design,
    )
    return ValidityAgainst(name, result, result.classes)
