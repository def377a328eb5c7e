"""How many sessions of each subject were planned, attempted and analysed."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from chimeralab.core.numbers import counted
from chimeralab.report.charts.flow import ArmFlow, Stage
from chimeralab.report.selfplay.flow import OUTCOMES, asked_of, lost
from chimeralab.report.trial.material import TrialMaterial
from chimeralab.study import Arm


def trial_flow(material: TrialMaterial) -> list[ArmFlow]:
    """The stages of every subject, all its arms together."""
    scored = {arm.arm: arm.sessions for each in material.analysis.subjects for arm in each.arms}
    flows = []
    for subject in dict.fromkeys(material.plan.subjects.values()):
        own = [arm for arm in material.arms if material.plan.subjects[arm.condition] == subject]
        analysed = sum(scored.get(arm.condition, 0) for arm in own)
        injected = sum(material.injections.get(arm.condition, 0) for arm in own)
        flows.append(ArmFlow(subject, _stages(_together(subject, own), analysed, injected)))
    return flows


def _stages(arm: Arm, analysed: int, injected: int) -> tuple[Stage, ...]:
    done = [counted(injected, "trial with an injection", "trials with an injection")]
    return (
        Stage("Planned", arm.planned),
        Stage("Attempted", arm.attempted, list(asked_of(arm)), _not_started(arm)),
        Stage("Analysed", analysed, done, _cut_short(arm)),
    )


def _not_started(arm: Arm) -> list[str]:
    return lost({"not started": arm.planned - arm.attempted})


def _cut_short(arm: Arm) -> list[str]:
    """A session that is not whole answers other questions, and is left out."""
    ends = {OUTCOMES.get(name, name): n for name, n in arm.outcomes.items() if name != "completed"}
    return lost({"still open": arm.attempted - sum(arm.outcomes.values()), **ends})


def _together(subject: str, arms: Sequence[Arm]) -> Arm:
    """Several arms added up."""
    costs = [arm.cost for arm in arms]
    return Arm(
        condition=subject,
        planned=sum(arm.planned for arm in arms),
        attempted=sum(arm.attempted for arm in arms),
        completed=sum(arm.completed for arm in arms),
        open=sum(arm.open for arm in arms),
        turns=sum(arm.turns for arm in arms),
        outcomes=_added(arm.outcomes for arm in arms),
        attempts=_added(arm.attempts for arm in arms),
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
        tokens=sum(arm.tokens for arm in arms),
    )


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)
