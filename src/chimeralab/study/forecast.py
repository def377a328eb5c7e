"""What a study will ask for before any of it is spent: calls, tokens, money, time, and advice."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chimeralab.core.records import Record
from chimeralab.runner.interventions import models_of
from chimeralab.stats.planning import VarianceComponents, detectable_difference
from chimeralab.study.folder import planned_talks
from chimeralab.study.plan import Plan
from chimeralab.study.subjects import FirstAnswer
from chimeralab.study.trial.forecast import asked_at_most

# Chat templates wrap every message in a few tokens of their own.
TOKENS_A_MESSAGE = 8
# How a difference between two conditions varied between prompts and between repeats in a published
# study of 720 self-play conversations: the only figures there are until a study has its own.
PUBLISHED = VarianceComponents(between=0.0505, within=0.0871)


@dataclass(frozen=True, slots=True)
class Load(Record):
    """The most that one model can be asked for, not counting retries."""

    model: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None


@dataclass(frozen=True, slots=True)
class Forecast(Record):
    """The most that a study can take. What can't be known is None."""

    conversations: int
    calls: int
    loads: tuple[Load, ...]
    cost: float | None
    hours: float | None
    advice: tuple[str, ...]


def forecast(plan: Plan, answers: Sequence[FirstAnswer] = ()) -> Forecast:
    """Count everything at its longest; times need an answer of every model."""
    counts = _selfplay_counts if plan.trial is None else _trial_counts
    loads = []
    for model, subject in plan.models.items():
        calls, prompt_tokens, completion_tokens = counts(plan, model)
        price = subject.price
        cost = price.of(prompt_tokens, completion_tokens) if price else None
        loads.append(Load(model, calls, prompt_tokens, completion_tokens, cost))
    costs = [load.cost for load in loads if load.calls]
    runs = len(plan.prompts) * plan.conversation.repeats
    return Forecast(
        conversations=len(plan.conditions) * runs,
        calls=sum(load.calls for load in loads),
        loads=tuple(loads),
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
        hours=_hours(loads, answers, plan.run.concurrency),
        advice=tuple(_advice(plan, loads)),
    )


def _trial_counts(plan: Plan, model: str) -> tuple[int, int, int]:
    """Calls, prompt tokens and reply tokens of a subject's sessions, probes included."""
    own = [talk for talk in planned_talks(plan) if talk.speakers[0].model == model]
    asked = asked_at_most(talk.script for talk in own if talk.script)
    longest = max((talk.speakers[0].sampling.max_tokens for talk in own), default=0)
    system = max((_at_most(talk.speakers[0].system or "") for talk in own), default=0)
    messages = 2 * asked.answers_shown + 2 * asked.calls
    prompt = asked.prompt_bytes + longest * asked.answers_shown + TOKENS_A_MESSAGE * messages
    return asked.calls, prompt + system * asked.calls, asked.calls * longest


def _selfplay_counts(plan: Plan, model: str) -> tuple[int, int, int]:
    """The same of a model's turns, each as long as it may be, with all turns before it shown."""
    calls = prompt_tokens = completion_tokens = 0
    rules, repeats = plan.conversation, plan.conversation.repeats
    times = len(plan.prompts) * repeats
    seeds = sum(_at_most(prompt.text) for prompt in plan.prompts)
    for condition in plan.conditions.values():
        earlier = 0
        for turn in range(1, rules.turns + 1):
            slot = (turn - 1) % len(condition.speakers)
            speaker = condition.speakers[slot]
            longest = speaker.sampling.max_tokens
            if speaker.model == model:
                calls += times
                completion_tokens += times * longest
                history = earlier + _at_most(speaker.system or "") + TOKENS_A_MESSAGE * (turn + 1)
                prompt_tokens += times * history
                prompt_tokens += repeats * seeds if rules.seed_visible == "all" or slot == 0 else 0
            earlier += longest
    return calls, prompt_tokens, completion_tokens


def _at_most(text: str) -> int:
    """No tokenizer in use makes more tokens of a text than it has bytes."""
    return len(text.encode())


def _hours(loads: Sequence[Load], answers: Sequence[FirstAnswer], concurrency: int) -> float | None:
    """From the speed of one short answer, as if conversations never slowed each other down."""
    speeds = {
        answer.model: answer.completion_tokens / answer.seconds
        for answer in answers
        if answer.completion_tokens and answer.seconds
    }
    if any(load.model not in speeds for load in loads if load.calls):
        return None
    seconds = sum(load.completion_tokens / speeds[load.model] for load in loads if load.calls)
    return seconds / concurrency / 3600


def _advice(plan: Plan, loads: Sequence[Load]) -> Iterator[str]:
    prompts, repeats = len(plan.prompts), plan.conversation.repeats
    noun = "prompt" if plan.trial is None else "scenario"
    if repeats > 1 and prompts > 1:
        yield (
            f"more {noun}s beat more repeats: at the same cost, {prompts * repeats} {noun}s x 1 "
            f"repeat find {_found(prompts * repeats, 1)} where {prompts} x {repeats} find "
            f"{_found(prompts, repeats)} (80 % power, with the variances of a published study)"
        )
    if prompts == 1:
        yield f"with one {noun} nothing can be said about any other; add {noun}s"
    if not plan.run.interleave and len(plan.conditions) > 1:
        yield "without interleaving, whatever changes over time looks like a condition"
    measures = (condition.countermeasure for condition in plan.conditions.values())
    standing_in = {model for part in measures if part for model in models_of(part.settings)}
    for load in loads:
        if not load.calls and load.model not in standing_in:
            yield f"[models.{load.model}] is named in no condition"


def _found(prompts: int, repeats: int) -> str:
    difference = detectable_difference(PUBLISHED, prompts, repeats)
    return f"a difference of {difference:.3f}" if difference < 1 else "none at all"
