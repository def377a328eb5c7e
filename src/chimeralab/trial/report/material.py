"""All that the report of a trial is made from, read once."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.numbers import counted
from chimeralab.report.charts.flow import OUTCOMES, ArmFlow, Stage, asked_of, lost
from chimeralab.report.frame import lock_of, refuse_unrun
from chimeralab.stats.effects import short
from chimeralab.study import ConditionFlow, Lock, Study, flow
from chimeralab.study.estimates import Estimates
from chimeralab.study.verify import Verification, verify_study
from chimeralab.trial.analysis import SubjectResult, TrialAnalysis
from chimeralab.trial.kind import analyse_trial
from chimeralab.trial.metrics import Metrics
from chimeralab.trial.plan import TrialPlan
from chimeralab.trial.rows import trial_plan
from chimeralab.trial.stressors import SHAM


class TrialMaterial(NamedTuple):
    """A trial as its report sees it."""

    study: Study
    plan: TrialPlan
    lock: Lock | None
    verification: Verification
    arms: tuple[ConditionFlow, ...]
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

    def of(self, subject: SubjectResult) -> dict[str, Metrics]:
        """The metrics of one subject's arms, by their short names."""
        found = ((short(arm.arm), arm.metrics) for arm in subject.arms)
        return {name: metrics for name, metrics in found if metrics is not None}


def gather_trial(
    study: Study,
    tell: Callable[[str], None] = lambda doing: None,
    estimates: Estimates | None = None,
) -> TrialMaterial:
    """Verify, measure and analyse everything that a trial has stored."""
    refuse_unrun(study)
    tell("computing scores and hashes again")
    verification = verify_study(study)
    tell("analysing")
    analysis = analyse_trial(study, estimates=estimates)
    if not analysis.sessions:
        raise InputError(
            f"{study.path} has no whole session yet, so there is nothing to report; "
            f"go on with `chimera run {study.path}`"
        )
    with study.archive() as archive:
        arms = flow(archive)
        plan = trial_plan(study)
        stress = dict.fromkeys(name for arm in plan.arms.values() for name in arm.stressors)
        rows = archive.rows(_INJECTIONS, json.dumps([*stress, SHAM]))
        injections = {row["condition"]: row["n"] for row in rows}
    return TrialMaterial(
        study=study,
        plan=plan,
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


def trial_flow(material: TrialMaterial) -> list[ArmFlow]:
    """How many sessions of each subject were planned, attempted and analysed, all arms together."""
    scored = {arm.arm: arm.sessions for each in material.analysis.subjects for arm in each.arms}
    flows = []
    for subject in dict.fromkeys(material.plan.subjects.values()):
        own = [arm for arm in material.arms if material.plan.subjects[arm.condition] == subject]
        injected = sum(material.injections.get(arm.condition, 0) for arm in own)
        done = [counted(injected, "trial with an injection", "trials with an injection")]
        arm = _together(subject, own)
        not_started = lost({"not started": arm.planned - arm.attempted})
        # A session that is not whole answers other questions, and is left out.
        cut_short = {
            "still open": arm.attempted - sum(arm.outcomes.values()),
            **{OUTCOMES.get(n, n): count for n, count in arm.outcomes.items() if n != "completed"},
        }
        analysed = sum(scored.get(arm.condition, 0) for arm in own)
        stages = (
            Stage("Planned", arm.planned),
            Stage("Attempted", arm.attempted, list(asked_of(arm)), not_started),
            Stage("Analysed", analysed, done, lost(cut_short)),
        )
        flows.append(ArmFlow(subject, stages))
    return flows


def _together(subject: str, arms: Sequence[ConditionFlow]) -> ConditionFlow:
    """Several arms added up."""
    costs = [arm.cost for arm in arms]
    return ConditionFlow(
        condition=subject,
        planned=sum(arm.planned for arm in arms),
        attempted=sum(arm.attempted for arm in arms),
        completed=sum(arm.completed for arm in arms),
        open=sum(arm.open for arm in arms),
        turns=sum(arm.turns for arm in arms),
        outcomes=dict(sum((Counter(arm.outcomes) for arm in arms), Counter())),
        attempts=dict(sum((Counter(arm.attempts) for arm in arms), Counter())),
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
        tokens=sum(arm.tokens for arm in arms),
    )
