"""Stretches of adjacent turns that loop: equal ones, ones that fill one template, alternations.

Two turns are compared by aligning their words. What stands between aligned words is a gap; a gap
that puts one word in the place of another, inside a sentence that stays, is a trivial swap, in any
language. Turns are counted from 1; a stretch is a range of them.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import NamedTuple

from chimeralab.rating.wording import (
    DETERMINERS,
    FILLERS,
    NEGATIONS,
    UNSPACED,
    Wording,
    contrast,
    sense,
    short_key,
)

# More than half of the words of two turns stand in the same order when they share a template.
SHARED_WORDS = 0.55
# A third of what they talk about must be shared too: function words alone make no template.
SHARED_CONTENT = 1 / 3
MIN_SHARED_WORDS = 3
# One unknown word in so many is no news, wherever it stands.
WORDS_PER_STRANGER = 20
# One word in so many may be swapped in place, and no fewer than so many must stay.
WORDS_PER_SWAP = 3
MIN_KEPT = 3
# Where so many stay, a word before one of them may go: "a big fan of it", "a fan of it".
MIN_KEPT_WITHOUT_MODIFIER = 2
# With so many words kept, another thing in a thing's place is a swap too, and so are two words for
# one, or one for none.
MANY_KEPT = 8
# A character without spaces is about half a word.
MAX_SWAPPED_CHARACTERS = 3
# Two texts are nearly identical when so much of the longer one stands in both.
NEARLY_IDENTICAL = 0.8
MIN_WORDS_NEARLY_IDENTICAL = 5
# Two texts of more than ten thousand words each are not taken apart word by word.
MAX_CELLS = 10**8
# "I like it" and "I love it" say the same of it.
LIKING = frozenset({sense("love")})
# Two words with one beginning and so many letters in common are forms of one.
SAME_LETTERS = 0.6
# One word in so many may be dropped; a turn that leaves out more no longer says the same.
WORDS_PER_LOSS = 5
# At most one word in so many may be a number that changed: beyond that the numbers are the content.
WORDS_PER_NUMBER = 4


def verbatim_stretches(texts: Sequence[Wording]) -> list[range]:
    """Every stretch of equal turns, single turns included.

    >>> from chimeralab.rating.wording import wording
    >>> verbatim_stretches([wording(text) for text in ("So.", "so", "Yes")])
    [range(1, 3), range(3, 4)]
    """
    return list(_runs(len(texts), lambda n: texts[n].key == texts[n - 1].key))


def short_form_stretches(texts: Sequence[Wording], most_words: int) -> list[range]:
    """Every stretch of one short utterance; in a farewell it must be the exact one."""

    keys = [
        text.key if text.farewell or len(text.words) > most_words else short_key(text.key)
        for text in texts
    ]
    spans = _runs(len(texts), lambda n: keys[n] == keys[n - 1])
    return [span for span in spans if len(texts[span.start - 1].words) <= most_words]


def template_stretches(texts: Sequence[Wording]) -> list[range]:
    """Every stretch of one template in which no turn adds anything, farewells left out."""

    def fills_again(n: int) -> bool:
        before, turn = texts[n - 1], texts[n]
        if before.farewell or turn.farewell or not share_template(before, turn):
            return False
        if n + 1 < len(texts) and texts[n + 1].key == before.key and nearly_identical(before, turn):
            return True
        # The last two texts that differ, the nearest first: two may alternate in no fixed order.
        said: dict[str, Wording] = {}
        for text in reversed(texts[:n]):
            said.setdefault(text.key, text)
            if len(said) == 2:
                break
        return says_nothing_new(turn, list(said.values()))

    spans = _runs(len(texts), fills_again)
    return [span for span in spans if len({texts[turn - 1].key for turn in span}) > 1]


def extend_back(texts: Sequence[Wording], span: range) -> range:
    """The stretch together with the turns before it that say nothing but what is said in it."""
    said = {texts[turn - 1].key for turn in span}
    start = span.start
    while start > 1 and texts[start - 2].key in said:
        start -= 1
    return range(start, span.stop)


def alternations(texts: Sequence[Wording]) -> list[range]:
    """Every stretch in which two different texts take turns and both come back.

    >>> from chimeralab.rating.wording import wording
    >>> alternations([wording(text) for text in ("hi", "hello", "hi", "hello", "well")])
    [range(1, 5)]
    """
    found: list[range] = []
    for start in range(1, len(texts) + 1):
        if found and start in found[-1]:
            continue
        end, different = start - 1, set[str]()
        while end < len(texts) and len(different | {texts[end].key}) <= 2:
            different.add(texts[end].key)
            end += 1
        said = texts[start - 1 : end]
        returns = sum(one.key != other.key for one, other in pairwise(said)) - 1
        if returns >= 2 and not all(share_template(said[0], text) for text in said):
            found.append(range(start, end + 1))
    return found


def _runs(count: int, goes_on: Callable[[int], bool]) -> Iterator[range]:
    """Cut turns 1..count wherever turn n + 1 does not go on from turn n."""
    start = 1
    for n in range(1, count + 1):
        if n == count or not goes_on(n):
            yield range(start, n + 1)
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
    enough = max(MIN_SHARED_WORDS, SHARED_WORDS * together / 2)
    return common >= enough and count_aligned(one.words, other.words) >= enough


def nearly_identical(one: Wording, other: Wording) -> bool:
    """True when two texts differ in very few words, and in none that turns the meaning round.

    >>> from chimeralab.rating.wording import wording
    >>> texts = "I run by the lake and hum a song.", "I run by the road and hum a song."
    >>> nearly_identical(*map(wording, texts))
    True
    """
    longer = max(len(one.words), len(other.words))
    if longer < MIN_WORDS_NEARLY_IDENTICAL or one.code or other.code:
        return False
    changed = one.content ^ other.content
    if changed & NEGATIONS or _contrasting(
        one.content - other.content, other.content - one.content
    ):
        return False
    return count_aligned(one.words, other.words) >= NEARLY_IDENTICAL * longer


def _contrasting(some: Iterable[str], others: Collection[str]) -> bool:
    return any(contrast(one, other) for one in some for other in others)


def count_aligned(one: Sequence[str], other: Sequence[str]) -> int:
    """How many words stand in both texts in the same order: their longest common subsequence.

    >>> count_aligned("a b c d".split(), "a x c d".split())
    3
    """
    start, rest = _equal_ends(one, other)
    shorter = one[start : len(one) - rest]
    row = (1 << len(shorter)) - 1
    for row in _alignment(shorter, other[start : len(other) - rest]):  # noqa: B007
        pass
    return start + rest + len(shorter) - row.bit_count()


def _alignment(one: Sequence[str], other: Sequence[str]) -> Iterator[int]:
    """The rows of the textbook table, each in the bits of one number (Hyyrö 2004)."""
    places: dict[str, int] = {}
    for bit, word in enumerate(one):
        places[word] = places.get(word, 0) | 1 << bit
    every = (1 << len(one)) - 1
    row = every
    for word in other:
        hits = row & places.get(word, 0)
        row = (row + hits | row - hits) & every
        yield row


def _equal_ends(one: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """How many words are equal at the beginning, and how many of the rest at the end."""
    shorter = min(len(one), len(other))
    start = next((n for n in range(shorter) if one[n] != other[n]), shorter)
    left = shorter - start
    return start, next((n for n in range(left) if one[-1 - n] != other[-1 - n]), left)


class AlignmentGap(NamedTuple):
    """What stands between two aligned words: taken out of the one text, put into the other.

    `before` and `after` are the aligned words around it, "" at the ends of the text.
    """

    removed: Sequence[str]
    added: Sequence[str]
    before: str
    after: str
    last: bool


def gaps(one: Sequence[str], other: Sequence[str]) -> list[AlignmentGap]:
    """The gaps of an alignment, the last one first.

    >>> gaps("we like old tea".split(), "we like hot tea".split())
    [AlignmentGap(removed=['old'], added=['hot'], before='like', after='tea', last=False)]
    """
    start, rest = _equal_ends(one, other)
    old, new = one[start : len(one) - rest], other[start : len(other) - rest]
    rows = list(_alignment(old, new))
    found, at, place = list[AlignmentGap](), len(old), len(new)
    end, until = at, place
    while True:
        # Walk to the next aligned pair, from the end.
        while at and place:
            if rows[place - 1] >> at - 1 & 1:
                at -= 1
            elif place > 1 and not rows[place - 2] >> at - 1 & 1:
                place -= 1
            else:
                break
        if not at or not place:
            at = place = 0
        if at < end or place < until:
            first, last = start + place, start + until
            before = other[first - 1] if first else ""
            after = other[last] if last < len(other) else ""
            found.append(
                AlignmentGap(old[at:end], new[place:until], before, after, last == len(other))
            )
        if not at:
            return found
        at, place = at - 1, place - 1
        end, until = at, place


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
    told = frozenset[str]().union(*(text.numbers for text in before))
    if len(turn.numbers - told) > max(1, len(turn.words) // WORDS_PER_NUMBER):
        return True
    known = frozenset[str]().union(*(text.content for text in before))
    new = turn.content - known - LIKING
    if not new:
        return False
    if new & (turn.names | NEGATIONS):
        return True
    if len(new) <= len(turn.content) // WORDS_PER_STRANGER:
        return False
    return turn.code or not only_swaps(turn, before[0], new)


def only_swaps(turn: Wording, before: Wording, new: frozenset[str]) -> bool:
    """Does every new word of a turn stand in the place of one that the text before had there?"""
    if _too_long(turn, before):
        return False
    kept, swaps = _size(turn.content & before.content), 0
    for gap in changes(turn, before):
        if not gap.added or new.isdisjoint(gap.added) or _forms(gap):
            continue
        if not _is_swap(gap, kept):
            return False
        swaps += 1
    return swaps <= kept // WORDS_PER_SWAP and kept >= MIN_KEPT


def changes(turn: Wording, before: Wording) -> list[AlignmentGap]:
    """The gaps between two texts, with nothing in them but content that the other text lacks."""
    return [
        gap._replace(
            removed=[w for w in gap.removed if w in before.content and w not in turn.content],
            added=[w for w in gap.added if w in turn.content and w not in before.content],
        )
        for gap in gaps(before.words, turn.words)
    ]


def _is_swap(gap: AlignmentGap, kept: float) -> bool:
    """Is one word in another's place, and not as the point of the sentence?"""
    characters = all(map(UNSPACED.match, gap.added))
    most = MAX_SWAPPED_CHARACTERS if characters else 2 if kept >= MANY_KEPT else 1
    put_in = not gap.removed and not (kept >= MANY_KEPT and len(gap.added) == 1)
    if gap.last or put_in or len(gap.added) > most or len(gap.removed) > most:
        return False
    if not NEGATIONS.isdisjoint(gap.removed) or _contrasting(gap.added, gap.removed):
        return False
    thing = gap.before in DETERMINERS and gap.after in FILLERS | DETERMINERS
    return not thing or kept >= MANY_KEPT


def _forms(gap: AlignmentGap) -> bool:
    """Are the words of a gap other forms of those they replace, by their beginnings?"""
    if len(gap.added) != len(gap.removed):
        return False
    return all(
        one[:4] == other[:4] and SequenceMatcher(None, one, other).ratio() >= SAME_LETTERS
        for one, other in zip(gap.added, gap.removed, strict=True)
    )


def _size(words: Collection[str]) -> float:
    return sum(0.5 if UNSPACED.match(word) else 1.0 for word in words)


def drops_content(turn: Wording, before: Wording) -> bool:
    """Does a turn leave out so much of the one before that it no longer says the same?

    A word that another one stands in for is not left out, and one that only describes the next
    word is not missed.
    """
    lost = before.content - turn.content - LIKING
    if not NEGATIONS.isdisjoint(lost):
        return True
    most = len(before.content) // WORDS_PER_LOSS
    if len(lost) <= most:
        return False
    kept = _size(turn.content & before.content)
    if kept < MIN_KEPT_WITHOUT_MODIFIER or turn.code or _too_long(turn, before):
        return True
    not_missed = 0
    for whole, gap in zip(gaps(before.words, turn.words), changes(turn, before), strict=True):
        modifier = (len(whole.removed), len(whole.added)) == (1, 0) and gap.after in turn.content
        if modifier or (kept >= MIN_KEPT and gap.added and _is_swap(gap, kept)):
            not_missed += len(gap.removed)
    return len(lost) - not_missed > most


def _too_long(one: Wording, other: Wording) -> bool:
    return len(one.words) * len(other.words) > MAX_CELLS
