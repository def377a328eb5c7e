"""A custom rater: 1 if the last turns are the same text.

In a plan next to this file:

    [raters.mine]
    use = "own_rater:Ending"
    turns = 4
"""

from dataclasses import dataclass
from typing import ClassVar

from chimeralab.ext import Item, RaterFacts, Rating, Rubric


@dataclass(frozen=True)
class Ending:
    """The settings in the plan, and the facts about the rater."""

    about: ClassVar[RaterFacts] = RaterFacts(kind="program")

    turns: int = 3

    def open(self, rubric: Rubric) -> "EndingRater":
        return EndingRater(self.turns, rubric)


class EndingRater:
    """The rater at work; the study stores its ratings under the name in the plan."""

    def __init__(self, turns: int, rubric: Rubric) -> None:
        self.turns = turns
        self.rubric = rubric

    async def rate(self, item: Item) -> Rating:
        count = len(item.texts)
        last = item.texts[-self.turns :]
        first = count - len(last) + 1
        if len(last) < self.turns or len(set(last)) > 1:
            return Rating(item.id, "", 0, f"The last {self.turns} turns are not one text.")
        # Turns are counted from 1; a reason names them as the rubric labels them.
        cited = tuple(range(first, count + 1))
        return Rating(item.id, "", 1, f"{self.rubric.label_turns(cited)} are one text.", cited)
