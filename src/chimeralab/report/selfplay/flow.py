"""How many conversations were planned, attempted, ended, parsable and analysed, and why not all."""

from collections.abc import Iterator, Mapping, Sequence

from chimeralab.analysis.selfplay.runs import TOO_SHORT
from chimeralab.core.numbers import counted
from chimeralab.report.charts.flow import ArmFlow, Stage
from chimeralab.report.selfplay.material import Material
from chimeralab.report.table import Table, table
from chimeralab.study import Arm

# How an outcome of a conversation or of a question is spoken of.
OUTCOMES = {
    "completed": "completed",
    "collapsed": "stopped on collapse, as planned",
    "failed": "failed",
    "overflow": "history too long",
    "refusal": "refused",
    "empty": "empty reply",
}
ATTEMPTS = {
    "rate_limit": "rate limit",
    "server": "server error",
    "connection": "no connection",
    "timeout": "timed out",
    "bad_answer": "unreadable answer",
    "overflow": "history too long",
    "auth": "wrong key",
    "refused": "refused",
    "refusal": "refused",
    "empty": "empty reply",
    "interrupted": "run killed",
    "cancelled": "run stopped",
    "crashed": "crashed",
    "in flight": "in flight",
}


def study_flow(material: Material) -> list[ArmFlow]:
    """The stages of every condition, in the order of the plan."""
    return [ArmFlow(arm.condition, _stages(arm, material)) for arm in material.arms]


def _stages(arm: Arm, material: Material) -> tuple[Stage, ...]:
    gone = {e.reason: e.runs for e in material.left_out if e.condition == arm.condition}
    ended = sum(arm.outcomes.values())
    unread = {reason: count for reason, count in gone.items() if _is_unread(reason)}
    parsable = ended - sum(unread.values())
    analysed = _analysed(arm, material)
    others = {reason: n for reason, n in gone.items() if reason not in (*unread, "not finished")}
    dropped = others or {"not analysed": parsable - analysed}
    questions, ends = list(asked_of(arm)), list(endings(arm))
    not_started, still_open = arm.planned - arm.attempted, arm.attempted - ended
    steps = material.interventions[arm.condition]
    if steps:
        ends.append(counted(steps, "intervention"))
    return (
        Stage("Planned", arm.planned),
        Stage("Attempted", arm.attempted, questions, lost({"not started": not_started})),
        Stage("Ended", ended, ends, lost({"still open": still_open})),
        Stage("Parsable", parsable, (), lost(unread)),
        Stage("Analysed", analysed, (), lost(dropped)),
    )


def _is_unread(reason: str) -> bool:
    return reason == TOO_SHORT or reason.startswith(("ended without a turn", "not judged"))


def _analysed(arm: Arm, material: Material) -> int:
    conditions = material.results.analysis.conditions if material.results else {}
    return conditions[arm.condition].n if arm.condition in conditions else 0


def lost(reasons: Mapping[str, int]) -> list[str]:
    """Reasons with their counts, where there are any."""
    return [f"{count:,} {reason}" for reason, count in reasons.items() if count > 0]


def asked_of(arm: Arm) -> Iterator[str]:
    """How many questions were asked, and what became of those without an answer."""
    total = sum(arm.attempts.values())
    if total:
        yield counted(total, "question")
    again = {ATTEMPTS.get(k, k): n for k, n in arm.attempts.items() if k != "answered"}
    if again:
        reasons = ", ".join(f"{name} {count:,}" for name, count in again.items())
        yield f"{sum(again.values()):,} without an answer: {reasons}"


def endings(arm: Arm) -> Iterator[str]:
    """How conversations came to an end."""
    for outcome, count in sorted(arm.outcomes.items()):
        yield f"{count:,} {OUTCOMES.get(outcome, outcome)}"


def flow_table(arms: Sequence[ArmFlow]) -> Table:
    """The same numbers as a table."""
    rows = [
        [arm.condition, *(f"{stage.reached:,}" for stage in arm.stages), _notes(arm)]
        for arm in arms
    ]
    stages = [stage.name for stage in arms[0].stages]
    raw = [
        {
            "condition": arm.condition,
            **{stage.name.lower(): stage.reached for stage in arm.stages},
            "notes": _notes(arm),
        }
        for arm in arms
    ]
    headings = ("condition", *stages, "what happened on the way")
    return table("flow", headings, rows, raw, words=(0, len(headings) - 1))


def _notes(arm: ArmFlow) -> str:
    said = [line for stage in arm.stages for line in (*stage.lost, *stage.lines)]
    return "; ".join(said)


def flow_in_words(arms: Sequence[ArmFlow]) -> str:
    """What the diagram shows, for those who can't see it."""
    parts = [
        f"{arm.condition}: " + ", ".join(f"{s.name.lower()} {s.reached:,}" for s in arm.stages)
        for arm in arms
    ]
    return f"From plan to analysis. {'; '.join(parts)}."
