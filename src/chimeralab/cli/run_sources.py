"""Where `chimera analyse` and `chimera compare` get their runs: a table, or a study's store."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from chimeralab.cli.terminal import say, say_unchecked, with_progress
from chimeralab.core.records import Trajectory
from chimeralab.selfplay.outcomes import EXPLORATORY, Outcomes, parse_contrast
from chimeralab.selfplay.runs import Runs, RunsLeftOut, read_runs, runs_of

if TYPE_CHECKING:
    from chimeralab.study import Study


class Source(NamedTuple):
    """Runs, what was declared about them, and the study that they come from, if any."""

    runs: Runs
    outcomes: Outcomes
    study: "Study | None" = None


def is_trial(path: Path) -> bool:
    """Whether a path is the folder of a trial."""
    if not path.is_dir():
        return False
    from chimeralab.study import Study  # noqa: PLC0415

    return Study(path).plan.trial is not None


def take_runs(path: Path) -> Source:
    """Read a table of runs, or judge what a study has not judged yet and take all of it."""
    if not path.is_dir():
        return Source(read_runs(path), EXPLORATORY)
    # Imported here: a table, the common case, needs no study and should start at once.
    from chimeralab import pipeline  # noqa: PLC0415
    from chimeralab.study import Study  # noqa: PLC0415

    study = Study(path)
    pipeline.detect(study)
    if study.lock is None:
        say("this study was not locked: nothing in it was declared before the runs")
    say_unchecked(study)
    return Source(study_runs(study), study.plan.extras.get("outcomes", Outcomes()), study)


def study_runs(study: "Study") -> Runs:
    """The table of a study's runs; conversations without a verdict are counted with the reason."""
    from chimeralab.detection.verdict import from_json  # noqa: PLC0415
    from chimeralab.study.detecting import stored_detections  # noqa: PLC0415

    detections = [from_json(row) for row in stored_detections(study)]
    known = {detection.id for detection in detections}
    with study.archive() as archive:
        gone = Counter(
            (
                talk["condition"],
                "not finished"
                if talk["outcome"] is None
                else f"ended without a turn ({talk['outcome']})",
            )
            for talk in archive.talks()
            if talk["id"] not in known
        )
    left_out = [RunsLeftOut(*key, count) for key, count in sorted(gone.items())]
    return runs_of(detections, str(study.path), left_out)


def finished(study: "Study") -> Iterator[Trajectory]:
    """The conversations that came to an end, with a bar when it takes long."""
    ended = (talk for talk in study.trajectories() if talk.metadata["outcome"] is not None)
    yield from with_progress(ended, "conversations")


def asked_for(declared: Outcomes, options: dict[str, Any]) -> Outcomes:
    """The declared outcomes with what the command line changes, which it then says."""
    numbers = ("tau", "level", "resamples", "permutations", "seed")
    changes = {name: options[name] for name in numbers if options[name] is not None}
    more = tuple(parse_contrast(text) for text in options.get("contrast", ()))
    if declared.estimands and (changes or more):
        named = (*changes, *(["contrast"] if more else []))
        say(f"not as declared in the plan: {', '.join(named)}")
    return replace(declared, **changes, contrasts=declared.contrasts + more)
