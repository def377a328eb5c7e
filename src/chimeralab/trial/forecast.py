"""How much a trial asks of one subject: its sessions are gone through without asking anybody."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from chimeralab.trial.script import Script


class Asked(NamedTuple):
    """Calls, and the bytes of all their prompts apart from the subject's own answers.

    `answers_shown` is how often an answer stands in a prompt, or neutral text of its length.
    """

    calls: int
    prompt_bytes: int
    answers_shown: int


def asked_at_most(scripts: Iterable[Script]) -> Asked:
    """Everything that is put to a subject in these sessions."""
    found = [asked for script in scripts for asked in _turns(script)]
    return Asked(*(sum(column) for column in zip(Asked(0, 0, 0), *found, strict=True)))


def _turns(script: Script) -> Iterator[Asked]:
    # What is said depends on the answers in one way only: feedback praises the lure and corrects
    # all else. One of the two is the longer, whoever gives it.
    right = [step.truth for step in script.course.steps]
    misled = [step.lure or step.truth for step in script.course.steps]
    for turn, step in enumerate(script.course.steps, start=1):
        first = {
            name: max(step.question.options, key=_size, default="")
            for name in script.probes_before(turn)
        }
        shown = [script.asked(turn, answers, first) for answers in (right, misled)]
        probes, misleader = script.probes_at(turn), script.misleader(turn)
        after = [script.probes[name] for name in probes if name not in first]
        in_forks = sum(_size(probe.text(step, misleader)) for probe in after)
        calls = 1 + len(probes)
        # The sham of amnesia repeats the length of answers, with that of their episode.
        scene = shown[0].scene
        echoed = sum(each.turn < turn for each in scene.injections if script.arm.sham)
        answers = 1 + len(scene.past) + echoed
        put = max(
            sum(_size(message.content) for message in each.messages if message.role == "user")
            for each in shown
        )
        yield Asked(calls, calls * put + in_forks, calls * answers)


def _size(text: str) -> int:
    return len(text.encode())
