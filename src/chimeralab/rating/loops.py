"""Stretches of adjacent turns that loop: equal ones, ones that fill one template, alternations.

Turns are counted from 1; a stretch has both ends included.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from chimeralab.rating.wording import NEGATIONS, Wording, short_key

# More than half of the words of two turns stand in the same order when they share a template.
SHARED_WORDS = 0.55
# A third of what they talk about must be shared too: function words alone make no template.
SHARED_CONTENT = 1 / 3
FEWEST_SHARED_WORDS = 3
# One unknown word in so many is a swap; more of them, or in a shorter text, is new content.
WORDS_PER_SWAP = 20
# One word in so many may be dropped; a turn that leaves out more no longer says the same.
WORDS_PER_LOSS = 5
# At most one word in so many may be a number that changed: beyond that the numbers are the content.
WORDS_PER_NUMBER = 4


class Stretch(NamedTuple):
    """The first and the last turn of a stretch."""

    start: int
    end: int

    @property
    def turns(self) -> tuple[int, ...]:
        return tuple(range(self.start, self.end + 1))

    def __len__(self) -> int:
        return self.end - self.start + 1


def verbatim_stretches(texts: Sequence[Wording]) -> list[Stretch]:
    """Every stretch of equal turns, single turns included.

    >>> from chimeralab.rating.wording import wording
    >>> verbatim_stretches([wording(text) for text in ("So.", "so", "Yes")])
    [Stretch(start=1, end=2), Stretch(start=3, end=3)]
    """
    return list(_runs(len(texts), lambda n: texts[n].key == texts[n - 1].key))


def short_form_stretches(texts: Sequence[Wording], most_words: int) -> list[Stretch]:
    """Every stretch of one short utterance; in a farewell it must be the exact one."""

    keys = [
        text.key if text.farewell or len(text.words) > most_words else short_key(text.key)
        for text in texts
    ]
    spans = _runs(len(texts), lambda n: keys[n] == keys[n - 1])
    return [span for span in spans if len(texts[span.start - 1].words) <= most_words]


def template_stretches(texts: Sequence[Wording]) -> list[Stretch]:
    """Every stretch of one template in which no turn adds anything, farewells left out."""

    def fills_again(n: int) -> bool:
        before, turn = texts[n - 1], texts[n]
        if before.farewell or turn.farewell or not share_template(before, turn):
            return False
        # The last two texts that differ, the nearest first: two may alternate in no fixed order.
        said: dict[str, Wording] = {}
        for text in reversed(texts[:n]):
            said.setdefault(text.key, text)
            if len(said) == 2:
                break
        return says_nothing_new(turn, list(said.values()))

    spans = _runs(len(texts), fills_again)
    return [span for span in spans if len({texts[turn - 1].key for turn in span.turns}) > 1]


def reaching_back(texts: Sequence[Wording], span: Stretch) -> Stretch:
    """The stretch together with the turns before it that say nothing but what is said in it."""
    said = {texts[turn - 1].key for turn in span.turns}
    start = span.start
    while start > 1 and texts[start - 2].key in said:
        start -= 1
    return Stretch(start, span.end)


def alternations(texts: Sequence[Wording]) -> list[Stretch]:
    """Every stretch in which two different texts take turns and both come back.

    >>> from chimeralab.rating.wording import wording
    >>> alternations([wording(text) for text in ("hi", "hello", "hi", "hello", "well")])
    [Stretch(start=1, end=4)]
    """
    found: list[Stretch] = []
    for start in range(1, len(texts) + 1):
        if found and start <= found[-1].end:
            continue
        end, different = start - 1, set[str]()
        while end < len(texts) and len(different | {texts[end].key}) <= 2:
            different.add(texts[end].key)
            end += 1
        said = texts[start - 1 : end]
        returns = sum(one.key != other.key for one, other in pairwise(said)) - 1
        if returns >= 2 and not all(share_template(said[0], text) for text in said):
            found.append(Stretch(start, end))
    return found


def _runs(count: int, goes_on: Callable[[int], bool]) -> Iterator[Stretch]:
    """Cut turns 1..count wherever turn n + 1 does not go on from turn n."""
    start = 1
    for n in range(1, count + 1):
        if n == count or not goes_on(n):
            yield Stretch(start, n)
            start = n + 1


def share_template(one: Wording, other: Wording) -> bool:
    """True when most words of two texts stand in the same order, synonyms taken for equal.

    >>> from chimeralab.rating.wording import wording
    >>> texts = "That is a great plan for our garden.", "That is a wonderful plan for our garden!"
    >>> share_template(*map(wording, texts))
    True
    """
    if one.key == other.key:
        return True
    together = len(one.words) + len(other.words)
    largest = max(len(one.content), len(other.content), 1)
    if len(one.content & other.content) < SHARED_CONTENT * largest:
        return False
    # Counting words in any order is quick, and never below what the alignment finds.
    common = (Counter(one.words) & Counter(other.words)).total()
    enough = max(FEWEST_SHARED_WORDS, SHARED_WORDS * together / 2)
    return common >= enough and aligned(one.words, other.words) >= enough


def aligned(one: Sequence[str], other: Sequence[str]) -> int:
    """How many words stand in both texts in the same order: their longest common subsequence.

    All of a row of the textbook table is kept in the bits of one number (Hyyrö 2004).

    >>> aligned("a b c d".split(), "a x c d".split())
    3
    """
    places: dict[str, int] = {}
    for bit, word in enumerate(one):
        places[word] = places.get(word, 0) | 1 << bit
    every = (1 << len(one)) - 1
    row = every
    for word in other:
        hits = row & places.get(word, 0)
        row = (row + hits | row - hits) & every
    return len(one) - row.bit_count()


def says_nothing_new(turn: Wording, before: Sequence[Wording]) -> bool:
    """The progress guard: does a turn only say again what the texts before it say?

    The texts come with the nearest one first. A turn that is one of them, word for word, says
    nothing new; another one must neither add to them nor leave out much of the nearest.

    >>> from chimeralab.rating.wording import wording
    >>> steps = [wording(f"Step {n}: {what}") for n, what in enumerate(("dig", "sow", "reap"), 1)]
    >>> says_nothing_new(steps[2], steps[:2])
    False
    """
    if any(turn.key == text.key for text in before):
        return True
    return not adds_content(turn, before) and not drops_content(turn, before[0])


def adds_content(turn: Wording, before: Sequence[Wording]) -> bool:
    """Does a turn say anything that none of the texts before it says?"""
    known = frozenset[str]().union(*(text.content for text in before))
    new = turn.content - known
    if len(new) > len(turn.content) // WORDS_PER_SWAP:
        return True
    if new and new & (turn.names | NEGATIONS):
        return True
    told = frozenset[str]().union(*(text.numbers for text in before))
    return len(turn.numbers - told) > max(1, len(turn.words) // WORDS_PER_NUMBER)


def drops_content(turn: Wording, before: Wording) -> bool:
    """Does a turn leave out so much of the one before that it no longer says the same?"""
    lost = before.content - turn.content
    return len(lost) > len(before.content) // WORDS_PER_LOSS or bool(lost & NEGATIONS)
