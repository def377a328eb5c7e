"""Which messages are like none before them, for many conversations at once.

The exact terms of `evidence` cost more than all else, and in most messages of most logs they find
nothing. A look at the words of a whole batch, as arrays of numbers, proves so of these: every term
needs words in common with earlier messages, and has a bound in how many there are. Whatever can't
be proved quiet is weighed by the exact terms, so nothing is decided here. Runs of words are
compared by hashes: two that collide can make a message look repeated, and never quiet.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chimeralab.detection.courtesy import is_polite
from chimeralab.detection.evidence import (
    COMPARED_FROM,
    COMPARED_WORDS,
    FRAMED_WORDS,
    LONGEST_STEP,
    LoopSettings,
)
from chimeralab.detection.words import (
    WITHIN_WORDS,
    Common,
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

    def __init__(self, settings: LoopSettings) -> None:
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
                    yield from self._judged(batch)
                    batch = batch.next(self._settings.window)
            batch.talk += 1
        yield from self._judged(batch)

    def _judged(self, batch: "Batch") -> list[HeardMessage]:
        messages = batch.as_numbers(self._settings.window)
        look = Screened.at(messages, self._vocabulary.facts, self._settings)
        loud = look.loud | np.array(batch.loud, dtype=bool)
        loud[: batch.start] = False
        new = batch.messages[batch.start :]
        for message in new:
            message.quiet = True
        for place, common in zip(np.flatnonzero(loud).tolist(), look.common(loud), strict=True):
            message = batch.messages[place]
            message.quiet, message.common = False, common
        return new


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

    def as_numbers(self, window: int) -> "Messages":
        longest = max(Counter(self.talks).values(), default=0)
        return Messages(
            np.fromiter(self.words, dtype=np.int64, count=len(self.words)),
            np.array(self.lengths, dtype=np.int64),
            np.arange(len(self.talks)) + window * np.array(self.talks, dtype=np.int64),
            window,
            max(3, min(window, longest)),
        )


class Messages(NamedTuple):
    """Messages side by side: their words one after another, how many, and where each stands.

    Two talks stand more than a `window` apart, so no message is in sight of those of another. None
    has more than `lags` before it.
    """

    words: Ints
    lengths: Ints
    at: Ints
    window: int
    lags: int


class KeysOfMessages(NamedTuple):
    """Which messages hold which key, by key and then by message, and how many times.

    A key is `telling` where it says much.
    """

    among: Messages
    key: NDArray[np.uint64]
    message: Ints
    at: Ints
    times: Ints
    telling: Bools

    @classmethod
    def of(
        cls, among: Messages, keys: NDArray[Any], place: Ints, telling: Bools
    ) -> "KeysOfMessages":
        # Sorted as one number: key, message, and whether it is not telling, so that one that is
        # comes first and stays. The highest bits of a hash are lost.
        bits = np.uint64(len(among.at).bit_length() + 1)
        packed = keys.astype(np.uint64) << bits | (place << 1 | ~telling).astype(np.uint64)
        packed.sort()
        held = packed >> np.uint64(1)
        first = np.flatnonzero(np.concatenate([[True], held[1:] != held[:-1]])[: len(held)])
        packed, times = packed[first], np.diff(first, append=len(packed))
        low = (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)
        message = low >> 1
        return cls(among, packed >> bits, message, among.at[message], times, low & 1 == 0)

    @property
    def told(self) -> "KeysOfMessages":
        """What is telling alone."""
        where = self.telling
        return KeysOfMessages(
            self.among,
            self.key[where],
            self.message[where],
            self.at[where],
            self.times[where],
            where[where],
        )

    def again(self, back: int) -> Bools:
        """Whether the key stands in the window in so many earlier messages, for each."""
        again = np.zeros(len(self.key), dtype=bool)
        again[back:] = self.key[back:] == self.key[:-back]
        again[back:] &= self.at[back:] - self.at[:-back] <= self.among.window
        return again

    def per_message(self, where: Bools | None = None) -> Ints:
        """How many keys each message holds, or holds there."""
        place = self.message if where is None else self.message[where]
        return np.bincount(place, minlength=len(self.among.at))

    def in_common(self, of: Bools | None = None) -> Ints:
        """How many keys each message has in common with each before it, by how far back that is.

        Asked for are all messages, or some.
        """
        count, lags = len(self.among.at), self.among.lags
        common = np.zeros(count * lags, dtype=np.int64)
        for back in range(1, lags + 1):
            again = self.again(back)
            here = np.flatnonzero(again if of is None else again & of[self.message])
            if not here.size:
                break
            now = self.message[here]
            cell = now * lags + now - self.message[here - back] - 1
            common += np.bincount(cell, minlength=count * lags)
        return common.reshape(count, lags)


class Screened(NamedTuple):
    """What is seen of messages: which may be evidence, and what each has in common with others."""

    loud: Bools
    near: Floats
    copies: Bools
    fresh: Floats
    framed: Bools
    within: Bools

    @classmethod
    def at(cls, messages: Messages, facts: Ints, s: LoopSettings) -> "Screened":
        """Look at messages; those are loud that no bound proves quiet."""
        stems, content = facts[0][messages.words], facts[1][messages.words] > 0
        lengths, count = messages.lengths, len(messages.lengths)
        place = np.repeat(np.arange(count), lengths)
        runs = _runs(messages, place, content)
        held = KeysOfMessages.of(messages, stems, place, content)
        told = held.told
        fresh = told.per_message(~told.again(1)) / np.maximum(1, told.per_message())
        near = _shares(held)
        nearest = np.sort(np.partition(near, -3, axis=1)[:, -3:], axis=1)
        framed, within = _framed(held, s), _within(runs)
        loud = framed | within | _repeated(runs, s)
        # The same in other words needs few new ones; and only short messages are compared by words.
        stale = (fresh < s.fresh_high) & (lengths >= s.short)
        loud |= stale & (nearest.sum(axis=1) / 3 > s.words_low - ROUNDING)
        loud |= (lengths <= LONGEST_STEP) & (nearest[:, -1] >= COMPARED_FROM)
        copies = runs.in_common(loud) > 0
        copies |= (lengths < 3)[:, None] & (near == 1)  # too short to have a run
        return cls(loud, near, copies, fresh, framed, within)

    def common(self, where: Bools) -> Iterator[Common]:
        """What some of the messages have in common with earlier ones."""
        for near, copies, *rest in zip(*(each[where].tolist() for each in self[1:]), strict=True):
            shares = {back: share for back, share in enumerate(near, 1) if share}
            yield Common(shares, [back for back, copy in enumerate(copies, 1) if copy], *rest)


def _shares(stems: KeysOfMessages) -> Floats:
    """The share of stems that each message has in common with each before it."""
    common, size = stems.in_common(), stems.per_message()
    count, lags = common.shape
    earlier = np.arange(count)[:, None] - np.arange(1, lags + 1)
    return common / np.maximum(1, np.maximum(size[:, None], size[np.maximum(earlier, 0)]))


def _framed(stems: KeysOfMessages, s: LoopSettings) -> Bools:
    """A frame is made of words that the last two messages have too, two of them with content."""
    times, lengths = stems.times, stems.among.lengths
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


def _runs(messages: Messages, place: Ints, content: Bools) -> KeysOfMessages:
    """Which messages hold which runs of three words; those with a content word are telling."""
    words = messages.words.astype(np.uint64)
    inside = place[:-2] == place[2:]
    mixed = words[:-2] * _MIX[0] + words[1:-1] * _MIX[1] + words[2:] * _MIX[2]
    telling = content[:-2] | content[1:-1] | content[2:]
    return KeysOfMessages.of(messages, mixed[inside], place[:-2][inside], telling[inside])


def _repeated(runs: KeysOfMessages, s: LoopSettings) -> Bools:
    """Runs of words that earlier messages have too."""
    grams, lengths = runs.per_message(runs.telling), runs.among.lengths
    share = runs.per_message(runs.again(1) & runs.telling) / np.maximum(1, grams)
    # A copy of all is like it even where no share of it would be.
    loud: Bools = share > min(s.twin_low, 1 - ROUNDING)
    loud |= runs.per_message(runs.again(2)) > 0
    loud |= (grams == 0) & (lengths >= 3)
    return loud


def _within(runs: KeysOfMessages) -> Bools:
    """Runs of words that stand in a message often; see `MessageWords.may_repeat_within`."""
    lengths = runs.among.lengths
    often: Bools = (3 * runs.per_message() <= 2 * lengths - 2) & (lengths >= WITHIN_WORDS)
    return often
