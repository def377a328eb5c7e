"""Which messages are like none before them, for many conversations at once.

The exact terms of `evidence` cost more than all else, and in most messages of most logs they find
nothing. A look at the words of a whole batch, as arrays of numbers, proves so of these: every term
needs words in common with earlier messages, and has a bound in how many there are. Whatever can't
be proved quiet is weighed by the exact terms, so nothing is decided here. Runs of words are
compared by hashes: two that collide can make a message look repeated, and never quiet.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chimeralab.detection.courtesy import is_polite
from chimeralab.detection.evidence import (
    COMPARED_FROM,
    COMPARED_WORDS,
    FRAMED_WORDS,
    LONGEST_STEP,
)
from chimeralab.detection.loops import Loops
from chimeralab.detection.words import (
    WITHIN_WORDS,
    HeardMessage,
    is_content,
    quotes,
    stem,
    without_blocks,
    words_of,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

WORDS_AT_ONCE = 1 << 16
MESSAGES_AT_ONCE = 1 << 14
MOST_KNOWN_WORDS = 1 << 15
KEPT_MEMORY = 1 << 24
ROUNDING = 1e-9
# Odd numbers without a pattern, to mix three words into one number.
_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], dtype=np.uint64)


class WordNumbers(dict[str, int]):
    """Words as numbers, with what has to be known of each."""

    def __init__(self) -> None:
        self._stems: dict[str, int] = {}
        self._added: list[tuple[int, bool]] = []
        self._facts = np.zeros((2, 0), dtype=np.int64)

    def __missing__(self, word: str) -> int:
        head = self._stems.setdefault(stem(word), len(self._stems))
        self._added.append((head, is_content(word)))
        number = self[word] = len(self)
        return number

    @property
    def facts(self) -> Ints:
        """By word: its stem, and whether it is content."""
        if self._added:
            added = np.array(self._added, dtype=np.int64).T
            self._facts, self._added = np.concatenate([self._facts, added], axis=1), []
        return self._facts


class Screen:
    """Hears the messages of conversations, and knows which of them are quiet."""

    def __init__(self, settings: Loops) -> None:
        self._settings = settings
        self._vocabulary = WordNumbers()
        # To have freed a large block lets the C library keep the memory of one batch for the next,
        # which it would otherwise give back and fetch again, page by page.
        np.empty(KEPT_MEMORY, dtype=np.uint8)

    def hear(self, talks: Iterable[Sequence[str]]) -> Iterator[HeardMessage]:
        """The messages of all conversations in order, some thousand at a time."""
        if len(self._vocabulary) > MOST_KNOWN_WORDS:
            self._vocabulary = WordNumbers()
        batch = Batch(self._vocabulary)
        for talk in talks:
            heads = set[int]()
            for text in talk:
                batch.add(text, heads)
                if len(batch.words) >= WORDS_AT_ONCE or len(batch.messages) >= MESSAGES_AT_ONCE:
                    yield from batch.judge(self._settings)
                    batch = batch.next(self._settings.window)
            batch.talk += 1
        yield from batch.judge(self._settings)


class Batch:
    """Messages of conversations side by side; those up to `start` were judged before."""

    def __init__(self, vocabulary: WordNumbers) -> None:
        self._vocabulary = vocabulary
        self.messages: list[HeardMessage] = []
        self.words: list[int] = []
        self.lengths: list[int] = []
        self.loud: list[bool] = []
        self.talks: list[int] = []
        self.talk = self.start = 0

    def add(self, text: str, heads: set[int]) -> None:
        """Take in the next message of a conversation, some of which begin with `heads`."""
        words = words_of(text)
        whole = words_of(without_blocks(text)) if quotes(text) else words
        loud = is_polite(text, words)
        if len(whole) >= COMPARED_WORDS:  # long messages that begin alike are alike
            head = hash(tuple(whole[:COMPARED_WORDS]))
            loud = loud or head in heads
            heads.add(head)
        message = HeardMessage(text)
        if whole is not words or not text.isascii():
            message.remember(words, whole)
        self.messages.append(message)
        self.words.extend(map(self._vocabulary.__getitem__, whole))
        self.lengths.append(len(whole))
        self.loud.append(loud)
        self.talks.append(self.talk)

    def next(self, window: int) -> "Batch":
        """An empty batch that goes on with the last conversation."""
        after = Batch(self._vocabulary)
        after.talk = self.talk
        after.start = kept = min(window, self.talks.count(self.talk))
        if kept:
            after.messages, after.lengths = self.messages[-kept:], self.lengths[-kept:]
            after.loud, after.talks = self.loud[-kept:], self.talks[-kept:]
            after.words = self.words[len(self.words) - sum(after.lengths) :]
        return after

    def judge(self, s: Loops) -> list[HeardMessage]:
        """The new messages: quiet where a bound proves it, and loud with what they have in common
        with those before.
        """
        words = np.fromiter(self.words, dtype=np.int64, count=len(self.words))
        stems, content = self._vocabulary.facts[0][words], self._vocabulary.facts[1][words] > 0
        lengths, talks = np.array(self.lengths, dtype=np.int64), np.array(self.talks, np.int64)
        place = np.repeat(np.arange(len(lengths)), lengths)
        # Two talks stand more than a window apart, so no message is in sight of those of another.
        at = np.arange(len(talks)) + s.window * talks
        lags = max(3, min(s.window, max(Counter(self.talks).values(), default=0)))
        runs = Keys(*_runs(words, place, content), at, s.window)
        held = Keys(stems, place, content, at, s.window)
        told = held.told
        fresh = told.per_message(~told.again(1)) / np.maximum(1, told.per_message())
        near = _shares(held, lags)
        nearest = np.sort(np.partition(near, -3, axis=1)[:, -3:], axis=1)
        framed = _framed(held, lengths, s)
        # Half of a message can stand in it three times; see `MessageWords.may_repeat_within`.
        within = (3 * runs.per_message() <= 2 * lengths - 2) & (lengths >= WITHIN_WORDS)
        loud = framed | within | _repeated(runs, lengths, s)
        # The same in other words needs few new ones; and only short messages are compared by words.
        stale = (fresh < s.fresh_high) & (lengths >= s.short)
        loud |= stale & (nearest.sum(axis=1) / 3 > s.words_low - ROUNDING)
        loud |= (lengths <= LONGEST_STEP) & (nearest[:, -1] >= COMPARED_FROM)
        copies = runs.in_common(lags, loud) > 0
        copies |= (lengths < 3)[:, None] & (near == 1)  # too short to have a run
        for message in self.messages[self.start :]:
            message.quiet = True
        loud |= np.array(self.loud, dtype=bool)
        loud[: self.start] = False
        columns = (each[loud].tolist() for each in (near, copies, fresh, framed, within))
        for message_at, *common in zip(np.flatnonzero(loud).tolist(), *columns, strict=True):
            shares, copied, *rest = common
            message = self.messages[message_at]
            message.quiet, message.common = (
                False,
                (
                    {back: share for back, share in enumerate(shares, 1) if share},
                    [back for back, is_copy in enumerate(copied, 1) if is_copy],
                    *rest,
                ),
            )
        return self.messages[self.start :]


class Keys:
    """Which messages hold which key, by key and then by message, and how many times.

    A key is `telling` where it says much. Messages stand `at` places, and a `window` reaches so far
    back.
    """

    def __init__(
        self, keys: NDArray[Any], place: Ints, telling: Bools, at: Ints, window: int
    ) -> None:
        # Sorted as one number: key, message, and whether it is not telling, so that one that is
        # comes first and stays. The highest bits of a hash are lost.
        bits = np.uint64(len(at).bit_length() + 1)
        packed = keys.astype(np.uint64) << bits | (place << 1 | ~telling).astype(np.uint64)
        packed.sort()
        held = packed >> np.uint64(1)
        first = np.flatnonzero(np.concatenate([[True], held[1:] != held[:-1]])[: len(held)])
        packed, self.times = packed[first], np.diff(first, append=len(packed))
        low = (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)
        self.key, self.message, self.telling = packed >> bits, low >> 1, low & 1 == 0
        self.at = at[self.message]
        self._messages, self._window = len(at), window

    @property
    def told(self) -> "Keys":
        """What is telling alone."""
        told = copy(self)
        for name in ("key", "message", "at", "times", "telling"):
            setattr(told, name, getattr(self, name)[self.telling])
        return told

    def again(self, back: int) -> Bools:
        """Whether the key stands in the window in so many earlier messages, for each."""
        again = np.zeros(len(self.key), dtype=bool)
        again[back:] = self.key[back:] == self.key[:-back]
        again[back:] &= self.at[back:] - self.at[:-back] <= self._window
        return again

    def per_message(self, where: Bools | None = None) -> Ints:
        """How many keys each message holds, or holds there."""
        place = self.message if where is None else self.message[where]
        return np.bincount(place, minlength=self._messages)

    def in_common(self, lags: int, of: Bools | None = None) -> Ints:
        """How many keys each message has in common with each before it, by how far back that is.

        Asked for are all messages, or some; none has more than `lags` before it.
        """
        common = np.zeros(self._messages * lags, dtype=np.int64)
        for back in range(1, lags + 1):
            again = self.again(back)
            here = np.flatnonzero(again if of is None else again & of[self.message])
            if not here.size:
                break
            now = self.message[here]
            cell = now * lags + now - self.message[here - back] - 1
            common += np.bincount(cell, minlength=len(common))
        return common.reshape(self._messages, lags)


def _shares(stems: Keys, lags: int) -> Floats:
    """The share of stems that each message has in common with each before it."""
    common, size = stems.in_common(lags), stems.per_message()
    earlier = np.arange(len(size))[:, None] - np.arange(1, lags + 1)
    larger: Ints = np.maximum(size[:, None], size[np.maximum(earlier, 0)])
    return common / np.maximum(1, larger)


def _framed(stems: Keys, lengths: Ints, s: Loops) -> Bools:
    """A frame is made of words that the last two messages have too, two of them with content."""
    times = stems.times
    three = (stems.key[2:] == stems.key[:-2]) & (stems.at[2:] - stems.at[:-2] == 2)
    here = np.flatnonzero(three) + 2
    shared = np.minimum(np.minimum(times[here], times[here - 1]), times[here - 2])
    words, told = (
        np.bincount(stems.message[here], each, len(lengths))
        for each in (shared, shared * stems.telling[here])
    )
    enough = words / np.maximum(1, lengths) > s.frame_low
    loud: Bools = enough & (told >= 2) & (lengths <= FRAMED_WORDS)
    return loud


def _runs(words: Ints, place: Ints, content: Bools) -> tuple[NDArray[np.uint64], Ints, Bools]:
    """Runs of three words, the messages that hold them, and which have a content word."""
    mixed = words.astype(np.uint64)
    mixed = mixed[:-2] * _MIX[0] + mixed[1:-1] * _MIX[1] + mixed[2:] * _MIX[2]
    telling = content[:-2] | content[1:-1] | content[2:]
    inside = place[:-2] == place[2:]
    return mixed[inside], place[:-2][inside], telling[inside]


def _repeated(runs: Keys, lengths: Ints, s: Loops) -> Bools:
    """Runs of words that earlier messages have too."""
    grams = runs.per_message(runs.telling)
    share = runs.per_message(runs.again(1) & runs.telling) / np.maximum(1, grams)
    # A copy of all is like it even where no share of it would be.
    loud: Bools = share > min(s.twin_low, 1 - ROUNDING)
    loud |= runs.per_message(runs.again(2)) > 0
    loud |= (grams == 0) & (lengths >= 3)
    return loud
