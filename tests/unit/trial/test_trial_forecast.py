"""The forecast of a trial is an upper bound, whatever a subject answers."""

import pytest

from chimeralab.trial.countermeasures import Commit, Notebook, Review
from chimeralab.trial.course import Layout
from chimeralab.trial.forecast import max_requests
from chimeralab.trial.probes import PROBES
from chimeralab.trial.scenarios import Ledger
from chimeralab.trial.script import Arm, Script
from chimeralab.trial.stressors import Amnesia, Conformity, Infallibility

COURSES = {
    "in company": Layout(recall_every=2).lay_out(Ledger().make(1), 3, 1),
    "by itself": Layout(consensus=0).lay_out(Ledger().make(2), 3, 2),
}
OFTEN = 0.6
ARMS = {
    "control": Arm({}),
    "deprived": Arm({"amnesia": Amnesia(frequency=OFTEN)}),
    "corrupted": Arm({"amnesia": Amnesia("corrupt", frequency=OFTEN)}),
    "deprived sham": Arm({"amnesia": Amnesia(frequency=OFTEN)}, sham=True),
    "corrupted sham": Arm({"amnesia": Amnesia("corrupt", frequency=OFTEN)}, sham=True),
    "examiner": Arm({"infallibility": Infallibility()}),
    "tool": Arm({"infallibility": Infallibility(authority="tool")}),
    "feedback sham": Arm({"infallibility": Infallibility()}, sham=True),
    "together": Arm({"infallibility": Infallibility(), "conformity": Conformity()}, sham=True),
    "notebook": Arm({"amnesia": Amnesia(frequency=OFTEN)}, Notebook()),
    "review": Arm({"infallibility": Infallibility()}, Review()),
    "commit": Arm({"conformity": Conformity(20)}, Commit()),
}
ANSWERS = {
    "nothing": lambda step: "",
    "truth": lambda step: step.truth,
    "lure": lambda step: step.lure or step.truth,
    "talk": lambda step: f"It is {step.truth}, as I was told at the start of this long test. " * 3,
}


def script_of(arm, course) -> Script:
    return Script(COURSES[course], ARMS[arm], 11, PROBES)


def size(shown) -> int:
    return sum(len(message.content.encode()) for message in shown.messages)


def asked(script, answering) -> list[int]:
    """The bytes of all prompts to a subject that answers like this."""
    sizes, answers = [], []
    for turn, step in enumerate(script.course.steps, start=1):
        probes = script.probes_at(turn)
        aside = {"alone": max(step.question.options, key=len)} if "alone" in probes else {}
        if aside:
            sizes.append(size(script.pose_probe(turn, answers, "alone", {})))
        sizes.append(size(script.pose(turn, answers, aside)))
        answers.append(answering(step))
        later = [probe for probe in probes if probe != "alone"]
        sizes += [size(script.pose_probe(turn, answers, probe, aside)) for probe in later]
    return sizes


@pytest.mark.parametrize("answering", ANSWERS)
@pytest.mark.parametrize("course", COURSES)
@pytest.mark.parametrize("arm", ARMS)
def test_forecast_is_an_upper_bound(arm, course, answering):
    calls, prompt_bytes, answers_shown = max_requests([script_of(arm, course)])
    longest = max(len(ANSWERS[answering](step).encode()) for step in COURSES[course].steps)
    taken = asked(script_of(arm, course), ANSWERS[answering])
    assert len(taken) == calls
    assert sum(taken) <= prompt_bytes + longest * answers_shown


@pytest.mark.parametrize("course", COURSES)
@pytest.mark.parametrize("arm", ARMS)
def test_forecast_is_tight_for_a_silent_subject(arm, course):
    taken = sum(asked(script_of(arm, course), ANSWERS["nothing"]))
    assert max_requests([script_of(arm, course)])[1] < 1.1 * taken
