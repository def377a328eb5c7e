"""Where `chimera analyse` and `chimera compare` get their runs: a table, or a study's store."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from chimeralab.cli.terminal import say, say_unchecked, with_progress
from chimeralab.core.records import Trajectory
from chimeralab.selfplay.outcomes import EXPLORATORY, Outcomes, parse_contrast
from chimeralab.selfplay.runs import Runs, read_runs, study_runs

if TYPE_CHECKING:
    from chimeralab.study import Study


class Source(NamedTuple):
    """Runs, what was declared about them, and the study that they come from, if any."""

    runs: Runs
    outcomes: Outcomes
    study: "Study | None" = None


def open_study(path: Path) -> "Study | None":
    """The study in a folder; a file is a table of runs."""
    if not path.is_dir():
        return None
    # Imported here: a table, the common case, needs no study and should start at once.
    from chimeralab.study import Study  # noqa: PLC0415

    return Study(path)


def take_runs(path: Path, study: "Study | None") -> Source:
    """Read a table of runs, or judge what a study has not judged yet and take all of it."""
    if study is None:
        return Source(read_runs(path), EXPLORATORY)
    from chimeralab import pipeline  # noqa: PLC0415
    from chimeralab.detection.verdict import from_json  # noqa: PLC0415
    from chimeralab.study.detecting import stored_detections  # noqa: PLC0415

    pipeline.detect(study)
    if study.lock is None:
        say("this study was not locked: nothing in it was declared before the runs")
    say_unchecked(study)
    detections = [from_json(row) for row in stored_detections(study)]
    runs = study_runs(study, detections, str(study.path))
    return Source(runs, study.plan.extras.get("outcomes", Outcomes()), study)


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
