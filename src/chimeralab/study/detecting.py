"""Judging a study: every finished conversation gets the verdict of the plan's detector, once."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import counted
from chimeralab.core.parts import StandIn
from chimeralab.core.records import Detection
from chimeralab.detection.judging import Judge
from chimeralab.detection.loops import loops_beside
from chimeralab.embedding.encoder import Encoder, model_hash, study_encoder
from chimeralab.study.database import open_to_write, transaction
from chimeralab.study.folder import Study
from chimeralab.study.lock import digest
from chimeralab.study.store import now


def detect_study(
    study: Study,
    publish: Callable[[Detection], None] = lambda detection: None,
    encoder: Encoder | None = None,
) -> int:
    """Judge the finished conversations that have no verdict yet; says how many there were."""
    study.checked_lock()
    detector = study.plan.detector.settings
    detector_id = detector_key(study)
    with study.archive() as archive:
        query = "SELECT trajectory FROM detections WHERE detector = ?"
        judged = {row["trajectory"] for row in archive.rows(query, detector_id)}
        missing = [
            trajectory
            for trajectory in archive.trajectories()
            if trajectory.metadata["outcome"] is not None and trajectory.id not in judged
        ]
    if not missing:
        return 0
    if isinstance(detector, StandIn):
        raise InputError(
            f"{counted(len(missing), 'conversation')} of {study.path} have no verdict yet, and the "
            f"detector is code of {detector.code}, which this command does not run; "
            f"judge them first with `chimera detect {study.path}`"
        )
    open_encoder = (lambda: encoder) if encoder else study_encoder
    judge = Judge(detector, loops_beside(detector), open_encoder, speaker="all", trace=True)
    with closing(open_to_write(study.store_path)) as db:
        for _, detection in judge.judge(missing):
            row = (detection.id, detector_id, json.dumps(detection.as_dict()), now())
            with transaction(db, study.store_path):
                db.execute("INSERT OR IGNORE INTO detections VALUES (?, ?, ?, ?)", row)
            publish(detection)
    return len(missing)


def stored_detections(study: Study) -> Iterator[dict[str, Any]]:
    """The verdicts of the plan's detector as plain values, in the order of the plan."""
    query = (
        "SELECT detection FROM detections JOIN trajectories ON id = trajectory"
        " WHERE detector = ? ORDER BY position"
    )
    with study.archive() as archive:
        for row in archive.rows(query, detector_key(study)):
            yield json.loads(row["detection"])


def detector_key(study: Study) -> str:
    """What a verdict depends on besides the texts: the detector, its settings, the weights."""
    return digest({"detector": study.plan.detector.as_dict(), "encoder": model_hash()})
