"""Why detector and rater differ on an item: each difference falls into one named class."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from chimeralab.core.records import Detection, Record
from chimeralab.rating.ratings import Item, Rating
from chimeralab.rating.spans import alternations
from chimeralab.rating.template import share_template
from chimeralab.rating.wording import Wording, wording

# The detector marks no turn before the third, and needs a run of such turns.
FIRST_FLAGGED_TURN = 3

MEANING = {
    "short loop": "the rater's loop is too short or too early for the detector's run",
    "reworded loop": "a loop long enough, whose turns are less alike than the detector asks",
    "no loop named": "the rater says 1 without naming a stretch of adjacent turns",
    "alternation": "two different texts take turns: no neighbours are equal, the detector flags it",
    "farewell": "varied farewells that are alike in meaning",
    "new content": "turns that share a template, each with content of its own",
    "similar meaning": "turns alike in meaning and not in words",
}


@dataclass(frozen=True, slots=True)
class Difference(Record):
    """An item on which detector and rater differ, with the turns that it turns on."""

    item: str
    detector: int
    rater: int
    name: str
    meaning: str
    turns: tuple[int, ...]


def difference_of(detection: Detection, rating: Rating, item: Item) -> Difference:
    """Name the class of a difference between a verdict and a label."""
    if rating.label == 1:
        name, turns = _missed(detection, rating), rating.turns
    else:
        name, turns = _flagged(detection, item), detection.collapsed
    verdict = 1 if detection.collapsed else 0
    return Difference(item.id, verdict, rating.label or 0, name, MEANING[name], turns)


def _missed(detection: Detection, rating: Rating) -> str:
    turns = sorted(rating.turns)
    if len(turns) < 3 or any(later != turn + 1 for turn, later in pairwise(turns)):
        return "no loop named"
    repeats = [turn for turn in turns[1:] if turn >= FIRST_FLAGGED_TURN]
    # A detector without a window has its own idea of too short, and says nothing about it.
    window = int(detection.detector["settings"].get("window", 0))
    return "short loop" if len(repeats) < window else "reworded loop"


def _flagged(detection: Detection, item: Item) -> str:
    texts = [wording(text) for text in item.texts]
    flagged = set(detection.collapsed)
    taking_turns = {turn for span in alternations(texts) for turn in span.turns}
    classes = {
        "alternation": flagged & taking_turns,
        "farewell": {turn for turn in flagged if texts[turn - 1].farewell},
        "new content": {turn for turn in flagged if _same_template(texts, turn)},
    }
    most = (name for name, turns in classes.items() if 2 * len(turns) > len(flagged))
    return next(most, "similar meaning")


def _same_template(texts: Sequence[Wording], turn: int) -> bool:
    before = [texts[n] for n in (turn - 2, turn - 3) if n >= 0]
    return any(share_template(text, texts[turn - 1]) for text in before)
