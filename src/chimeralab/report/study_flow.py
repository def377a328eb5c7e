"""How many conversations were planned, attempted, ended, parsable and analysed, and why not all."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from chimeralab.analysis.runs import TOO_SHORT, LeftOut
from chimeralab.report.flow_diagram import ArmFlow, Stage
from chimeralab.report.numbers import counted
from chimeralab.report.study_material import Material
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
STAGES = ("Planned", "Attempted", "Ended", "Parsable", "Analysed")


def study_flow(material: Material) -> list[ArmFlow]:
    """The stages of every condition, in the order of the plan."""
    results = material.results
    left_out = results.runs.left_out if results else ()
    analysed = results.analysis.conditions if results else {}
    return [
        ArmFlow(
            arm.condition,
            _stages(
                arm,
                [each for each in left_out if each.condition == arm.condition],
                analysed[arm.condition].n if arm.condition in analysed else 0,
                material.interventions[arm.condition],
            ),
        )
        for arm in material.arms
    ]


def _stages(
    arm: Arm, left_out: Sequence[LeftOut], analysed: int, interventions: int
) -> tuple[Stage, ...]:
    gone = Counter({each.reason: each.runs for each in left_out})
    ended = sum(arm.outcomes.values())
    unread = {reason: n for reason, n in gone.items() if _is_unread(reason)}
    parsable = ended - sum(unread.values())
    dropped = {
        reason: n for reason, n in gone.items() if reason not in unread and reason != "not finished"
    }
    if not dropped and analysed < parsable:
        dropped = {"not analysed": parsable - analysed}
    return (
        Stage("Planned", arm.planned),
        Stage(
            "Attempted",
            arm.attempted,
            list(_questions(arm)),
            _lost({"not started": arm.planned - arm.attempted}),
        ),
        Stage(
            "Ended",
            ended,
            list(_endings(arm, interventions)),
            _lost({"still open": arm.attempted - ended}),
        ),
        Stage("Parsable", parsable, (), _lost(unread)),
        Stage("Analysed", analysed, (), _lost(dropped)),
    )


def _is_unread(reason: str) -> bool:
    return reason == TOO_SHORT or reason.startswith(("ended without a turn", "not judged"))


def _lost(reasons: Mapping[str, int]) -> list[str]:
    return [f"{count:,} {reason}" for reason, count in reasons.items() if count > 0]


def _questions(arm: Arm) -> Iterator[str]:
    total = sum(arm.attempts.values())
    if total:
        yield counted(total, "question")
    again = {ATTEMPTS.get(k, k): n for k, n in arm.attempts.items() if k != "answered"}
    if again:
        reasons = ", ".join(f"{name} {count:,}" for name, count in again.items())
        yield f"{sum(again.values()):,} without an answer: {reasons}"


def _endings(arm: Arm, interventions: int) -> Iterator[str]:
    for outcome, count in sorted(arm.outcomes.items()):
        yield f"{count:,} {OUTCOMES.get(outcome, outcome)}"
    if interventions:
        yield counted(interventions, "intervention")


def flow_table(arms: Sequence[ArmFlow]) -> Table:
    """The same numbers as a table."""
    rows = [
        [arm.condition, *(f"{stage.reached:,}" for stage in arm.stages), _notes(arm)]
        for arm in arms
    ]
    raw = [
        {
            "condition": arm.condition,
            **{stage.name.lower(): stage.reached for stage in arm.stages},
            "notes": _notes(arm),
        }
        for arm in arms
    ]
    headings = ("condition", *STAGES, "what happened on the way")
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
    return f"Flow of the conversations by condition. {'; '.join(parts)}."
