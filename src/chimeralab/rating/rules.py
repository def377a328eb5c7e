"""The rules rater: a deterministic implementation of the rubric's decision steps."""

from collections.abc import Sequence
from typing import Any

from chimeralab.rating.loops import (
    alternations,
    extend_back,
    short_form_stretches,
    template_stretches,
    verbatim_stretches,
)
from chimeralab.rating.ratings import Item, NotedPattern, RaterFacts, Rating
from chimeralab.rating.rubric import KindName, Rubric, StepName
from chimeralab.rating.wording import Wording, normalize

NAME = "rules"
REASONS: dict[StepName, str] = {
    "verbatim": "are the same text",
    "template": "fill one template and add nothing to it",
    "short_form": "are one and the same short utterance",
}


class RulesPart:
    """`rules`: deterministic, without a model or settings."""

    about = RaterFacts("program")

    def open(self, rubric: Rubric) -> "RulesRater":
        return RulesRater(rubric)


class RulesRater:
    """Applies the rules with one rubric."""

    def __init__(self, rubric: Rubric) -> None:
        self.rubric = rubric

    async def rate(self, item: Item) -> Rating:
        return rate_by_rules(item, self.rubric)


def rate_by_rules(item: Item, rubric: Rubric) -> Rating:
    """Take the steps in order; the first that finds a stretch decides."""
    parsed = {text: normalize(text) for text in dict.fromkeys(item.texts)}
    texts = [parsed[text] for text in item.texts]
    versions: dict[str, Any] = {"rubric": rubric.version, "first_turn": rubric.first_turn}
    if not texts:
        return Rating(item.id, NAME, None, "There is no turn to rate.", **versions)
    found = [step for step in find_stretches(texts, rubric) if step[2]]
    if found:
        step, _, (span, *_) = found[0]
        return Rating(
            item=item.id,
            rater=NAME,
            label=1,
            reason=f"{_place(span, rubric, 'Turns')} {REASONS[step]}, {len(span)} in a row.",
            turns=tuple(span),
            step=step,
            kinds=tuple(kind for _, kind, _ in found),
            **versions,
        )
    alternating = alternations(texts)
    closest, why = _closest(texts, alternating, rubric)
    return Rating(
        item=item.id,
        rater=NAME,
        label=0,
        reason=why,
        turns=tuple(closest),
        step="default",
        noted=tuple(NotedPattern("alternation", tuple(span)) for span in alternating),
        **versions,
    )


def find_stretches(
    texts: Sequence[Wording], rubric: Rubric
) -> list[tuple[StepName, KindName, list[range]]]:
    """Find the stretches of each step, in the rubric's order, if long enough."""
    steps: tuple[tuple[StepName, KindName, list[range]], ...] = (
        ("verbatim", "A", verbatim_stretches(texts)),
        ("template", "B", template_stretches(texts)),
        ("short_form", "C", short_form_stretches(texts, rubric.short_words)),
    )
    return [
        (step, kind, [extend_back(texts, s) for s in spans if len(s) >= rubric.adjacent_turns])
        for step, kind, spans in steps
    ]


def _closest(
    texts: Sequence[Wording], alternating: Sequence[range], rubric: Rubric
) -> tuple[range, str]:
    """Find the stretch that comes closest to a loop, and say why it is not one."""
    if alternating:
        longest = max(alternating, key=len)
        place = f"{_place(longest, rubric)} alternate between two different texts"
        return longest, f"No three adjacent turns are the same: {place}."
    longest = max((*verbatim_stretches(texts), *template_stretches(texts)), key=len)
    if len(longest) > 1:
        return longest, f"Only {_place(longest, rubric, joint='and')} are alike: two in a row."
    everything = range(1, len(texts) + 1)
    place = _place(everything, rubric, "")
    return everything, f"No two adjacent turns among {place} are the same."


def _place(span: range, rubric: Rubric, noun: str = "turns", joint: str = "to") -> str:
    """Name a stretch as the rubric labels its turns: "turns 3 to 5" or "T2 to T4"."""
    first, last = (rubric.label_turns([turn]) for turn in (span[0], span[-1]))
    noun = f"{noun} " if noun and first.isdigit() else ""
    return f"{noun}{first} {joint} {last}" if len(span) > 1 else f"{noun}{first}"
