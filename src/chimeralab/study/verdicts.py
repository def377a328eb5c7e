"""The verdicts of a study: computed once for every finished conversation, recomputed to verify."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chimeralab import weights
from chimeralab.core.errors import InputError
from chimeralab.core.numbers import plural
from chimeralab.core.parts import StandIn, format_value
from chimeralab.core.records import Detection, Record
from chimeralab.detection.judging import Judge
from chimeralab.detection.loops import resolve_loops
from chimeralab.embedding.encoder import MARGINS, Encoder, model_hash, study_encoder
from chimeralab.study.database import decode, name_cell, open_to_write, transaction
from chimeralab.study.folder import Study
from chimeralab.study.lock import digest
from chimeralab.study.steps import record_step
from chimeralab.study.store import Archive, now


def detect_study(
    study: Study,
    publish: Callable[[Detection], None] = lambda detection: None,
    encoder: Encoder | None = None,
    *,
    keep: bool = True,
) -> int:
    """Judge the finished conversations without a verdict, and return their number.

    Unless told to `keep` the verdicts, only publish them.
    """
    study.check_lock()
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
            f"{plural(len(missing), 'conversation')} of {study.path} have no verdict yet, and the "
            f"detector is code of {detector.code}, which this command does not run; "
            f"judge them first with `chimera detect {study.path}`"
        )
    open_encoder = (lambda: encoder) if encoder else study_encoder
    judge = Judge(detector, resolve_loops(detector), open_encoder, speaker="all", trace=True)
    with ExitStack() as opened:
        db = opened.enter_context(closing(open_to_write(study.store_path))) if keep else None
        if keep:
            opened.enter_context(record_step(study, "detect"))
        for _, detection in judge.judge(missing):
            if db is not None:
                row = (detection.id, detector_id, json.dumps(detection.as_dict()), now())
                with transaction(db, study.store_path):
                    db.execute("INSERT OR IGNORE INTO detections VALUES (?, ?, ?, ?)", row)
            publish(detection)
    return len(missing)


def load_detections(study: Study, *, only: str | None = None) -> Iterator[Detection]:
    """Load the verdicts of the plan's detector, in the order of the plan, or `only` one."""
    query = (
        "SELECT d.*, (SELECT count(*) FROM turns t WHERE t.trajectory = d.trajectory) AS turns "
        "FROM detections d JOIN trajectories ON id = trajectory "
        "WHERE detector = ? AND id = coalesce(?, id) ORDER BY position"
    )
    with study.archive() as archive:
        for row in archive.rows(query, detector_key(study), only):
            found: Detection = decode(Detection, "detections", row, "detection")
            with name_cell("detections", row, "detection"):
                if found.id != row["trajectory"] or max(found.positions, default=0) > row["turns"]:
                    raise ValueError("a verdict on other turns")
            yield found


def detector_key(study: Study) -> str:
    """A hash of what verdicts depend on besides the texts: detector, settings and weights."""
    return digest({"detector": study.plan.detector.as_dict(), "encoder": model_hash()})


# The vectors of two machines may each differ by a margin.
TOLERANCE = 2 * max(MARGINS.values())
FIRM = (
    "judged", "turns", "at_risk_turns", "collapsed_turns", "collapse_rate", "at_risk_rate",
    "first_collapse_turn", "collapsed", "positions", "episodes", "reason", "detector", "metadata",
)  # fmt: skip
LOOPS = ("steps", "looping", "loops", "loop_score")
SIMILARITIES = ("evidence", "trace")
FIELDS_NAMED = 3


class Finding(NamedTuple):
    """Something that contradicts the lock or the records."""

    place: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Deviation(Record):
    """Something consistent that a reader has to know about."""

    kind: str
    place: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.place}: {self.sentence}"


@dataclass(slots=True)
class CheckResult:
    """What checks found, and what they could or could not check.

    `corrected` has the recomputed verdicts where others are stored.
    """

    findings: tuple[Finding, ...] = ()
    checked: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    corrected: Mapping[str, Detection] = field(default_factory=dict)
    deviations: tuple[Deviation, ...] = ()

    def add(self, other: "CheckResult") -> None:
        self.findings += other.findings
        self.checked += other.checked
        self.unchecked += other.unchecked
        self.notes += other.notes
        self.corrected = {**self.corrected, **other.corrected}
        self.deviations += other.deviations


def recompute_verdicts(study: Study, archive: Archive, *, quick: bool = False) -> CheckResult:
    """Recompute every verdict from the stored texts."""
    query = "SELECT trajectory, detection FROM detections WHERE detector = ?"
    rows = archive.rows(query, detector_key(study))
    stored = {row["trajectory"]: row["detection"] for row in rows}
    if not stored:
        return CheckResult()
    count = f"{len(stored):,} stored verdicts"
    if isinstance(detector := study.plan.detector.settings, StandIn):
        return CheckResult(unchecked=(f"not recomputed: {count} of {detector.code}",))
    encoder = None
    if study.plan.detector.settings.needs.lags:
        if quick:
            return CheckResult(unchecked=(f"{count} were not recomputed (--quick)",))
        try:
            if "missing" in weights.file_states(weights.ENCODER).values():
                pull = f"`chimera models pull {weights.ENCODER}` fetches it"
                why = f"the encoder is not on this machine; {pull}"
                return CheckResult(unchecked=(f"{count} were not recomputed: {why}",))
            encoder = study_encoder()
        except InputError as error:
            finding = Finding("encoder", str(error))
            return CheckResult((finding,), (), (f"{count} could not be recomputed",))
    return _judge_again(study, archive, stored, encoder)


def _judge_again(
    study: Study, archive: Archive, stored: Mapping[str, str], encoder: Encoder | None
) -> CheckResult:
    detector = study.plan.detector.settings
    open_encoder = (lambda: encoder) if encoder else study_encoder
    judge = Judge(detector, resolve_loops(detector), open_encoder, speaker="all", trace=True)
    talks = [talk for talk in archive.trajectories() if talk.id in stored]
    findings, corrected, other_loops = [], {}, Counter[str]()
    for name in stored.keys() - {talk.id for talk in talks}:
        findings.append(Finding(name, "it has a verdict but no turns"))
    for talk, again in judge.judge(talks):
        name = talk.id
        try:
            verdict = json.loads(stored[name])
            differing = list(_differences(verdict, json.loads(json.dumps(again.as_dict()))))
            loop_detector = verdict.get("loop_detector")
            if loop_detector != again.loop_detector:
                point = (loop_detector or {}).get("operating_point")
                other_loops[str(point or "a version without a loop detector")] += 1
        except (ValueError, AttributeError):
            differing = ["it can't be read"]
        if talk.metadata["outcome"] is None:
            findings.append(Finding(name, "it has a verdict but has not ended"))
        if differing:
            corrected[name] = again
            said = "; ".join(differing[:FIELDS_NAMED])
            problem = f"its stored verdict is not what its texts give (stored → recomputed): {said}"
            findings.append(Finding(name, problem))
    return CheckResult(
        findings=tuple(findings),
        checked=(f"{len(talks):,} verdicts recomputed from their texts",),
        unchecked=tuple(
            f"not recomputed: the loops of {n:,} verdicts, judged by {name}"
            for name, n in other_loops.items()
        ),
        notes=(
            f"{encoder.forged_count:,} cached vectors had not been made by this machine and were "
            "recomputed",
        )
        if encoder is not None and encoder.forged_count
        else (),
        corrected=corrected,
    )


def _differences(stored: Mapping[str, Any], again: Mapping[str, Any]) -> Iterator[str]:
    """The fields in which two verdicts differ, beyond the encoder's margin for similarities."""
    same_loops = stored.get("loop_detector") == again["loop_detector"]
    loops = stored.get("loops")
    for old, new in zip(loops if isinstance(loops, list) else (), again["loops"], strict=False):
        for name in ("echoes", "frame", "fillings"):
            if isinstance(old, dict) and name not in old:  # as older versions stored it
                del new[name]
    for name in (*FIRM, *(LOOPS if same_loops else ())):
        if not nearly_equal(stored.get(name), again[name], 1e-9):
            yield f"{name} {format_value(stored.get(name))} → {format_value(again[name])}"
    for name in SIMILARITIES:
        if not nearly_equal(stored.get(name), again[name], TOLERANCE):
            yield f"its {name}"


def nearly_equal(a: Any, b: Any, tolerance: float) -> bool:
    """Whether two plain values are equal, with numbers within a tolerance."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(nearly_equal(a[key], b[key], tolerance) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(nearly_equal, a, b, [tolerance] * len(a)))
    if isinstance(a, float) and isinstance(b, float | int):
        return abs(a - b) <= tolerance
    return type(a) is type(b) and bool(a == b)
