"""The rules rater: the rubric's decision steps, carried out the same way every time."""

from collections.abc import Sequence
from typing import NamedTuple

from chimeralab.rating.ratings import Item, Noted, Rating
from chimeralab.rating.rubric import KindName, Rubric, StepName, load_rubric
from chimeralab.rating.spans import (
    Span,
    alternations,
    reaching_back,
    short_form_spans,
    template_spans,
    verbatim_spans,
)
from chimeralab.rating.wording import Wording, wording

NAME = "rules"


class Found(NamedTuple):
    """The stretches that one step finds."""

    step: StepName
    kind: KindName
    spans: tuple[Span, ...]


class RulesRater:
    """Rates by the rules alone: no model, no chance."""

    def __init__(self, rubric: Rubric | None = None) -> None:
        self.rubric = rubric or load_rubric()

    async def rate(self, item: Item) -> Rating:
        return rate_by_rules(item, self.rubric)


def rate_by_rules(item: Item, rubric: Rubric) -> Rating:
    """Take the steps in order; the first that finds a stretch decides."""
    apart = {text: wording(text) for text in dict.fromkeys(item.texts)}
    texts = [apart[text] for text in item.texts]
    if not texts:
        return Rating(item.id, NAME, None, "There is no turn to rate.", rubric=rubric.version)
    found = [step for step in take_steps(texts, rubric) if step.spans]
    return _positive(item, rubric, found) if found else _negative(item, rubric, texts)


def take_steps(texts: Sequence[Wording], rubric: Rubric) -> tuple[Found, ...]:
    """What each step finds, in the rubric's order: stretches that are long enough."""
    steps: tuple[tuple[StepName, KindName, list[Span]], ...] = (
        ("verbatim", "A", verbatim_spans(texts)),
        ("template", "B", template_spans(texts)),
        ("short_form", "C", short_form_spans(texts, rubric.short_words)),
    )
    return tuple(
        Found(
            step,
            kind,
            tuple(
                reaching_back(texts, span) for span in spans if len(span) >= rubric.adjacent_turns
            ),
        )
        for step, kind, spans in steps
    )


def _positive(item: Item, rubric: Rubric, found: Sequence[Found]) -> Rating:
    decisive = found[0]
    span = decisive.spans[0]
    return Rating(
        item=item.id,
        rater=NAME,
        label=1,
        reason=f"Turns {span.start} to {span.end} {SAYING[decisive.step]}, {len(span)} in a row.",
        turns=span.turns,
        step=decisive.step,
        kinds=tuple(step.kind for step in found),
        rubric=rubric.version,
    )


SAYING: dict[StepName, str] = {
    "verbatim": "are the same text",
    "template": "fill one template and add nothing to it",
    "short_form": "are one and the same short utterance",
}


def _negative(item: Item, rubric: Rubric, texts: Sequence[Wording]) -> Rating:
    taking_turns = alternations(texts)
    reason = _closest(texts, taking_turns)
    return Rating(
        item=item.id,
        rater=NAME,
        label=0,
        reason=reason.sentence,
        turns=reason.span.turns,
        step="default",
        noted=tuple(Noted("alternation", span.turns) for span in taking_turns),
        rubric=rubric.version,
    )


class Closest(NamedTuple):
    """The stretch that came closest to a loop, and why it is none."""

    span: Span
    sentence: str


def _closest(texts: Sequence[Wording], taking_turns: Sequence[Span]) -> Closest:
    if taking_turns:
        span = max(taking_turns, key=len)
        place = f"turns {span.start} to {span.end} alternate between two different texts"
        return Closest(span, f"No three adjacent turns are the same: {place}.")
    span = max((*verbatim_spans(texts), *template_spans(texts)), key=len)
    if len(span) > 1:
        return Closest(span, f"Only turns {span.start} and {span.end} are alike: two in a row.")
    everything = Span(1, len(texts))
    return Closest(everything, f"No two adjacent turns among 1 to {len(texts)} are the same.")
