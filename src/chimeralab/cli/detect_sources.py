"""Where `chimera detect` gets its verdicts: from logs judged now, or from a study's store."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from chimeralab.cli.detect_table import group_name, nearest
from chimeralab.cli.options import Logs
from chimeralab.cli.terminal import with_progress
from chimeralab.core.errors import InputError
from chimeralab.core.records import Detection
from chimeralab.detection import Measurer, measurer_for, verdict
from chimeralab.detection.detectors import Detector, Locked, in_brief
from chimeralab.detection.verdict import from_json
from chimeralab.embedding.encoder import Encoder


class Judged(NamedTuple):
    """A verdict as the table shows it."""

    detection: Detection
    nearest: list[float]
    group: str | None


class Judging(NamedTuple):
    """Verdicts as they come, and a line on how they were reached, to be asked for afterwards."""

    verdicts: Iterator[Judged]
    how: Callable[[], str]


def judge_logs(detector: Locked, options: dict[str, Any]) -> Judging:
    """Read logs and judge every conversation."""
    logs = Logs(options["paths"], options["format"], skip_bad=options["skip_bad"])
    open_encoder = partial(Encoder, cache_file=options["cache"])
    measurer = measurer_for(detector, open_encoder, speaker=options["speaker"])
    field = options["group_by"]

    def verdicts() -> Iterator[Judged]:
        for measured in with_progress(measurer.measure(logs.read()), "conversations"):
            detection = verdict(measured, detector, measurer.encoder, trace=options["trace"])
            group = group_name(measured, field) if field else None
            yield Judged(detection, nearest(measured), group)

    return Judging(verdicts(), lambda: _how(measurer, detector))


def judge_study(detector: Locked, options: dict[str, Any]) -> Judging:
    """Judge what a study has not judged yet, and take all of its verdicts."""
    # Imported here: judging a log, the common case, needs no study and should start at once.
    from chimeralab import pipeline  # noqa: PLC0415
    from chimeralab.study import Study  # noqa: PLC0415
    from chimeralab.study.detecting import stored_detections  # noqa: PLC0415

    changed = [*detector.changed, *(name for name in ("format", "speaker") if options[name])]
    if changed:
        raise InputError(
            f"a study is judged as its plan says: leave out --{changed[0]}, or try other settings"
            " with `chimera sweep` on what `chimera export` writes"
        )
    study = Study(options["paths"][0])
    judged = pipeline.detect(study)

    def verdicts() -> Iterator[Judged]:
        for row in stored_detections(study):
            yield _stored(from_json(row), options)

    settings = study.plan.detector.settings
    return Judging(
        verdicts(), lambda: f"{in_brief(settings)}; {judged} newly judged, the rest stored"
    )


def _stored(detection: Detection, options: dict[str, Any]) -> Judged:
    field = options["group_by"]
    trace = detection.trace or ()
    near = [max((s for s in (t.s1, t.s2) if s is not None), default=float("nan")) for t in trace]
    group = str(detection.metadata.get(field, f"(no {field})")) if field else None
    return Judged(detection if options["trace"] else replace(detection, trace=None), near, group)


def _how(measurer: Measurer, detector: Detector) -> str:
    """How the verdicts were reached, in a line."""
    encoder, band = measurer.encoder, measurer.band
    vectors = f"vectors in {encoder.precision}" if encoder else "no vectors"
    checked = (
        f"; {band.recomputed} similarities near a threshold recomputed exactly"
        f" (largest correction {band.largest_error:.1g})"
        if band and band.recomputed
        else ""
    )
    remark = f"; {detector.remark}" if detector.remark else ""
    return f"{in_brief(detector)}; {vectors}{checked}{remark}"
