"""Kind B: do two turns fill one template, and does the later one add anything?"""

from collections import Counter
from collections.abc import Sequence

from chimeralab.rating.lexicon import NEGATIONS
from chimeralab.rating.wording import Wording

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
