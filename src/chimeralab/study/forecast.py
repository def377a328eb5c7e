"""Forecast the calls, tokens, cost and time of a study, with advice on its design."""

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

# The overhead of chat templates.
TOKENS_PER_MESSAGE = 8
# The variances of a difference between two conditions, between prompts and between repeats, in a
# published study of 720 self-play conversations.
PUBLISHED = (0.0505, 0.0871)


@dataclass(frozen=True, slots=True)
class Load(Record):
    """The maximum load of one model, without retries."""

    model: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None


@dataclass(frozen=True, slots=True)
class Forecast(Record):
    """The maximum that a study can take; None where it is unknown."""

    conversations: int
    calls: int
    loads: tuple[Load, ...]
    cost: float | None
    hours: float | None
    advice: tuple[str, ...]
    gate: tuple[KappaPower, ...] = ()
    detectable: tuple[Any, ...] = ()


def forecast(plan: Plan, answers: Sequence[FirstAnswer] = ()) -> Forecast:
    """Compute upper bounds; the one on time needs an answer from every model."""
    loads = []
    for model, subject in plan.models.items():
        calls, prompt_tokens, completion_tokens = plan.kind.count_requests(plan, model)
        price = subject.price
        cost = price.of(prompt_tokens, completion_tokens) if price else None
        loads.append(Load(model, calls, prompt_tokens, completion_tokens, cost))
    costs = [load.cost for load in loads if load.calls]
    conversations = len(plan.conditions) * len(plan.prompts) * plan.conversation.repeats
    gate = plan.extras["gate"]
    power = gate.power(conversations, len(plan.prompts))
    return Forecast(
        conversations=conversations,
        calls=sum(load.calls for load in loads),
        loads=tuple(loads),
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
        hours=_hours(loads, answers, plan.run.concurrency),
        advice=(
            *_advice(plan, loads),
            *gate.advise(conversations, len(plan.prompts)),
            *plan.kind.advise(plan),
        ),
        gate=power,
        detectable=plan.kind.detectable(plan),
    )


def gate_in_words(found: KappaPower) -> str:
    """Describe the power of a gate, for `chimera check`."""
    low, high = found.interval
    return (
        f"gate on {found.items} items, {100 * found.prevalence:.0f} % of them loops: a kappa of "
        f"{2 * found.good - 1:.2f} has the interval {low:.2f} to {high:.2f}; raters pass with "
        f"probability {100 * found.good_passes:.0f} % if their true kappa is {found.good:.2f}, and "
        f"{100 * found.poor_passes:.0f} % if it is {found.poor:.2f} (the items count as "
        f"{found.effective:.0f} independent ones: labels on one prompt are assumed to correlate by "
        f"{WITHIN_PROMPTS:g})"
    )


def max_token_count(text: str) -> int:
    """An upper bound on the tokens of a text: no tokenizer makes more tokens than bytes."""
    return len(text.encode())


def _hours(loads: Sequence[Load], answers: Sequence[FirstAnswer], concurrency: int) -> float | None:
    """Extrapolate from one short answer, assuming perfect concurrency."""
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
            f"repeat find {_describe_power(prompts * repeats, 1)} where {prompts} x {repeats} find "
            f"{_describe_power(prompts, repeats)} (80 % power, variances of a published study)"
        )
    if prompts == 1:
        yield f"results on one {noun} do not generalise to others; add {noun}s"
    if not plan.run.interleave and len(plan.conditions) > 1:
        yield "without interleaving, drift over time is confounded with the condition"
    measures = (condition.countermeasure for condition in plan.conditions.values())
    standing_in = {model for part in measures if part for model in models_of(part.settings)}
    for load in loads:
        if not load.calls and load.model not in standing_in:
            yield f"[models.{load.model}] is not used in any condition"


def _describe_power(prompts: int, repeats: int) -> str:
    difference = detectable_difference(PUBLISHED, prompts, repeats)
    return f"a difference of {difference:.3f}" if difference < 1 else "none"
