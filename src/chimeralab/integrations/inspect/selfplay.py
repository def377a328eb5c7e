"""Self-play in Inspect: a solver in which models talk to each other, and a task for studies."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput, get_model
from inspect_ai.scorer import grouped, mean, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from chimeralab.core.parts import choose
from chimeralab.integrations.inspect.guard import UNGUARDED
from chimeralab.integrations.inspect.samples import (
    as_prerequisite,
    assign_models,
    converse_in_sample,
    open_study,
)
from chimeralab.integrations.inspect.scorers import collapse_rate, looping
from chimeralab.models.inspect import InspectModel
from chimeralab.readers.evaluations import METADATA_KEY

if TYPE_CHECKING:
    from chimeralab.runner import MemoryJournal, Talk


@solver
def self_play(
    turns: int = 40,
    speakers: int | Mapping[str, str | None] = 2,
    seed_visible: Literal["all", "first"] = "all",
) -> Solver:
    """Let the model talk to itself about the input of each sample.

    `speakers` is the number of speakers without a system prompt, or names with system prompts. A
    model role with a speaker's name replaces its model. Sampling is that of the evaluation.
    """
    if not isinstance(speakers, Mapping):
        speakers = dict.fromkeys(f"speaker-{number}" for number in range(1, speakers + 1))
    names = speakers

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        from chimeralab.models.seam import Sampling  # noqa: PLC0415 - Inspect starts without it
        from chimeralab.runner import Prompt, Rules, Speaker, Talk  # noqa: PLC0415

        cast_as = {name: get_model(role=name) for name in names}
        talk = Talk(
            "self-play",
            Prompt(str(state.sample_id), state.input_text),
            state.epoch,
            tuple(Speaker(name, name, Sampling(), system) for name, system in names.items()),
            Rules(turns=turns, seed_visible=seed_visible),
            seed=0,
        )
        models = {
            name: InspectModel(model, send_seed=False, send_sampling=False)
            for name, model in cast_as.items()
        }
        await converse_in_sample(talk, models, on_turn=_turn_writer(state, talk))
        return state

    return solve


@task
def self_play_study(study: str, condition: str | None = None, allow_code: bool = False) -> Task:
    """Run the conversations of a study, or of one condition, with Inspect's models.

    Prompts, speakers, sampling, seeds, rules and countermeasures are those of the plan. Its models
    are replaced by the model roles of their names, or a single one by the evaluated model.
    """
    with as_prerequisite():
        opened = open_study(study, allow_code)
        if condition is not None:
            choose(condition, opened.plan.conditions, f"condition {condition!r} of {study}")
        talks = [talk for talk in opened.talks if condition in (None, talk.condition)]
        solve, collapsed = study_self_play(study, allow_code), collapse_rate(study, allow_code)
    return Task(
        name=f"{opened.plan.study.name}-{condition}" if condition else opened.plan.study.name,
        dataset=[
            Sample(
                input=talk.prompt.text,
                id=talk.id,
                metadata={
                    "condition": talk.condition,
                    "prompt": talk.prompt.id,
                    "bucket": talk.prompt.bucket,
                    "repeat": talk.repeat,
                },
            )
            for talk in talks
        ],
        solver=solve,
        scorer=[looping(), collapsed],
        metadata=UNGUARDED,
        # Conversations about one prompt are not independent of each other.
        metrics=[
            grouped(mean(), "condition", all=False),
            grouped(
                stderr(cluster="prompt"),
                "condition",
                all=False,
                name_template="{group_name} stderr",
            ),
        ],
    )


@solver
def study_self_play(study: str, allow_code: bool = False) -> Solver:
    """Run the study's conversation whose id is the sample's."""
    opened = open_study(study, allow_code)
    planned = {talk.id: talk for talk in opened.talks}
    watch = None
    if opened.plan.needs_guard:
        from chimeralab.study.run import guard_factory  # noqa: PLC0415 - only where the plan asks for it

        watch = guard_factory(opened.plan, True)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        from chimeralab.runner.interventions import models_of  # noqa: PLC0415 - as above

        talk = planned[str(state.sample_id)]
        # Another epoch is another repeat, with its own seeds.
        later = talk.repeat + (state.epoch - 1) * opened.plan.conversation.repeats
        talk = replace(talk, repeat=later)
        # The models of the speakers, and those that a countermeasure uses.
        names = dict.fromkeys(speaker.model for speaker in talk.speakers)
        if talk.countermeasure is not None:
            names |= dict.fromkeys(models_of(talk.countermeasure))
        models = {name: InspectModel(model) for name, model in assign_models(names).items()}
        wait = opened.plan.run.retry_wait
        await converse_in_sample(
            talk, models, watch=watch, on_turn=_turn_writer(state, talk), retry_wait=wait
        )
        return state

    return solve


def _turn_writer(state: TaskState, talk: "Talk") -> "Callable[[MemoryJournal], None]":
    """Return a function that adds turns to a sample as the assistant's; the seed is the user's."""
    state.messages = [
        ChatMessageUser(content=talk.prompt.text, metadata={METADATA_KEY: {"seed": True}})
    ]

    def write_turn(journal: "MemoryJournal") -> None:
        turn = journal.history(talk.id)[-1]
        message = ChatMessageAssistant(
            content=turn.text,
            model=turn.model,
            source="generate",
            metadata={METADATA_KEY: {"speaker": turn.speaker}},
        )
        state.messages.append(message)
        state.output = ModelOutput.from_message(message)

    return write_turn
