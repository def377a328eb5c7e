"""All that the report of a trial is made from, read once."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from chimeralab import pipeline
from chimeralab.analysis.trial.analysis import SubjectResult, TrialAnalysis, without_subject
from chimeralab.analysis.trial.effects import Effect
from chimeralab.core.errors import InputError
from chimeralab.core.numbers import counted
from chimeralab.report.selfplay.material import Tell, lock_of, refuse_unrun
from chimeralab.sandbox.metrics import Metrics
from chimeralab.sandbox.stressors import STRESSORS
from chimeralab.sandbox.stressors.sham import NAME as SHAM
from chimeralab.study import Arm, Lock, Study, flow
from chimeralab.study.trial_plan import TrialPlan
from chimeralab.study.trial_rows import trial_plan
from chimeralab.study.verify import Verification


class TrialMaterial(NamedTuple):
    """A trial as its report sees it."""

    study: Study
    plan: TrialPlan
    lock: Lock | None
    verification: Verification
    arms: tuple[Arm, ...]
    injections: Mapping[str, int]
    analysis: TrialAnalysis

    @property
    def design(self) -> str:
        """How many subjects, arms, scenarios and repeats are crossed, in words."""
        subjects = len(set(self.plan.subjects.values()))
        sides = (
            counted(subjects, "subject"),
            counted(len(self.plan.arms) // subjects, "arm"),
            counted(len(self.plan.courses), "scenario"),
            counted(self.study.plan.conversation.repeats, "repeat"),
        )
        return " × ".join(sides)

    def short(self, name: str, subject: str) -> str:
        """An arm, or what is said of arms, without the subject that the section is about."""
        return without_subject(name, subject)

    def shortened(self, effect: Effect, subject: str) -> Effect:
        """An effect whose name leaves its subject out."""
        return replace(effect, name=self.short(effect.name, subject))

    def of(self, subject: SubjectResult) -> dict[str, Metrics]:
        """The metrics of one subject's arms, by their short names."""
        found = ((self.short(arm.arm, subject.subject), arm.metrics) for arm in subject.arms)
        return {name: metrics for name, metrics in found if metrics is not None}


def gather_trial(study: Study, tell: Tell = lambda doing: None) -> TrialMaterial:
    """Verify, measure and analyse everything that a trial has stored."""
    refuse_unrun(study)
    tell("checking every hash")
    verification = pipeline.verify(study)
    tell("analysing")
    analysis = pipeline.analyse_trial(study)
    if not analysis.sessions:
        raise InputError(
            f"{study.path} has no whole session yet, so there is nothing to report; "
            f"go on with `chimera run {study.path}`"
        )
    with study.archive() as archive:
        arms = flow(archive)
        rows = archive.rows(_INJECTIONS, json.dumps([*STRESSORS, SHAM]))
        injections = {row["condition"]: row["n"] for row in rows}
    return TrialMaterial(
        study=study,
        plan=trial_plan(study),
        lock=lock_of(study),
        verification=verification,
        arms=arms,
        injections=injections,
        analysis=analysis,
    )


_INJECTIONS = """
    SELECT t.condition, count(DISTINCT t.id || ' ' || e.turn) AS n
    FROM events e JOIN trajectories t ON t.id = e.trajectory
    WHERE e.kind IN (SELECT value FROM json_each(?)) GROUP BY t.condition
"""
