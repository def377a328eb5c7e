"""All that a study's report is made from, read once."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from chimeralab import pipeline
from chimeralab.analysis import Outcomes
from chimeralab.analysis.selfplay.runs import TOO_SHORT, RunsLeftOut
from chimeralab.core.errors import InputError
from chimeralab.core.records import Detection
from chimeralab.detection.verdict import from_json
from chimeralab.report.claims import Reliability, read_reliability
from chimeralab.report.selfplay.results import Results, outcomes_of, place_of, results_of
from chimeralab.study import Arm, Lock, LockError, Study, flow
from chimeralab.study.detecting import stored_detections
from chimeralab.study.verify import Verification

Tell = Callable[[str], None]


class Material(NamedTuple):
    """A study as a report sees it. Without results, `no_results` says why."""

    study: Study
    lock: Lock | None
    verification: Verification
    arms: tuple[Arm, ...]
    interventions: Counter[str]
    detections: tuple[Detection, ...]
    unjudged: str
    without_verdict: tuple[RunsLeftOut, ...]
    results: Results | None
    no_results: str
    reliability: Reliability | None

    @property
    def outcomes(self) -> Outcomes:
        return outcomes_of(self.study)

    @property
    def left_out(self) -> tuple[RunsLeftOut, ...]:
        """Conversations that no estimate speaks of, and why."""
        return self.results.runs.left_out if self.results else self.without_verdict

    @property
    def analysed(self) -> list[Detection]:
        """The verdicts on the conversations that the results speak of."""
        rows = self.results.runs.rows if self.results else ()
        kept = {(row.condition, row.seed_id, row.repeat_index) for row in rows}
        return [found for found in self.detections if _name(found) in kept]


def _name(detection: Detection) -> tuple[Any, Any, Any]:
    about = detection.metadata
    return about["condition"], about["prompt"], about["repeat"]


def gather(study: Study, tell: Tell = lambda doing: None) -> Material:
    """Judge what has no verdict yet, then read and analyse everything."""
    refuse_unrun(study)
    tell("checking every hash")
    verification = pipeline.verify(study)
    tell("judging what has no verdict yet")
    unjudged = _judge(study)
    detections = tuple(from_json(row) for row in stored_detections(study))
    unread = _unread(study, detections, unjudged)
    tell("analysing")
    results, no_results = results_of(study, detections, unread)
    with study.archive() as archive:
        arms = sorted(flow(archive), key=lambda arm: place_of(study, arm.condition))
        events = archive.rows(_INTERVENTIONS)
        interventions = Counter({row["condition"]: row["n"] for row in events})
    return Material(
        study=study,
        lock=lock_of(study),
        verification=verification,
        arms=tuple(arms),
        interventions=interventions,
        detections=detections,
        unjudged=unjudged,
        without_verdict=(*unread, *_too_short(detections)),
        results=results,
        no_results=no_results,
        reliability=read_reliability(study.path),
    )


_INTERVENTIONS = """
    SELECT t.condition, count(*) AS n FROM events e JOIN trajectories t ON t.id = e.trajectory
    WHERE e.kind = 'intervention' GROUP BY t.condition
"""


def refuse_unrun(study: Study) -> None:
    """There is nothing to report of a study without a store."""
    if not study.store_path.exists():
        raise InputError(
            f"{study.path} has not been run yet, so there is nothing to report; "
            f"start with `chimera run {study.path}`"
        )


def _judge(study: Study) -> str:
    """Judge what is missing. A plan that is no longer the locked one judges nothing more."""
    try:
        pipeline.detect(study)
    except LockError as error:
        return str(error).splitlines()[0].partition(" (locked")[0] if _waiting(study) else ""
    return ""


def _waiting(study: Study) -> bool:
    """Whether any finished conversation has no verdict."""
    judged = {row["id"] for row in stored_detections(study)}
    with study.archive() as archive:
        return any(talk["turns"] and talk["id"] not in judged for talk in archive.talks())


def lock_of(study: Study) -> Lock | None:
    """The lock of a study, where there is one that can be read."""
    try:
        return study.lock
    except LockError:
        return None  # the verification says what is wrong with it


def _unread(study: Study, detections: Sequence[Detection], unjudged: str) -> list[RunsLeftOut]:
    """Conversations that nobody has judged, by condition and reason."""
    judged = {detection.id for detection in detections}
    with study.archive() as archive:
        reasons = Counter(
            (talk["condition"], _why(talk, unjudged))
            for talk in archive.talks()
            if talk["id"] not in judged
        )
    return [RunsLeftOut(*key, count) for key, count in sorted(reasons.items())]


def _why(talk: dict[str, Any], unjudged: str) -> str:
    if talk["outcome"] is None:
        return "not finished"
    if not talk["turns"]:
        return f"ended without a turn ({talk['outcome']})"
    return "not judged: the plan is not the locked one" if unjudged else "not judged"


def _too_short(detections: Sequence[Detection]) -> list[RunsLeftOut]:
    short = Counter(
        str(each.metadata["condition"]) for each in detections if each.collapsed_turns is None
    )
    return [RunsLeftOut(name, TOO_SHORT, count) for name, count in sorted(short.items())]
