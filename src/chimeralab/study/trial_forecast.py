"""How much a trial asks of one subject: its sessions are gone through without any answers."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from chimeralab.sandbox.probes import probe_text
from chimeralab.sandbox.script import Script


class Asked(NamedTuple):
    """Calls, and the bytes of all their prompts apart from the subject's own answers."""

    calls: int
    prompt_bytes: int
    answers_shown: int


def asked_at_most(scripts: Iterable[Script]) -> Asked:
    """Everything that is put to a subject in these sessions."""
    found = [asked for script in scripts for asked in _turns(_remembering(script))]
    return Asked(*(sum(column) for column in zip(Asked(0, 0, 0), *found, strict=True)))


def _remembering(script: Script) -> Script:
    """The session without amnesia, which only ever takes away what would have been asked."""
    arm = script.arm
    if arm.sham or "amnesia" not in arm.stressors:
        return script
    kept = {name: part for name, part in arm.stressors.items() if name != "amnesia"}
    course, seed, probes = script.course, script.seed, script.probes
    return Script(course, replace(arm, stressors=kept), seed, probes, script.strength)


def _turns(script: Script) -> Iterator[Asked]:
    unanswered = [""] * len(script.course.steps)
    for turn, step in enumerate(script.course.steps, start=1):
        first = next(iter(step.question.options), None)
        shown = script.asked(turn, unanswered, first)
        length = sum(len(message.content.encode()) for message in shown.messages)
        probes = script.probes_at(turn)
        misleader = script.arm.misleader(script.course, turn)
        aside = sum(len((probe_text(probe, step, misleader) or "").encode()) for probe in probes)
        calls = 1 + len(probes)
        yield Asked(calls, calls * length + aside, calls * turn)
