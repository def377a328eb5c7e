"""The stress trial in Inspect: each session is a sample, and measures are grouped by arm."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput
from inspect_ai.scorer import (
    Metric,
    Score,
    Scorer,
    Target,
    grouped,
    mean,
    metric,
    scorer,
    stderr,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver

from chimeralab.core.errors import InputError
from chimeralab.core.parts import choose
from chimeralab.integrations.inspect.guard import UNGUARDED
from chimeralab.integrations.inspect.samples import (
    as_prerequisite,
    assign_models,
    converse_in_sample,
    open_study,
)
from chimeralab.models.inspect import InspectModel

if TYPE_CHECKING:
    from chimeralab.models import seam
    from chimeralab.runner import MemoryJournal, Talk
    from chimeralab.study import Study
    from chimeralab.trial.plan import TrialPlan

ROWS = "chimeralab:trials"


@task
def stress_trial(study: str, subject: str | None = None, allow_code: bool = False) -> Task:
    """Run the sessions of a trial, with all its subjects or one.

    A model of the plan is replaced by the model role of its name, or a single one by the evaluated
    model; agents and phantoms of the plan run as themselves.
    """
    with as_prerequisite():
        opened = open_study(study, allow_code)
        trial = _trial(opened)
        subjects = dict.fromkeys(trial.subjects.values())
        if subject is not None:
            choose(subject, subjects, f"subject {subject!r} of {study}")
        talks = [talk for talk in opened.talks if subject in (None, _subject(talk))]
        solve, measured = trial_session(study, allow_code), stress_measures(study, allow_code)
    return Task(
        name=opened.plan.study.name,
        dataset=[
            Sample(
                input=talk.prompt.text,
                id=talk.id,
                metadata={
                    "arm": talk.condition,
                    "subject": _subject(talk),
                    "scenario": talk.prompt.id,
                    "repeat": talk.repeat,
                },
            )
            for talk in talks
        ],
        solver=solve,
        scorer=measured,
        metadata=UNGUARDED,
    )


@solver
def trial_session(study: str, allow_code: bool = False) -> Solver:
    """Run the trial session whose id is the sample's."""
    opened = open_study(study, allow_code)
    planned = {talk.id: talk for talk in opened.talks}

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        talk = planned[str(state.sample_id)]

        def write_messages(journal: "MemoryJournal") -> None:
            if talk.script is None:
                raise InputError(f"{talk.id} is not a session of a trial")
            # The conversation as the subject saw it at the last question, and the answer.
            answers = [turn.text for turn in journal.history(talk.id)]
            turn = len(answers)
            shown = talk.script.pose(turn, answers, journal.probe_replies(talk.id, turn)).messages
            kinds = {"user": ChatMessageUser, "assistant": ChatMessageAssistant}
            state.messages = [kinds[each.role](content=each.content) for each in shown]
            state.messages.append(ChatMessageAssistant(content=answers[-1], source="generate"))
            state.output = ModelOutput.from_message(state.messages[-1])

        async with _subject_of(opened, talk) as models:
            wait = opened.plan.run.retry_wait
            journal = await converse_in_sample(
                talk, models, on_turn=write_messages, retry_wait=wait
            )
        state.store.set(ROWS, [row.cells() for row in journal.rows[talk.id]])
        return state

    return solve


@metric(name="mean")
def arm_mean() -> Metric:
    return grouped(mean(), "arm", all=False)


@metric(name="stderr")
def arm_stderr() -> Metric:
    """Standard error by arm, clustered by scenario: its sessions are not independent."""
    return grouped(stderr(cluster="scenario"), "arm", all=False)


@scorer(metrics={"*": [arm_mean(), arm_stderr()]})
def stress_measures(study: str, allow_code: bool = False) -> Scorer:
    """Score the measures of a session, as in the analysis of a trial."""
    opened = open_study(study, allow_code)
    trial = _trial(opened)
    planned = {talk.id: talk for talk in opened.talks}

    async def score(state: TaskState, target: Target) -> Score:
        from chimeralab.trial.effects import measure_sessions  # noqa: PLC0415 - needs the lab extra
        from chimeralab.trial.measures import find_measure  # noqa: PLC0415
        from chimeralab.trial.trials import TrialRow  # noqa: PLC0415

        talk = planned[str(state.sample_id)]
        rows: list[dict[str, Any]] = state.store.get(ROWS, [])
        if not rows:
            return Score.unscored(explanation="The session did not finish.")
        place = {"arm": talk.condition, "scenario": talk.prompt.id, "repeat": talk.repeat}
        trials = [TrialRow.from_cells(row, talk.id, **place) for row in rows]
        [session] = measure_sessions(trials, trial.weights, trial.custom_measures)
        shown = {name: tally for name, tally in session.tallies.items() if find_measure(name).brief}
        return Score(
            value={
                str(name): tally.hits / tally.among if tally.among else math.nan
                for name, tally in shown.items()
            },
            explanation="; ".join(
                f"{find_measure(name).says}: {tally.hits:g} of {tally.among:g}"
                for name, tally in shown.items()
                if tally.among and find_measure(name).unit == "share"
            ),
            metadata={"trials": rows},
        )

    return score


def _trial(study: "Study") -> "TrialPlan":
    from chimeralab.trial.store import trial_plan  # noqa: PLC0415 - needs the lab extra

    return trial_plan(study)


def _subject(talk: "Talk") -> str:
    return talk.speakers[0].model


@asynccontextmanager
async def _subject_of(study: "Study", talk: "Talk") -> "AsyncIterator[dict[str, seam.Model]]":
    from chimeralab.study.subjects import open_models  # noqa: PLC0415 - needs the lab extra
    from chimeralab.trial.phantoms import SUBJECTS  # noqa: PLC0415

    name = _subject(talk)
    runs_itself = name in _trial(study).agents or isinstance(
        study.plan.models[name].part.settings, tuple(SUBJECTS.values())
    )
    if not runs_itself:  # neither an agent nor a phantom: use a model of Inspect
        yield {name: InspectModel(model) for name, model in assign_models([name]).items()}
        return
    alone = replace(study.plan, models={name: study.plan.models[name]})
    async with open_models(alone, study.path) as models:
        yield models
