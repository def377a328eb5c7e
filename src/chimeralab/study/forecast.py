"""What a study will ask for before any of it is spent: calls, tokens, money, time, and advice."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chimeralab.core.records import Record
from chimeralab.rating.plan import GateTable
from chimeralab.runner.interventions import models_of
from chimeralab.stats.planning import (
    WITHIN_PROMPTS,
    KappaPower,
    detectable_difference,
    gate_power,
)
from chimeralab.study.plan import Plan
from chimeralab.study.subjects import FirstAnswer

# Chat templates wrap every message in a few tokens of their own.
TOKENS_A_MESSAGE = 8
# How a difference between two conditions varied between prompts and between repeats in a published
# study of 720 self-play conversations: the only figures there are until a study has its own.
PUBLISHED = (0.0505, 0.0871)
# How many of its conversations raters called loops; half of them would be the best case.
PREVALENCES = (0.5, 0.91)
TOO_OFTEN, TOO_RARELY = 0.1, 0.5


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
    gate: GateTable = plan.extras["gate"]
    sharpness = _sharpness(gate, conversations, len(plan.prompts))
    return Forecast(
        conversations=conversations,
        calls=sum(load.calls for load in loads),
        loads=tuple(loads),
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
        hours=_hours(loads, answers, plan.run.concurrency),
        advice=(
            *_advice(plan, loads),
            *_on_gate(gate, sharpness),
            *plan.kind.advise(plan),
        ),
        gate=sharpness,
        detectable=plan.kind.detectable(plan),
    )


def _sharpness(gate: GateTable, conversations: int, prompts: int) -> tuple[KappaPower, ...]:
    """What the items of a declared gate can show, by the share of loops among them.

    Conversations on one prompt are one cluster, in the gate as here; a sample is as if drawn from
    all of them.
    """
    # Where half the labels are 1, agreement is kappa on another scale, and so are the others.
    threshold = 2 * gate.threshold - 1 if gate.statistic == "agreement" else gate.threshold
    if not gate.declared or not -0.9 < threshold < 1:
        return ()
    of_kappa = gate.statistic in ("kappa", "alpha")
    items, bound = min(gate.sample or conversations, conversations), gate.rule == "lower_ci"
    others = max(conversations - 1, 1)
    partners = (items - 1) * (conversations / prompts - 1) / others
    return tuple(
        gate_power(items, threshold, share, lower_bound=bound, partners=partners)
        for share in (PREVALENCES if of_kappa else PREVALENCES[:1])
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


def _on_gate(gate: GateTable, sharpness: Sequence[KappaPower]) -> Iterator[str]:
    """Whether a gate can decide anything."""
    if not sharpness:
        return
    best_case = sharpness[0]
    threshold = 2 * best_case.good - 1
    if gate.rule == "point" and best_case.poor_passes > TOO_OFTEN:
        yield (
            f"the gate passes on noise: with rule = 'point', raters with a true kappa of "
            f"{best_case.poor:.2f} meet it with a chance of {100 * best_case.poor_passes:.0f} %; "
            "use rule = 'lower_ci'"
        )
    if gate.rule == "lower_ci" and best_case.best < threshold:
        yield (
            f"the gate can't be met: on {best_case.items} items even raters who agree on all of "
            f"them have a lower bound of {best_case.best:.2f}, and {threshold:.2f} is asked for"
        )
    elif best_case.good_passes < TOO_RARELY:
        yield (
            f"the gate can hardly decide: raters with a true kappa of {best_case.good:.2f} meet it "
            f"with a chance of {100 * best_case.good_passes:.0f} % at best; `chimera plan-ratings` "
            "says how many items it takes"
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
