"""The trials that a study has stored, as they were scored and as the metrics read them."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from chimeralab.analysis.trial.analysis import SessionsLeftOut
from chimeralab.core.errors import InputError
from chimeralab.sandbox.scored import PlacedTrial, Scored, SessionPlace, trials_of
from chimeralab.sandbox.trials import Numbered
from chimeralab.study.folder import Study
from chimeralab.study.trial_plan import TrialPlan

_ROWS = """
    SELECT c.condition, c.prompt, c.repeat, c.outcome, t.* FROM trials t
    JOIN trajectories c ON c.id = t.trajectory ORDER BY c.position, t.trial
"""


def trial_plan(study: Study) -> TrialPlan:
    """What a trial was to do; refuses a study of another kind."""
    plan = study.plan.trial
    if plan is None:
        raise InputError(f'{study.path} is no trial; its plan needs [study] kind = "trial"')
    return plan


def stored_trials(study: Study, *, whole: bool = False) -> Iterator[PlacedTrial]:
    """Every scored trial in the order of the plan; of `whole` sessions only, if asked for."""
    arms = trial_plan(study).arms
    with study.archive() as archive:
        for row in archive.rows(_ROWS):
            if whole and row["outcome"] != "completed":
                continue
            dose = arms[row["condition"]].dose
            where = (row["trajectory"], row["condition"], row["prompt"], row["repeat"], dose)
            yield PlacedTrial(SessionPlace(*where), Scored.from_cells(row))


def left_out(study: Study) -> tuple[SessionsLeftOut, ...]:
    """The sessions that were begun and are not whole, by arm and by what became of them."""
    with study.archive() as archive:
        return tuple(
            SessionsLeftOut(row["condition"], row["became"], row["n"]) for row in archive.rows(_CUT)
        )


_CUT = """
    SELECT condition, coalesce(outcome, 'not finished') AS became, count(*) AS n FROM trajectories c
    WHERE coalesce(outcome, '') != 'completed'
    AND EXISTS (SELECT 1 FROM attempts a WHERE a.trajectory = c.id)
    GROUP BY condition, became ORDER BY min(c.position)
"""


class StudyTrials:
    """The trials of a study in the place of a trial log."""

    def __init__(self, study: Study) -> None:
        self.path: Path = study.path
        self.weights = trial_plan(study).weights
        self.unused: set[str] = set()
        self._study = study

    def read(self) -> Iterator[Numbered]:
        """Every trial, numbered as they come."""
        line = 0
        for place, session in groupby(stored_trials(self._study), key=lambda each: each.place):
            for trial in trials_of([each.row for each in session], place):
                line += 1
                yield Numbered(line, trial)
