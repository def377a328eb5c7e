"""Self-play and stress trials as Inspect tasks."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="inspect-ai is an extra")

from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog

from chimeralab import pipeline, readers
from chimeralab.detection.judging import detect
from chimeralab.integrations.inspect import looping, self_play, self_play_study, stress_trial
from chimeralab.integrations.inspect.samples import TaskRefused
from chimeralab.trial.effects import measure_sessions
from tests.inspect_agent import run, speaking
from tests.plans import SELFPLAY, trial
from tests.studies import MakeStudy, rows

PLAN = """
[models.a]
use = "phantom"
[models.b]
use = "phantom"
[conditions.alone]
speakers = ["a", "a"]
system = "Be brief."
sampling = { temperature = 0.2, max_tokens = 9 }
[conditions.both]
speakers = ["a", { model = "b", name = "critic" }]
[conditions.helped]
speakers = ["a", "a"]
countermeasure = { use = "nudge", text = "Say something new.", turns = 4 }
[conversation]
turns = 8
[detector]
use = "loops"
"""


@pytest.fixture
def study(make_study: MakeStudy) -> str:
    return str(make_study(SELFPLAY, PLAN).path)


def loops_after(turns: int):
    """Replies with something new a few times, then the same, unless asked for something new."""
    ideas = ("We could walk.", "A tram goes there at noon.", "Maybe rent two bicycles instead.")

    def answer(shown: list) -> str:
        if "Say something new." in shown[-1].text:
            return "Let us ask the harbour master about boats."
        place = sum(message.role != "system" for message in shown) - 1
        return ideas[place % 3] if place < turns else "That sounds wonderful, let us do that."

    return speaking(answer)


def asked(log: EvalLog) -> list:
    return [event for event in log.samples[0].events if event.event == "model"]


def test_self_play_log_names_the_speakers(tmp_path: Path) -> None:
    task = Task(
        dataset=[Sample(input="Plan a trip.", id="trip")],
        solver=self_play(turns=9, speakers={"dreamer": "Dream.", "doubter": None}),
        scorer=looping(),
    )
    log = run(task, loops_after(3), tmp_path, temperature=0.4)
    [sample] = log.samples or []
    assert [message.role for message in sample.messages] == ["user"] + ["assistant"] * 9
    assert sample.scores["looping"].value == 1.0
    first, second, *_ = asked(log)
    assert [message.role for message in first.input] == ["system", "user"]
    assert [message.role for message in second.input] == ["user"]
    assert "We could walk." in second.input[0].text
    assert first.config.temperature == 0.4
    [read] = readers.read_all([tmp_path])
    assert [turn.speaker for turn in read.turns[1:4]] == ["dreamer", "doubter", "dreamer"]
    found = detect(read, detector=None)
    assert (found.judged, found.turns, found.looping) == ("all turns (self-play)", 9, True)


def test_condition_is_run_by_its_plan(study: str, tmp_path: Path) -> None:
    log = run(self_play_study(study, condition="alone"), loops_after(3), tmp_path / "logs")
    assert log.status == "success", log.error
    assert {sample.id for sample in log.samples} == {"alone/p1/1", "alone/p2/1"}
    first = asked(log)[0]
    assert first.input[0].text == "Be brief."
    assert (first.config.temperature, first.config.max_tokens) == (0.2, 9)
    assert first.config.seed is not None
    metrics = {score.name: score.metrics for score in log.results.scores}
    assert metrics["looping"]["alone"].value == 1.0
    # By the detector of the plan: the last of eight turns repeat.
    assert 0.0 < metrics["collapse_rate"]["alone"].value < 1.0
    grouped = {read.metadata["condition"] for read in readers.read_all([tmp_path / "logs"])}
    assert grouped == {"alone"}


def test_a_countermeasure_of_the_plan_acts(study: str, tmp_path: Path) -> None:
    log = run(self_play_study(study, condition="helped"), loops_after(2), tmp_path)
    sample = log.samples[0]
    assert any("harbour master" in message.text for message in sample.messages)
    events = [event.data for event in sample.events if event.event == "info"]
    assert any(event.get("kind") == "intervention" for event in events)


def test_several_models_need_a_role_each(study: str, tmp_path: Path) -> None:
    one = run(self_play_study(study, condition="both"), loops_after(9), tmp_path / "one")
    assert one.status == "error"
    assert "--model-role a=PROVIDER/MODEL --model-role b=PROVIDER/MODEL" in one.error.message
    roles = {"a": speaking(lambda shown: "Yes."), "b": speaking(lambda shown: "No.")}
    log = run(
        self_play_study(study, condition="both"), loops_after(9), tmp_path / "two",
        model_roles=roles,
    )  # fmt: skip
    said = [message.text for message in log.samples[0].messages[1:]]
    assert said == ["Yes.", "No."] * 4


def test_another_epoch_is_another_repeat(study: str, tmp_path: Path) -> None:
    task = self_play_study(study, condition="alone")
    log = run(task, loops_after(9), tmp_path, epochs=2, limit=1)
    seeds = {
        next(event.config.seed for event in sample.events if event.event == "model")
        for sample in log.samples
    }
    assert len(seeds) == 2


def test_a_limit_ends_the_sample_with_what_was_said(tmp_path: Path) -> None:
    task = Task(
        dataset=[Sample(input="Plan a trip.", id="trip")],
        solver=self_play(turns=9),
        token_limit=6,
    )
    log = run(task, loops_after(9), tmp_path)
    [sample] = log.samples or []
    assert sample.limit.type == "token"
    assert 2 <= len([m for m in sample.messages if m.role == "assistant"]) <= 4


def test_bad_task_is_reported_in_a_sentence(study: str, tmp_path: Path) -> None:
    for make, words in (
        (lambda: self_play_study(str(tmp_path / "gone")), "is not a study"),
        (lambda: self_play_study(study, condition="alon"), "condition 'alon'"),
        (lambda: stress_trial(study), "is not a trial"),
    ):
        with pytest.raises(TaskRefused, match=words) as refused:
            make()
        # This is what Inspect prints, with brackets as they are.
        assert str(refused.value.message) == str(refused.value)


CONFORMITY = 'each = ["conformity"]'


def options_of(shown: list) -> list[str]:
    return shown[-1].text.rpartition("Options: ")[2].split("\n")[0].split(", ")


def test_a_trial_is_scored_as_the_analysis_does(make_study: MakeStudy, tmp_path: Path) -> None:
    """The same phantom, asked by the lab and in Inspect, has the same measures."""
    study = make_study(trial(design=CONFORMITY, number=2))
    log = run(stress_trial(str(study.path)), speaking(lambda shown: "unused"), tmp_path / "logs")
    assert log.status == "success", log.error
    pipeline.run(study)
    expected = {
        session.rows[0].session: session.tallies
        for session in measure_sessions(rows(study), study.plan.own.weights)
    }
    samples = log.samples or []
    assert len(samples) == len(expected) == 6
    for sample in samples:
        values: Any = sample.scores["stress_measures"].value
        tally = expected[sample.id]["accuracy"]
        assert values["accuracy"] == pytest.approx(tally.hits / tally.among)
        assert len(sample.scores["stress_measures"].metadata["trials"]) == tally.among
    [accuracy] = [score for score in log.results.scores if score.name == "accuracy"]
    assert {name.rpartition("_")[2] for name in accuracy.metrics} == {
        "control",
        "sham",
        "conformity",
    }


def test_a_model_of_inspect_is_the_subject_and_probes_leave_no_trace(
    make_study: MakeStudy, tmp_path: Path
) -> None:
    study = make_study(trial('use = "phantom"', CONFORMITY, number=1))
    shown: list[list] = []

    def answer(messages: list) -> str:
        shown.append(messages)
        return options_of(messages)[0] if "Options: " in messages[-1].text else "0.7"

    log = run(stress_trial(str(study.path)), speaking(answer), tmp_path / "logs")
    assert log.status == "success", log.error
    sample = next(each for each in log.samples if each.metadata["arm"] == "conformity")
    assert sample.messages[-1].role == "assistant"
    asked_aside = [messages for messages in shown if "Reply with one number" in messages[-1].text]
    assert asked_aside
    assert not any("Reply with one number" in message.text for message in sample.messages)
