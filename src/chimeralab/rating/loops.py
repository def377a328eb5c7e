"""Find stretches of looping turns: equal texts, repeats of one template, alternations.

Turns are compared by aligning their words. What lies between aligned words is a gap; a gap that
replaces one word with another while the rest of the sentence stays is a trivial swap, in any
language. Turns are counted from 1; a stretch is a range of them.
"""

import operator
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

# Turns share a template when at least this share of their words occurs in the same order ...
SHARED_WORDS = 0.55
# ... and this share of their content words: function words alone are not a template.
SHARED_CONTENT = 1 / 3
MIN_SHARED_WORDS = 3
# One unknown word per this many is not new content, wherever it occurs.
WORDS_PER_STRANGER = 20
# One word per this many kept words may be swapped, if at least MIN_KEPT are kept.
WORDS_PER_SWAP = 2
MIN_KEPT = 3
# With this many kept words, a modifier may be dropped: "a big fan of it", "a fan of it".
MIN_KEPT_WITHOUT_MODIFIER = 2
# With this many kept words, replacing a noun is a swap too, and so is replacing one word by two
# or inserting one.
MANY_KEPT = 8
# In scripts without spaces, a character counts as half a word.
MAX_SWAPPED_CHARACTERS = 3
# Texts are nearly identical when they share this much of the longer one.
NEARLY_IDENTICAL = 0.8
MIN_WORDS_NEARLY_IDENTICAL = 5
# Texts of more than ten thousand words each are not aligned.
MAX_CELLS = 10**8
# "I like it" and "I love it" mean the same.
LIKING = frozenset({sense("love")})
# Words with the same beginning and this similarity are forms of one word.
SAME_LETTERS = 0.6
# One word per this many may be dropped; beyond that, a turn no longer says the same.
WORDS_PER_LOSS = 5
# One number per this many words may change; beyond that, the numbers are the content.
WORDS_PER_NUMBER = 4


def verbatim_stretches(texts: Sequence[Wording]) -> list[range]:
    """List the stretches of equal turns, single turns included.

    >>> from chimeralab.rating.wording import normalize
    >>> verbatim_stretches([normalize(text) for text in ("So.", "so", "Yes")])
    [range(1, 3), range(3, 4)]
    """
    return list(_runs(len(texts), lambda n: texts[n].key == texts[n - 1].key))


def short_form_stretches(texts: Sequence[Wording], max_words: int) -> list[range]:
    """List the stretches of one short utterance; farewells must match exactly."""
    short = [len(text.key.split()) <= max_words for text in texts]
    keys = [
        short_key(text.key) if is_short and not text.farewell else text.key
        for text, is_short in zip(texts, short, strict=True)
    ]
    spans = _runs(len(texts), lambda n: keys[n] == keys[n - 1])
    return [span for span in spans if short[span.start - 1]]


def template_stretches(texts: Sequence[Wording]) -> list[range]:
    """List the stretches that repeat a template without new content, other than farewells."""

    def repeats_template(n: int) -> bool:
        before, turn = texts[n - 1], texts[n]
        if before.farewell or turn.farewell or not share_template(before, turn):
            return False
        if n + 1 < len(texts) and texts[n + 1].key == before.key and nearly_identical(before, turn):
            return True
        # Compare with the last two distinct texts, which may alternate in any order.
        recent: dict[str, Wording] = {}
        for text in reversed(texts[:n]):
            recent.setdefault(text.key, text)
            if len(recent) == 2:
                break
        return says_nothing_new(turn, list(recent.values()))

    spans = _runs(len(texts), repeats_template)
    return [span for span in spans if len({texts[turn - 1].key for turn in span}) > 1]


def extend_back(texts: Sequence[Wording], span: range) -> range:
    """Extend a stretch over the turns before it that only repeat its texts."""
    keys = {texts[turn - 1].key for turn in span}
    start = span.start
    while start > 1 and texts[start - 2].key in keys:
        start -= 1
    return range(start, span.stop)


def alternations(texts: Sequence[Wording]) -> list[range]:
    """List the stretches in which two different texts alternate and both recur.

    >>> from chimeralab.rating.wording import normalize
    >>> alternations([normalize(text) for text in ("hi", "hello", "hi", "hello", "well")])
    [range(1, 5)]
    """
    found: list[range] = []
    for start in range(1, len(texts) + 1):
        if found and start in found[-1]:
            continue
        end, distinct = start - 1, set[str]()
        while end < len(texts) and len(distinct | {texts[end].key}) <= 2:
            distinct.add(texts[end].key)
            end += 1
        stretch = texts[start - 1 : end]
        returns = sum(one.key != other.key for one, other in pairwise(stretch)) - 1
        if returns >= 2 and not all(share_template(stretch[0], text) for text in stretch):
            found.append(range(start, end + 1))
    return found


def _runs(count: int, continues: Callable[[int], bool]) -> Iterator[range]:
    """Split turns 1..count wherever turn n + 1 does not continue turn n."""
    start = 1
    for n in range(1, count + 1):
        if n == count or not continues(n):
            yield range(start, n + 1)
            start = n + 1


def share_template(one: Wording, other: Wording) -> bool:
    """True when most words of two texts occur in the same order; synonyms count as equal.

    >>> from chimeralab.rating.wording import normalize
    >>> texts = "That is a great plan for our garden.", "That is a wonderful plan for our garden!"
    >>> share_template(*map(normalize, texts))
    True
    """
    if one.key == other.key:
        return True
    together = len(one.words) + len(other.words)
    largest = max(len(one.content), len(other.content), 1)
    if len(one.content & other.content) < SHARED_CONTENT * largest:
        return False
    # The bag-of-words overlap is cheap and an upper bound on the alignment.
    common = (Counter(one.words) & Counter(other.words)).total()
    enough = max(MIN_SHARED_WORDS, SHARED_WORDS * together / 2)
    return common >= enough and count_aligned(one.words, other.words) >= enough


def nearly_identical(one: Wording, other: Wording) -> bool:
    """True when two texts differ in few words, none of which reverses the meaning.

    >>> from chimeralab.rating.wording import normalize
    >>> texts = "I run by the lake and hum a song.", "I run by the road and hum a song."
    >>> nearly_identical(*map(normalize, texts))
    True
    """
    longer = max(len(one.words), len(other.words))
    if longer < MIN_WORDS_NEARLY_IDENTICAL or one.code or other.code:
        return False
    changed, kept = one.content ^ other.content, (one.content & other.content) - NEGATIONS
    if changed & NEGATIONS or len(changed) > 2 * len(kept):
        return False
    if _have_contrast(one.content - other.content, other.content - one.content):
        return False
    return count_aligned(one.words, other.words) >= NEARLY_IDENTICAL * longer


def _have_contrast(some: Iterable[str], others: Collection[str]) -> bool:
    return any(contrast(one, other) for one in some for other in others)


def count_aligned(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the longest common subsequence of two word lists.

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
    """Yield the rows of the dynamic-programming table as bit vectors (Hyyrö 2004)."""
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
    """Return the lengths of the common prefix and of the common suffix of the rest."""
    shorter = min(len(one), len(other))
    start = next((n for n in range(shorter) if one[n] != other[n]), shorter)
    left = shorter - start
    return start, next((n for n in range(left) if one[-1 - n] != other[-1 - n]), left)


class AlignmentGap(NamedTuple):
    """Words removed and added between two aligned words, `before` and `after` ("" at an end).

    Reduced to content, it still tells whether what was added took the place of any word.
    """

    removed: Sequence[str]
    added: Sequence[str]
    before: str
    after: str
    last: bool
    replaced: bool = False


def gaps(one: Sequence[str], other: Sequence[str]) -> list[AlignmentGap]:
    """List the gaps of an alignment, last one first.

    >>> [gap] = gaps("we like old tea".split(), "we like hot tea".split())
    >>> gap.removed, gap.added, gap.before, gap.after
    (['old'], ['hot'], 'like', 'tea')
    """
    start, rest = _equal_ends(one, other)
    old, new = one[start : len(one) - rest], other[start : len(other) - rest]
    rows = list(_alignment(old, new))
    found, at, place = list[AlignmentGap](), len(old), len(new)
    end, until = at, place
    while True:
        # Walk back to the next aligned pair.
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
    """Progress guard: whether a turn only repeats the texts before it, given nearest first.

    A verbatim repeat says nothing new; any other turn must neither add content nor drop much of
    the nearest text.

    >>> from chimeralab.rating.wording import normalize
    >>> steps = [normalize(f"Step {n}: {what}") for n, what in enumerate(("dig", "sow", "reap"), 1)]
    >>> says_nothing_new(steps[2], steps[:2])
    False
    """
    if any(turn.key == text.key for text in before):
        return True
    if turns_round(turn, before[0]):
        return False
    return not adds_content(turn, before) and not drops_content(turn, before[0])


def turns_round(turn: Wording, before: Wording) -> bool:
    """Whether a word that stays is negated in one of two texts only.

    A whole clause with its own negation may come and go: it repeats what the rest says.

    >>> from chimeralab.rating.wording import normalize
    >>> texts = "No, I don't. I do not have a fish.", "No, I do not. I have a fish."
    >>> turns_round(*map(normalize, texts))
    True
    """
    counts = ([word for word in text.words if word in NEGATIONS] for text in (turn, before))
    if operator.eq(*counts) or _too_long(turn, before):
        return False
    known = turn.content | before.content
    return any(
        not NEGATIONS.isdisjoint(side) and known.isdisjoint(set(side) - NEGATIONS)
        for gap in gaps(before.words, turn.words)
        for side in (gap.removed, gap.added)
        if NEGATIONS.isdisjoint(gap.removed) or NEGATIONS.isdisjoint(gap.added)
    )


def adds_content(turn: Wording, before: Sequence[Wording]) -> bool:
    """Whether a turn says anything that none of the texts before it says."""
    numbers = frozenset[str]().union(*(text.numbers for text in before))
    if len(turn.numbers - numbers) > max(1, len(turn.words) // WORDS_PER_NUMBER):
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
    """Whether every new word of a turn replaces one of the text before."""
    if _too_long(turn, before):
        return False
    kept, swaps = _size(turn.content & before.content), 0
    for gap in changes(turn, before):
        if not gap.added or new.isdisjoint(gap.added) or _is_inflection(gap):
            continue
        if not _is_swap(gap, kept):
            return False
        swaps += 1
    return swaps <= kept // WORDS_PER_SWAP and kept >= MIN_KEPT


def changes(turn: Wording, before: Wording) -> list[AlignmentGap]:
    """List the gaps between two texts, reduced to content words that the other text lacks."""
    return [
        gap._replace(
            replaced=bool(gap.removed),
            removed=[w for w in gap.removed if w in before.content and w not in turn.content],
            added=[w for w in gap.added if w in turn.content and w not in before.content],
        )
        for gap in gaps(before.words, turn.words)
    ]


def _is_swap(gap: AlignmentGap, kept: float) -> bool:
    """Whether a gap replaces a word that is not the point of the sentence."""
    characters = all(map(UNSPACED.match, gap.added))
    limit = MAX_SWAPPED_CHARACTERS if characters else 2 if kept >= MANY_KEPT else 1
    inserted = not gap.replaced and not (kept >= MANY_KEPT and len(gap.added) == 1)
    if gap.last or inserted or len(gap.added) > limit or len(gap.removed) > limit:
        return False
    if not NEGATIONS.isdisjoint(gap.removed) or _have_contrast(gap.added, gap.removed):
        return False
    noun = gap.before in DETERMINERS and gap.after in FILLERS | DETERMINERS
    return not noun or kept >= MANY_KEPT


def _is_inflection(gap: AlignmentGap) -> bool:
    """Whether the added words are inflected forms of the removed ones."""
    if len(gap.added) != len(gap.removed):
        return False
    return all(
        one[:4] == other[:4] and SequenceMatcher(None, one, other).ratio() >= SAME_LETTERS
        for one, other in zip(gap.added, gap.removed, strict=True)
    )


def _size(words: Collection[str]) -> float:
    return sum(0.5 if UNSPACED.match(word) else 1.0 for word in words)


def drops_content(turn: Wording, before: Wording) -> bool:
    """Whether a turn drops so much of the one before that it no longer says the same.

    Swapped words and modifiers of a kept word do not count as dropped.
    """
    lost = before.content - turn.content - LIKING
    if not NEGATIONS.isdisjoint(lost):
        return True
    limit = len(before.content) // WORDS_PER_LOSS
    if len(lost) <= limit:
        return False
    kept = _size(turn.content & before.content)
    if kept < MIN_KEPT_WITHOUT_MODIFIER or turn.code or _too_long(turn, before):
        return True
    excused = 0
    for whole, gap in zip(gaps(before.words, turn.words), changes(turn, before), strict=True):
        modifier = (len(whole.removed), len(whole.added)) == (1, 0) and gap.after in turn.content
        if modifier or (kept >= MIN_KEPT and gap.added and _is_swap(gap, kept)):
            excused += len(gap.removed)
    return len(lost) - excused > limit


def _too_long(one: Wording, other: Wording) -> bool:
    return len(one.words) * len(other.words) > MAX_CELLS
