"""Which messages are like none before them, for many conversations at once.

The exact terms of `evidence` cost more than all else, and in most messages of most logs they find
nothing. A look at the words of a whole batch, as arrays of numbers, proves so of these: every term
needs words in common with earlier messages, and has a bound in how many there are. Whatever can't
be proved quiet is weighed by the exact terms, so nothing is decided here. Runs of words are
compared by hashes: two that collide can make a message look repeated, and never quiet.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chimeralab.detection.courtesy import (
    COURTEOUS,
    FILLERS,
    IDLE,
    LENGTHS,
    PHRASES,
    SHARES,
    courtesy_of,
    is_courteous,
    is_idle,
)
from chimeralab.detection.evidence import (
    COMPARED_FROM,
    COMPARED_WORDS,
    FRAMED_WORDS,
    LONGEST_STEP,
    LoopSettings,
)
from chimeralab.detection.words import (
    FUNCTION_WORDS,
    WITHIN_WORDS,
    Common,
    HeardMessage,
    heard,
    is_content,
    stem,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

WORDS_AT_ONCE = 50_000
MESSAGES_AT_ONCE = 1 << 14
MOST_KNOWN_WORDS = 1 << 17
ROUNDING = 1e-9
_IN_PHRASES = frozenset(
    word for phrases in PHRASES.values() for phrase in phrases for word in phrase
)
# Odd numbers without a pattern, to mix three words into one number.
_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], dtype=np.uint64)


class WordNumbers(dict[str, int]):
    """Words as numbers, with what has to be known of each."""

    def __init__(self) -> None:
        self._stems: dict[str, int] = {}
        self._added: list[tuple[int, ...]] = []
        self._facts = np.zeros((4, 0), dtype=np.int64)

    def __missing__(self, word: str) -> int:
        courteous = is_courteous(word) or word in _IN_PHRASES or not word[0].isalnum()
        other = not courteous and word not in FUNCTION_WORDS and word not in FILLERS
        head = self._stems.setdefault(stem(word), len(self._stems))
        self._added.append((head, is_content(word), courteous, other))
        number = self[word] = len(self)
        return number

    @property
    def facts(self) -> Ints:
        """By word: its stem, whether it is content, may be courteous, and says something else."""
        if self._added:
            added = np.array(self._added, dtype=np.int64).T
            self._facts, self._added = np.concatenate([self._facts, added], axis=1), []
        return self._facts


class Screen:
    """Hears the messages of conversations, and knows which of them are quiet."""

    def __init__(self, settings: LoopSettings) -> None:
        self._settings = settings
        self._vocabulary = WordNumbers()

    def hear(self, talks: Iterable[Sequence[str]]) -> Iterator[HeardMessage]:
        """The messages of all conversations in order, some thousand at a time."""
        batch = Batch()
        for talk in talks:
            heads = set[int]()
            for text in talk:
                batch.add(text, heads)
                if batch.words >= WORDS_AT_ONCE or len(batch.messages) >= MESSAGES_AT_ONCE:
                    yield from self._judged(batch)
                    batch = batch.next(self._settings.window)
            batch.talk += 1
        yield from self._judged(batch)

    def _judged(self, batch: "Batch") -> list[HeardMessage]:
        if len(self._vocabulary) > MOST_KNOWN_WORDS:
            self._vocabulary = WordNumbers()
        messages = batch.as_numbers(self._vocabulary)
        look = Screened.at(messages, self._vocabulary.facts, self._settings)
        loud = look.loud | np.array(batch.loud, dtype=bool)
        loud[: batch.start] = False
        for message, is_loud in zip(
            batch.messages[batch.start :], loud[batch.start :].tolist(), strict=True
        ):
            message.quiet = not is_loud
        for place in np.flatnonzero(loud).tolist():
            batch.messages[place].common = look.common(place)
        return batch.messages[batch.start :]


class Batch:
    """Messages of conversations side by side; those up to `start` were judged before."""

    def __init__(self) -> None:
        self.messages: list[HeardMessage] = []
        self.loud: list[bool] = []
        self.talks: list[int] = []
        self.talk = self.start = self.words = 0

    def add(self, text: str, heads: set[int]) -> None:
        """Take in the next message of a conversation, some of which begin with `heads`."""
        message, loud = heard(text), False
        words, whole = message.words, message.whole
        if len(whole) >= COMPARED_WORDS:  # long messages that begin alike are alike
            head = hash(whole[:COMPARED_WORDS])
            loud = head in heads
            heads.add(head)
        if len(words) < LENGTHS[1] and (whole != tuple(words) or not text.isascii()):
            # The arrays have the words of `whole` alone, and of a sign what it stands for.
            loud = loud or courtesy_of(text, words) >= COURTEOUS or is_idle(words)
        self.messages.append(message)
        self.loud.append(loud)
        self.talks.append(self.talk)
        self.words += len(whole)

    def next(self, window: int) -> "Batch":
        """An empty batch that goes on with the last conversation."""
        after = Batch()
        after.talk = self.talk
        after.start = min(window, self.talks.count(self.talk))
        if after.start:
            after.messages, after.talks = self.messages[-after.start :], self.talks[-after.start :]
            after.loud = self.loud[-after.start :]
        return after

    def as_numbers(self, vocabulary: WordNumbers) -> "Messages":
        whole = [message.whole for message in self.messages]
        lengths = np.array(list(map(len, whole)), dtype=np.int64)
        words = map(vocabulary.__getitem__, chain.from_iterable(whole))
        return Messages(
            np.fromiter(words, dtype=np.int64, count=lengths.sum()),
            lengths,
            np.array(self.talks, dtype=np.int64),
        )


class Messages(NamedTuple):
    """Messages side by side: their words one after another, how many, and whose talk it is."""

    words: Ints
    lengths: Ints
    talk: Ints


class KeysOfMessages(NamedTuple):
    """Which messages hold which key, by key and then by message; `telling` where it says much."""

    key: NDArray[np.uint64]
    message: Ints
    telling: Bools
    talk: Ints
    window: int

    @classmethod
    def of(
        cls, keys: NDArray[Any], place: Ints, telling: Bools, talk: Ints, window: int
    ) -> "KeysOfMessages":
        # Sorted as one number: key, message, and whether it is not telling, so that one that is
        # comes first and stays. The highest bits of a hash are lost.
        bits = np.uint64(len(talk).bit_length() + 1)
        low = (place << 1 | ~telling).astype(np.uint64)
        packed = np.sort(keys.astype(np.uint64) << bits | low)
        packed = packed[_changes(packed >> np.uint64(1))]
        place = ((packed & ((np.uint64(1) << bits) - np.uint64(1))) >> np.uint64(1)).astype(
            np.int64
        )
        telling = (packed & np.uint64(1)) == 0
        return cls(packed >> bits, place, telling, talk, window)

    @property
    def told(self) -> "KeysOfMessages":
        """What is telling alone."""
        where = self.telling
        return self._replace(key=self.key[where], message=self.message[where], telling=where[where])

    def again(self, back: int, of: Ints | None = None) -> Bools:
        """Whether the key stands in the window in so many earlier messages, for each or some."""
        here = np.arange(len(self.key)) if of is None else of
        there = np.maximum(here - back, 0)
        now, then = self.message[here], self.message[there]
        same = (self.key[here] == self.key[there]) & (self.talk[now] == self.talk[then])
        again: Bools = same & (now - then <= self.window) & (here >= back)
        return again

    def per_message(self, where: Bools | None = None) -> Ints:
        """How many keys each message holds, or holds there."""
        place = self.message if where is None else self.message[where]
        return np.bincount(place, minlength=len(self.talk))

    def in_common(self, seen: Bools) -> Ints:
        """How many keys each message has in common with each before it, by how far back that is.

        Asked for are those that are `seen` in some message before.
        """
        count = len(self.talk)
        lags = max(3, min(self.window, count))
        common, here, back = np.zeros(count * lags, dtype=np.int64), np.flatnonzero(seen), 1
        while here.size:
            now = self.message[here]
            lag = now - self.message[here - back]
            common += np.bincount(now * lags + lag - 1, minlength=count * lags)
            back += 1
            here = here[self.again(back, here)]
        return common.reshape(count, lags)


class Screened(NamedTuple):
    """What is seen of messages: which may be evidence, and what each has in common with others."""

    loud: Bools
    near: Floats
    copies: Bools
    new: Ints

    @classmethod
    def at(cls, messages: Messages, facts: Ints, s: LoopSettings) -> "Screened":
        """Look at messages; those are loud that no bound proves quiet."""
        stems, content, courteous, other = facts[:, messages.words]
        content = content.astype(bool)
        lengths, count = messages.lengths, len(messages.lengths)
        place = np.repeat(np.arange(count), lengths)
        runs = _runs(messages, place, content, s.window)
        held = KeysOfMessages.of(stems, place, content, messages.talk, s.window)
        told = held.told
        new = told.per_message(~told.again(1))
        near = _shares(held)
        nearest = np.sort(np.partition(near, -3, axis=1)[:, -3:], axis=1)
        loud = _polite(
            lengths, np.bincount(place, courteous, count), np.bincount(place, other, count)
        )
        loud |= _framed(messages, place, content, s)
        loud |= _repeated(runs, lengths, s)
        # The same in other words needs few new ones; and only short messages are compared by words.
        stale = (new / np.maximum(1, told.per_message()) < s.fresh_high) & (lengths >= s.short)
        loud |= stale & (nearest.sum(axis=1) / 3 > s.words_low - ROUNDING)
        loud |= (lengths <= LONGEST_STEP) & (nearest[:, -1] >= COMPARED_FROM)
        copies = runs.in_common(runs.again(1) & loud[runs.message]) > 0
        copies |= (lengths < 3)[:, None] & (near == 1)  # too short to have a run
        return cls(loud, near, copies, new)

    def common(self, place: int) -> Common:
        """What a message has in common with earlier ones."""
        near = {back: share for back, share in enumerate(self.near[place].tolist(), 1) if share}
        copies = (np.flatnonzero(self.copies[place]) + 1).tolist()
        return Common(near, copies, int(self.new[place]))


def _shares(stems: KeysOfMessages) -> Floats:
    """The share of stems that each message has in common with each before it."""
    common, size = stems.in_common(stems.again(1)), stems.per_message()
    count, lags = common.shape
    earlier = np.arange(count)[:, None] - np.arange(1, lags + 1)
    return common / np.maximum(1, np.maximum(size[:, None], size[np.maximum(earlier, 0)]))


def _polite(lengths: Ints, courteous: NDArray[Any], other: NDArray[Any]) -> Bools:
    """`courteous` counts the words that may be courteous, `other` those that say something else."""
    share = courteous / np.maximum(1, courteous + other)
    bound = _ramp(share, *SHARES) * (1 - _ramp(lengths, *LENGTHS))
    loud: Bools = (bound >= COURTEOUS - ROUNDING) | ((lengths < IDLE) & (other == 0))
    return loud


def _ramp(values: NDArray[Any], low: float, high: float) -> Floats:
    return np.clip((values - low) / (high - low), 0.0, 1.0)


def _framed(messages: Messages, place: Ints, content: Bools, s: LoopSettings) -> Bools:
    """A frame is made of words that the last two messages have too, two of them with content."""
    bits = len(messages.lengths).bit_length() + 1
    packed = np.sort(messages.words << bits | place << 1 | ~content)
    first = np.flatnonzero(_changes(packed))
    times = np.diff(first, append=len(packed))
    packed = packed[first]
    word, at = packed >> bits, (packed & ((1 << bits) - 1)) >> 1
    three = (word[2:] == word[:-2]) & (at[2:] - at[:-2] == 2)
    three &= messages.talk[at[2:]] == messages.talk[at[:-2]]
    shared = np.minimum(np.minimum(times[2:], times[1:-1]), times[:-2]) * three
    telling = shared * (packed[2:] & 1 == 0)
    lengths, count = messages.lengths, len(messages.lengths)
    words, told = (np.bincount(at[2:], each, count) for each in (shared, telling))
    enough = words / np.maximum(1, lengths) > s.frame_low
    loud: Bools = enough & (told >= 2) & (lengths <= FRAMED_WORDS)
    return loud


def _runs(messages: Messages, place: Ints, content: Bools, window: int) -> KeysOfMessages:
    """Which messages hold which runs of three words; those with a content word are telling."""
    words = messages.words.astype(np.uint64)
    inside = place[:-2] == place[2:]
    mixed = words[:-2] * _MIX[0] + words[1:-1] * _MIX[1] + words[2:] * _MIX[2]
    telling = content[:-2] | content[1:-1] | content[2:]
    return KeysOfMessages.of(
        mixed[inside], place[:-2][inside], telling[inside], messages.talk, window
    )


def _repeated(runs: KeysOfMessages, lengths: Ints, s: LoopSettings) -> Bools:
    """Runs of words that earlier messages have too, or that stand in a message often."""
    grams = runs.per_message(runs.telling)
    share = runs.per_message(runs.again(1) & runs.telling) / np.maximum(1, grams)
    # A copy of all is like it even where no share of it would be.
    loud: Bools = share > min(s.twin_low, 1 - ROUNDING)
    loud |= runs.per_message(runs.again(2)) > 0
    loud |= (grams == 0) & (lengths >= 3)
    return loud | ((lengths >= WITHIN_WORDS) & (3 * runs.per_message() <= 2 * lengths - 2))


def _changes(values: NDArray[Any]) -> Bools:
    """Where sorted values differ from the ones before."""
    return np.concatenate([[True], values[1:] != values[:-1]])[: len(values)]
