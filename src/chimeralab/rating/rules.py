"""The rules rater: the rubric's decision steps, carried out the same way every time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from chimeralab.core.records import Record
from chimeralab.rating.loops import (
    Stretch,
    alternations,
    reaching_back,
    short_form_stretches,
    template_stretches,
    verbatim_stretches,
)
from chimeralab.rating.ratings import Item, Noted, RaterFacts, Rating
from chimeralab.rating.rubric import KindName, Rubric, StepName
from chimeralab.rating.wording import Wording, wording

NAME = "rules"
SAYING: dict[StepName, str] = {
    "verbatim": "are the same text",
    "template": "fill one template and add nothing to it",
    "short_form": "are one and the same short utterance",
}


class StepFinding(NamedTuple):
    """The stretches that one step finds."""

    step: StepName
    kind: KindName
    stretches: tuple[Stretch, ...]


class Closest(NamedTuple):
    """The stretch that came closest to a loop, and why it is not one."""

    stretch: Stretch
    sentence: str


@dataclass(frozen=True, slots=True)
class RulesSettings(Record):
    """`rules`: no model, no chance, and nothing to set."""

    about: ClassVar[RaterFacts] = RaterFacts("program")

    def open(self, rubric: Rubric) -> "RulesRater":
        return RulesRater(rubric)


class RulesRater:
    """The rules at work with one rubric."""

    def __init__(self, rubric: Rubric) -> None:
        self.rubric = rubric

    async def rate(self, item: Item) -> Rating:
        return rate_by_rules(item, self.rubric)


def rate_by_rules(item: Item, rubric: Rubric) -> Rating:
    """Take the steps in order; the first that finds a stretch decides."""
    apart = {text: wording(text) for text in dict.fromkeys(item.texts)}
    texts = [apart[text] for text in item.texts]
    if not texts:
        return Rating(item.id, NAME, None, "There is no turn to rate.", rubric=rubric.version)
    found = [step for step in take_steps(texts, rubric) if step.stretches]
    if found:
        decisive, (start, end) = found[0], found[0].stretches[0]
        count = end - start + 1
        return Rating(
            item=item.id,
            rater=NAME,
            label=1,
            reason=f"Turns {start} to {end} {SAYING[decisive.step]}, {count} in a row.",
            turns=tuple(range(start, end + 1)),
            step=decisive.step,
            kinds=tuple(step.kind for step in found),
            rubric=rubric.version,
        )
    taking_turns = alternations(texts)
    closest = _closest(texts, taking_turns)
    return Rating(
        item=item.id,
        rater=NAME,
        label=0,
        reason=closest.sentence,
        turns=closest.stretch.turns,
        step="default",
        noted=tuple(Noted("alternation", stretch.turns) for stretch in taking_turns),
        rubric=rubric.version,
    )


def take_steps(texts: Sequence[Wording], rubric: Rubric) -> tuple[StepFinding, ...]:
    """What each step finds, in the rubric's order: stretches that are long enough."""
    steps: tuple[tuple[StepName, KindName, list[Stretch]], ...] = (
        ("verbatim", "A", verbatim_stretches(texts)),
        ("template", "B", template_stretches(texts)),
        ("short_form", "C", short_form_stretches(texts, rubric.short_words)),
    )
    return tuple(
        StepFinding(
            step,
            kind,
            tuple(
                reaching_back(texts, stretch)
                for stretch in stretches
                if len(stretch) >= rubric.adjacent_turns
            ),
        )
        for step, kind, stretches in steps
    )


def _closest(texts: Sequence[Wording], taking_turns: Sequence[Stretch]) -> Closest:
    if taking_turns:
        longest = max(taking_turns, key=len)
        place = f"turns {longest.start} to {longest.end} alternate between two different texts"
        return Closest(longest, f"No three adjacent turns are the same: {place}.")
    longest = max((*verbatim_stretches(texts), *template_stretches(texts)), key=len)
    if len(longest) > 1:
        which = f"turns {longest.start} and {longest.end}"
        return Closest(longest, f"Only {which} are alike: two in a row.")
    everything = Stretch(1, len(texts))
    return Closest(everything, f"No two adjacent turns among 1 to {len(texts)} are the same.")
