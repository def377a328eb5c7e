"""How much a trial asks of one subject at the most: its questions, its probes, and their past."""

from collections.abc import Iterator
from typing import NamedTuple

from chimeralab.sandbox.course import Course
from chimeralab.sandbox.probes import Probe, probe_text, probes_of, question_text
from chimeralab.sandbox.script import Arm
from chimeralab.study.trial_plan import TrialPlan

# What a signal adds where there can be one: at most twenty voices, or a question said again. Sham
# and notes never add more than all that was told.
BYTES_SAID = 1_000
TIMES_TOLD = 2


class Asked(NamedTuple):
    """Calls, and the bytes of all their prompts apart from the subject's own answers."""

    calls: int
    prompt_bytes: int
    answers_shown: int


def asked_at_most(plan: TrialPlan, model: str) -> Asked:
    """All sessions of one repeat that a model goes through."""
    arms = [plan.arms[name] for name, subject in plan.subjects.items() if subject == model]
    found = [
        asked
        for arm in arms
        for course in plan.courses
        for asked in _turns(course, arm, plan.probes)
    ]
    return Asked(*(sum(column) for column in zip(Asked(0, 0, 0), *found, strict=True)))


def _turns(course: Course, arm: Arm, wanted: tuple[Probe, ...]) -> Iterator[Asked]:
    so_far = len(course.opening.encode())
    for turn, step in enumerate(course.steps, start=1):
        told = [fact.text for fact in step.told]
        so_far += sum(len(text.encode()) for text in (*told, question_text(step.question)))
        misleader = arm.misleader(course, turn)
        probes = probes_of(step, wanted, misleader)
        aside = sum(len((probe_text(probe, step, misleader) or "").encode()) for probe in probes)
        so_far += BYTES_SAID * bool(step.consensus or step.phase)
        calls = 1 + len(probes)
        yield Asked(calls, calls * TIMES_TOLD * so_far + aside, calls * turn)
