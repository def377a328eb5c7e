"""A trial before it is run: its maximum size, and its power, simulated with phantoms."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chimeralab.core.numbers import number
from chimeralab.core.records import Record
from chimeralab.models.seam import Request
from chimeralab.stats.planning import detectable_difference
from chimeralab.trial.effects import DeclaredEffect, measure_sessions
from chimeralab.trial.phantoms import PhantomSubject, PhantomSubjectSettings
from chimeralab.trial.plan import TrialPlan, find_reference
from chimeralab.trial.scoring import Scorer
from chimeralab.trial.script import Script
from chimeralab.trial.session import score
from chimeralab.trial.trials import TrialRow

# Phantoms that are simulated; their differences are pooled.
PHANTOMS = 3


def max_requests(scripts: Iterable[Script]) -> tuple[int, int, int]:
    """The maximum requests of some sessions, without running them.

    Returns calls, the bytes of all their prompts without the subject's own answers, and how many
    answers (or neutral texts of their length) the prompts contain.
    """
    calls, prompt_bytes, answers_shown = 0, 0, 0
    for script in scripts:
        # The prompts depend on the answers only through feedback, which praises the lure and
        # corrects any other answer: take the longer of the two.
        right = [step.truth for step in script.course.steps]
        misled = [step.lure or step.truth for step in script.course.steps]
        for turn, step in enumerate(script.course.steps, start=1):
            first = {
                name: max(step.question.options, key=_size, default="")
                for name in script.probes_before(turn)
            }
            scene = script.scene(turn, right, first)
            shown = [script.pose(turn, answers, first) for answers in (right, misled)]
            probes, misleader = script.probes_at(turn), script.misleader(turn)
            after = [script.probes[name] for name in probes if name not in first]
            in_forks = sum(_size(probe.text(step, misleader)) for probe in after)
            # The sham of amnesia adds neutral text as long as the episodes, answers included.
            echoed = sum(each.turn < turn for each in scene.injections if script.arm.sham)
            put = max(
                sum(_size(message.content) for message in each.messages if message.role == "user")
                for each in shown
            )
            asked = 1 + len(probes)
            calls += asked
            prompt_bytes += asked * put + in_forks
            answers_shown += asked * (1 + len(scene.past) + echoed)
    return calls, prompt_bytes, answers_shown


def _size(text: str) -> int:
    return len(text.encode())


@dataclass(frozen=True, slots=True)
class Detectable(Record):
    """The smallest true `difference` in a primary outcome that has 80 % power; None if unknown.

    `known` has an entry for each phantom among the subjects: `subject`, its true `difference`, and
    the `smallest` one detectable with its variation.
    """

    measure: str
    arm: str
    against: str
    scenarios: int
    difference: float | None
    known: tuple[Mapping[str, Any], ...] = ()

    def __str__(self) -> str:
        what = f"{self.measure}, {self.arm} − {self.against}"
        if self.difference is None:
            return f"{what}: power unknown, as simulated phantoms do not vary"
        if self.difference >= 1:
            return (
                f"{what}: {self.scenarios} scenarios detect no difference with 80 % power; "
                "add scenarios"
            )
        found = (
            f"{what}: {self.scenarios} scenarios detect {self.difference:.2f} or more "
            "with 80 % power (simulated with phantoms; a subject that varies more needs more)"
        )
        for each in self.known:
            will = abs(each["difference"]) >= (each["smallest"] or 1.0)
            shown = number(each["difference"], 2, sign=True)
            seen = "will be detected" if will else "is too small to be detected"
            found += f"; {each['subject']} has {shown}, which {seen}"
        return found


Phantoms = Mapping[str, PhantomSubjectSettings]


def detectable(plan: TrialPlan, phantoms: Phantoms | None = None) -> tuple[Detectable, ...]:
    """The power of each declared outcome, and the true differences of `phantoms`, by name.

    Empty for scenarios with free answers, which a phantom can't give.
    """
    steps = [step for course in plan.courses for step in course.steps]
    if not plan.declared or not all(step.question.options for step in steps):
        return ()
    subject = next(iter(plan.subjects.values()))
    arms = {getattr(key, "arm", key): key for key, who in plan.subjects.items() if who == subject}
    reference = find_reference({name: plan.arms[key] for name, key in arms.items()})
    found = []
    for declared in plan.declared:
        pair = declared.pair(reference)
        usual = _simulate_differences(declared, pair, plan, arms, PhantomSubjectSettings())
        known = []
        for name, settings in (phantoms or {}).items():
            differences = _simulate_differences(declared, pair, plan, arms, settings)
            if differences:
                mean, smallest = (
                    float(np.mean(differences)),
                    _smallest_detectable(differences, plan),
                )
                known.append({"subject": name, "difference": mean, "smallest": smallest})
        smallest = _smallest_detectable(usual, plan)
        size = len(plan.courses)
        found.append(Detectable(declared.measure, *pair, size, smallest, tuple(known)))
    return tuple(found)


def _smallest_detectable(differences: Sequence[float], plan: TrialPlan) -> float | None:
    """The smallest detectable difference given these; None if they don't vary."""
    spread = float(np.var(differences, ddof=1)) if len(differences) > 1 else 0.0
    if spread <= 0 or len(plan.courses) < 2:
        return None
    return detectable_difference((spread, 0.0), len(plan.courses), 1)


def _simulate_differences(
    declared: DeclaredEffect,
    pair: tuple[str, str],
    plan: TrialPlan,
    conditions: dict[str, str],
    settings: PhantomSubjectSettings,
) -> list[float]:
    """The differences within scenarios, of `PHANTOMS` phantoms with the same settings."""
    differences: list[float] = []
    for seed in range(1, PHANTOMS + 1):
        subject = PhantomSubject(replace(settings, seed=settings.seed + seed))
        trials = [
            row
            for name in pair
            for course in plan.courses
            for row in simulate_session(
                replace(plan.script(conditions[name], course.id, seed), own_memory=False),
                subject,
                name,
            )
        ]
        sessions = measure_sessions(trials, plan.weights, plan.custom_measures)
        values = {
            (each.arm, each.scenario): each.tallies[declared.measure].share for each in sessions
        }
        for course in plan.courses:
            # Only scenarios in which both arms had an occasion.
            one, other = (values.get((arm, course.id)) for arm in pair)
            if one is not None and other is not None:
                differences.append(one - other)
    return differences


def simulate_session(script: Script, subject: PhantomSubject, arm: str) -> Iterator[TrialRow]:
    """Simulate one session of a phantom."""
    scenario = script.course.id
    session = f"{arm}/{scenario}"
    answers: list[str] = []

    def reply(shown: Request, turn: int, probe: str = "") -> str:
        return subject.answer(
            Request(shown.messages, conversation=session, turn=turn, probe=probe, key=shown.key)
        )

    scorer = Scorer()
    for turn in range(1, len(script.course.steps) + 1):
        probed: dict[str, str] = {}
        for probe in script.probes_before(turn):
            probed[probe] = reply(script.pose_probe(turn, answers, probe, probed), turn, probe)
        answers.append(reply(script.pose(turn, answers, probed), turn))
        for probe in script.probes_at(turn):
            if probe not in probed:
                probed[probe] = reply(script.pose_probe(turn, answers, probe, probed), turn, probe)
        row = score(script, turn, answers, probed, scorer)
        yield replace(row, session=session, arm=arm, scenario=scenario)
