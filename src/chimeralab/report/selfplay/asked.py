"""What a study asked and promised beforehand, and where it departed from that."""

from collections.abc import Iterator
from typing import NamedTuple

from chimeralab.analysis.selfplay.outcomes import MEASURES, PAIRS, Estimand
from chimeralab.core.numbers import counted
from chimeralab.detection.detectors import in_brief
from chimeralab.report.selfplay.material import Material
from chimeralab.report.table import Table, table
from chimeralab.report.words import Fact
from chimeralab.study import Lock
from chimeralab.study.plan import Condition, Plan
from chimeralab.study.verify import Verification

SPEAKERS_NAMED = 6
DEVIATIONS_NAMED = 10


def facts(material: Material) -> Iterator[Fact]:
    """The head of the report: lock, design, detector."""
    plan = material.study.plan
    yield locked(material.lock)
    sides = (
        counted(len(plan.conditions), "condition"),
        counted(len(plan.prompts), "prompt"),
        counted(plan.conversation.repeats, "repeat"),
    )
    yield Fact("Design", f"{' × '.join(sides)}, {counted(plan.conversation.turns, 'turn')} each")
    yield order(plan, "condition")
    own = f" ({plan.detector.use})" if plan.detector.is_outside else ""
    yield Fact("Detector", f"{in_brief(plan.detector.settings)}{own}")
    for estimand in material.outcomes.estimands:
        yield Fact(estimand.role.capitalize() if material.lock else "Estimated", _asked(estimand))


def locked(lock: Lock | None) -> Fact:
    """Whether the plan was frozen, and under which hash."""
    if lock is None:
        return Fact("Locked", "no: everything here is exploratory")
    return Fact("Locked", f"before the first run, SHA-256 {lock.sha256}")


def order(plan: Plan, group: str) -> Fact:
    """In which order the conversations were held."""
    mixed = f"random, {group}s interleaved" if plan.run.interleave else f"one {group} after another"
    return Fact("Order", f"{mixed}, seed {plan.run.seed}")


def _asked(estimand: Estimand) -> str:
    whom = f" among {', '.join(estimand.population)}" if estimand.population else ""
    how = "every pair of conditions" if estimand.contrast == PAIRS else estimand.contrast
    failed = "left out" if estimand.failed_turns == "leave_out" else "kept as far as they went"
    return f"{MEASURES[estimand.measure]}{whom}: {how}; runs cut short are {failed}"


class Deviations(NamedTuple):
    """What is not as it was locked or stored: some of it in words, and how much it is in all."""

    named: list[str]
    total: int


def deviations(verification: Verification) -> Deviations:
    """Everything that does not fit; nothing when all hashes do."""
    found = [str(finding) for finding in verification.findings]
    return Deviations(found[:DEVIATIONS_NAMED], len(found))


def cast_table(material: Material) -> Table:
    """Who spoke under each condition."""
    plan = material.study.plan
    rows = [[name, *_cast(each)] for name, each in plan.conditions.items()]
    headings = ("condition", "speakers, in turn", "temperature", "on collapse")
    raw = [
        dict(zip(("condition", "speakers", "temperature", "countermeasure"), row, strict=True))
        for row in rows
    ]
    return table("design", headings, rows, raw, words=(0, 1, 3))


def _cast(condition: Condition) -> list[str]:
    names = [
        speaker.name
        if speaker.name.startswith(speaker.model)
        else f"{speaker.name} ({speaker.model})"
        for speaker in condition.speakers
    ]
    shown = names[:SPEAKERS_NAMED] + ["…"] * (len(names) > SPEAKERS_NAMED)
    heats = sorted({speaker.sampling.temperature for speaker in condition.speakers})
    step = condition.countermeasure.use if condition.countermeasure else "nothing"
    return [", ".join(shown), ", ".join(f"{heat:g}" for heat in heats), step]
