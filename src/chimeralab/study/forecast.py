"""What a study will ask for before any of it is spent: calls, tokens, money, time, and advice."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chimeralab.core.records import Record
from chimeralab.runner.interventions import models_of
from chimeralab.stats.planning import (
    WITHIN_PROMPTS,
    KappaPower,
    detectable_difference,
)
from chimeralab.study.plan import Plan
from chimeralab.study.subjects import FirstAnswer

# Chat templates wrap every message in a few tokens of their own.
TOKENS_A_MESSAGE = 8
# How a difference between two conditions varied between prompts and between repeats in a published
# study of 720 self-play conversations: the only figures there are until a study has its own.
PUBLISHED = (0.0505, 0.0871)


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
    gate: tuple[KappaPower, ...] = ()
    detectable: tuple[Any, ...] = ()


def forecast(plan: Plan, answers: Sequence[FirstAnswer] = ()) -> Forecast:
    """Count everything at its longest; times need an answer of every model."""
    loads = []
    for model, subject in plan.models.items():
        calls, prompt_tokens, completion_tokens = plan.kind.count_requests(plan, model)
        price = subject.price
        cost = price.of(prompt_tokens, completion_tokens) if price else None
        loads.append(Load(model, calls, prompt_tokens, completion_tokens, cost))
    costs = [load.cost for load in loads if load.calls]
    conversations = len(plan.conditions) * len(plan.prompts) * plan.conversation.repeats
    gate = plan.extras["gate"]
    sharpness = gate.power(conversations, len(plan.prompts))
    return Forecast(
        conversations=conversations,
        calls=sum(load.calls for load in loads),
        loads=tuple(loads),
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
        hours=_hours(loads, answers, plan.run.concurrency),
        advice=(
            *_advice(plan, loads),
            *gate.advise(sharpness),
            *plan.kind.advise(plan),
        ),
        gate=sharpness,
        detectable=plan.kind.detectable(plan),
    )


def gate_in_words(found: KappaPower) -> str:
    """How sharply a gate decides, for `chimera check`."""
    low, high = found.interval
    return (
        f"gate on {found.items} items, {100 * found.prevalence:.0f} % of them loops: kappa "
        f"{2 * found.good - 1:.2f} has an interval of {low:.2f} to {high:.2f}; raters with a true "
        f"kappa of {found.good:.2f} meet it with a chance of {100 * found.good_passes:.0f} %, "
        f"those with {found.poor:.2f} with one of {100 * found.poor_passes:.0f} % (they count as "
        f"{found.effective:.0f} independent ones: labels on one prompt are assumed to correlate by "
        f"{WITHIN_PROMPTS:g})"
    )


def tokens_at_most(text: str) -> int:
    """No tokenizer in use makes more tokens of a text than it has bytes."""
    return len(text.encode())


def _hours(loads: Sequence[Load], answers: Sequence[FirstAnswer], concurrency: int) -> float | None:
    """From the speed of one short answer, as if conversations never slowed each other down."""
    speeds = {
        answer.model: answer.completion_tokens / answer.each
        for answer in answers
        if answer.completion_tokens and answer.each
    }
    if any(load.model not in speeds for load in loads if load.calls):
        return None
    seconds = sum(load.completion_tokens / speeds[load.model] for load in loads if load.calls)
    return seconds / concurrency / 3600


def _advice(plan: Plan, loads: Sequence[Load]) -> Iterator[str]:
    prompts, repeats = len(plan.prompts), plan.conversation.repeats
    noun = plan.kind.units.prompt
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
