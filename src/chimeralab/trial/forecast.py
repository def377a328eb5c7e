"""A trial before it is run: how much it asks of a subject, and what it can find, by a phantom."""

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

# So many phantoms go through the design; their differences are pooled.
PHANTOMS = 3


def max_requests(scripts: Iterable[Script]) -> tuple[int, int, int]:
    """How much is put to a subject in these sessions, gone through without asking anybody.

    Calls, the bytes of all their prompts apart from the subject's own answers, and how often an
    answer stands in a prompt, or neutral text of its length.
    """
    calls, prompt_bytes, answers_shown = 0, 0, 0
    for script in scripts:
        # What is said depends on the answers in one way only: feedback praises the lure and
        # corrects all else. One of the two is the longer, whoever gives it.
        right = [step.truth for step in script.course.steps]
        misled = [step.lure or step.truth for step in script.course.steps]
        for turn, step in enumerate(script.course.steps, start=1):
            first = {
                name: max(step.question.options, key=_size, default="")
                for name in script.probes_before(turn)
            }
            scene = script.scene(turn, right, first)
            shown = [script.asked(turn, answers, first) for answers in (right, misled)]
            probes, misleader = script.probes_at(turn), script.misleader(turn)
            after = [script.probes[name] for name in probes if name not in first]
            in_forks = sum(_size(probe.text(step, misleader)) for probe in after)
            # The sham of amnesia repeats the length of answers, with that of their episode.
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
    """The smallest true difference that a primary outcome shows with 80 % power; None: unknown.

    `known` is what the settings of a phantom among the subjects make of the outcome: `subject`,
    `difference`, and the `smallest` that can be found in a subject that varies as it does.
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
            return f"{what}: what can be found is unknown, as phantoms show no spread there"
        if self.difference >= 1:
            return f"{what}: {self.scenarios} scenarios find nothing with 80 % power; add scenarios"
        found = (
            f"{what}: {self.scenarios} scenarios find {self.difference:.2f} or more "
            "with 80 % power (simulated on phantoms; a subject that varies more needs more)"
        )
        for each in self.known:
            will = abs(each["difference"]) >= (each["smallest"] or 1.0)
            shown = number(each["difference"], 2, sign=True)
            seen = "will be found" if will else "is too little to be found"
            found += f"; {each['subject']} has {shown}, which {seen}"
        return found


Phantoms = Mapping[str, PhantomSubjectSettings]


def detectable(plan: TrialPlan, phantoms: Phantoms | None = None) -> tuple[Detectable, ...]:
    """What each declared outcome can find, and what it will show of `phantoms`, by name.

    Free answers are beyond a phantom: then nothing.
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
                mean, smallest = float(np.mean(differences)), _smallest(differences, plan)
                known.append({"subject": name, "difference": mean, "smallest": smallest})
        smallest = _smallest(usual, plan)
        size = len(plan.courses)
        found.append(Detectable(declared.measure, *pair, size, smallest, tuple(known)))
    return tuple(found)


def _smallest(differences: Sequence[float], plan: TrialPlan) -> float | None:
    """What can be found where scenarios differ like this; None where they don't."""
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
    """The differences within the scenarios of the plan, of several phantoms alike."""
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
            # Only where both arms had an occasion.
            one, other = (values.get((arm, course.id)) for arm in pair)
            if one is not None and other is not None:
                differences.append(one - other)
    return differences


def simulate_session(script: Script, subject: PhantomSubject, arm: str) -> Iterator[TrialRow]:
    """One session of a phantom, through the script that a subject would get."""
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
            probed[probe] = reply(script.fork(turn, answers, probe, probed), turn, probe)
        answers.append(reply(script.asked(turn, answers, probed), turn))
        for probe in script.probes_at(turn):
            if probe not in probed:
                probed[probe] = reply(script.fork(turn, answers, probe, probed), turn, probe)
        row = score(script, turn, answers, probed, scorer)
        yield replace(row, session=session, arm=arm, scenario=scenario)
