"""A fast screen for many conversations at once: which messages can't be evidence of a loop.

The exact rules of `evidence` dominate the cost of a log, and in most messages they find nothing.
The screen compares the words of a whole batch as arrays and proves it: every rule needs words in
common with earlier messages, so their number is an upper bound. What can't be proved quiet goes
to the exact rules; nothing is decided here. Trigrams are compared by hashes; a collision can make
a message look repeated, never quiet.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chimeralab.detection.courtesy import is_polite
from chimeralab.detection.evidence import (
    MAX_ALIGNED_WORDS,
    MAX_FRAME_WORDS,
    MAX_STEP_WORDS,
    MIN_ALIGNED_SHARE,
    MIN_FRAME_CONTENT,
)
from chimeralab.detection.loops import Loops
from chimeralab.detection.words import (
    MIN_WITHIN_WORDS,
    SpokenMessage,
    is_content,
    mask_blocks,
    may_quote,
    stem,
    tokenize,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

BATCH_WORDS = 1 << 16
BATCH_MESSAGES = 1 << 14
MAX_VOCABULARY = 1 << 15
RETAINED_BYTES = 1 << 24
ROUNDING = 1e-9
# Odd constants without a pattern, to hash three words into one number.
_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], dtype=np.uint64)


class WordNumbers(dict[str, int]):
    """Words as numbers, with the stem of each and whether it is a content word."""

    def __init__(self) -> None:
        self._stems: dict[str, int] = {}
        self._added: list[tuple[int, bool]] = []
        self._properties = np.zeros((2, 0), dtype=np.int64)

    def __missing__(self, word: str) -> int:
        stem_number = self._stems.setdefault(stem(word), len(self._stems))
        self._added.append((stem_number, is_content(word)))
        number = self[word] = len(self)
        return number

    @property
    def properties(self) -> Ints:
        """A column per word: its stem, and whether it is a content word."""
        if self._added:
            added = np.array(self._added, dtype=np.int64).T
            self._properties = np.concatenate([self._properties, added], axis=1)
            self._added = []
        return self._properties


class Screen:
    """Tokenises conversations and marks the messages that no rule can find evidence in."""

    def __init__(self, settings: Loops) -> None:
        self._settings = settings
        self._vocabulary = WordNumbers()
        # Freeing one large block makes malloc keep the memory of a batch for the next one, instead
        # of returning it and faulting it in again page by page.
        np.empty(RETAINED_BYTES, dtype=np.uint8)

    def screen(self, conversations: Iterable[Sequence[str]]) -> Iterator[SpokenMessage]:
        """Yield the messages of all conversations in order, batch by batch."""
        if len(self._vocabulary) > MAX_VOCABULARY:
            self._vocabulary = WordNumbers()
        batch = Batch(self._vocabulary)
        for texts in conversations:
            heads = set[int]()
            for text in texts:
                batch.add(text, heads)
                if len(batch.words) >= BATCH_WORDS or len(batch.messages) >= BATCH_MESSAGES:
                    yield from batch.screen(self._settings)
                    batch = batch.continue_with(self._settings.window)
            batch.conversation += 1
        yield from batch.screen(self._settings)


class Batch:
    """Messages of several conversations; those up to `start` were screened with the last batch."""

    def __init__(self, vocabulary: WordNumbers) -> None:
        self._vocabulary = vocabulary
        self.messages: list[SpokenMessage] = []
        self.words: list[int] = []
        self.lengths: list[int] = []
        self.loud: list[bool] = []
        self.conversations: list[int] = []
        self.conversation = self.start = 0

    def add(self, text: str, heads: set[int]) -> None:
        """Add the next message; `heads` has the hashes of the first words of earlier long ones."""
        words = tokenize(text)
        masked = tokenize(mask_blocks(text)) if may_quote(text) else words
        loud = is_polite(text, words)
        if len(masked) >= MAX_ALIGNED_WORDS:  # long messages with the same beginning are copies
            head = hash(tuple(masked[:MAX_ALIGNED_WORDS]))
            loud = loud or head in heads
            heads.add(head)
        message = SpokenMessage(text)
        if masked is not words or not text.isascii():
            message.set_words(words, masked)
        self.messages.append(message)
        self.words.extend(map(self._vocabulary.__getitem__, masked))
        self.lengths.append(len(masked))
        self.loud.append(loud)
        self.conversations.append(self.conversation)

    def continue_with(self, window: int) -> "Batch":
        """A new batch, which starts with a window of the last conversation."""
        after = Batch(self._vocabulary)
        after.conversation = self.conversation
        after.start = kept = min(window, self.conversations.count(self.conversation))
        if kept:
            after.messages, after.lengths = self.messages[-kept:], self.lengths[-kept:]
            after.loud, after.conversations = self.loud[-kept:], self.conversations[-kept:]
            after.words = self.words[len(self.words) - sum(after.lengths) :]
        return after

    def screen(self, s: Loops) -> list[SpokenMessage]:
        """Mark each new message as quiet, or supply its overlap with earlier ones."""
        words = np.fromiter(self.words, dtype=np.int64, count=len(self.words))
        stem_of, is_content_word = self._vocabulary.properties
        content = is_content_word[words] > 0
        lengths = np.array(self.lengths, dtype=np.int64)
        conversations = np.array(self.conversations, np.int64)
        message = np.repeat(np.arange(len(lengths)), lengths)
        # Conversations are placed more than a window apart, so that none overlaps with another.
        at = np.arange(len(conversations)) + s.window * conversations
        lags = max(3, min(s.window, max(Counter(self.conversations).values(), default=0)))
        trigrams = KeyTable(*_hash_trigrams(words, message, content), at, s.window)
        stems = KeyTable(stem_of[words], message, content, at, s.window)
        content_stems = stems.content_only
        new = content_stems.count(~content_stems.recurs(1))
        fresh = new / np.maximum(1, content_stems.count())
        shares = _share_stems(stems, lags)

        may_frame = screen_frame(stems, lengths, s)
        may_repeat = screen_within(trigrams, lengths)
        loud = may_frame | may_repeat | screen_twin(trigrams, lengths, s)
        loud |= screen_paraphrase_and_order(shares, fresh, lengths, s)

        copies = trigrams.count_common(lags, loud) > 0
        copies |= (lengths < 3)[:, None] & (shares == 1)  # too short to have a trigram
        for each in self.messages[self.start :]:
            each.quiet = True
        loud |= np.array(self.loud, dtype=bool)
        loud[: self.start] = False
        columns = (each[loud].tolist() for each in (shares, copies, fresh, may_frame, may_repeat))
        for place, by_lag, copied, *rest in zip(
            np.flatnonzero(loud).tolist(), *columns, strict=True
        ):
            overlap = (
                {back: share for back, share in enumerate(by_lag, 1) if share},
                [back for back, is_copy in enumerate(copied, 1) if is_copy],
                *rest,
            )
            self.messages[place].quiet, self.messages[place].overlap = False, overlap
        return self.messages[self.start :]


class KeyTable:
    """Which message has which key, sorted by key and then by message, and how many times.

    Keys are stems or trigrams; `content` marks those with a content word. `at` is the position of
    each message, and a `window` reaches that far back.
    """

    def __init__(
        self, keys: NDArray[Any], message: Ints, content: Bools, at: Ints, window: int
    ) -> None:
        # Sorted as one number: key, message, and whether it lacks content, so that of equal keys
        # the one with content comes first and is kept. The highest bits of a hash are lost.
        bits = np.uint64(len(at).bit_length() + 1)
        packed = keys.astype(np.uint64) << bits | (message << 1 | ~content).astype(np.uint64)
        packed.sort()
        held = packed >> np.uint64(1)
        first = np.flatnonzero(np.concatenate([[True], held[1:] != held[:-1]])[: len(held)])
        packed, self.times = packed[first], np.diff(first, append=len(packed))
        low = (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)
        self.key, self.message, self.content = packed >> bits, low >> 1, low & 1 == 0
        self.at = at[self.message]
        self._messages, self._window = len(at), window

    @property
    def content_only(self) -> "KeyTable":
        """The rows whose keys have content."""
        part = copy(self)
        for name in ("key", "message", "at", "times", "content"):
            setattr(part, name, getattr(self, name)[self.content])
        return part

    def recurs(self, times: int) -> Bools:
        """Whether `times` earlier messages in the window have the key, for each row."""
        recurs = np.zeros(len(self.key), dtype=bool)
        recurs[times:] = self.key[times:] == self.key[:-times]
        recurs[times:] &= self.at[times:] - self.at[:-times] <= self._window
        return recurs

    def count(self, where: Bools | None = None) -> Ints:
        """The number of keys of each message, of all rows or of some."""
        message = self.message if where is None else self.message[where]
        return np.bincount(message, minlength=self._messages)

    def count_common(self, lags: int, of: Bools | None = None) -> Ints:
        """The number of keys that each message shares with the message at each lag before it.

        `of` restricts it to some messages; none has more than `lags` before it.
        """
        common = np.zeros(self._messages * lags, dtype=np.int64)
        for back in range(1, lags + 1):
            recurs = self.recurs(back)
            here = np.flatnonzero(recurs if of is None else recurs & of[self.message])
            if not here.size:
                break
            now = self.message[here]
            cell = now * lags + now - self.message[here - back] - 1
            common += np.bincount(cell, minlength=len(common))
        return common.reshape(self._messages, lags)


def _share_stems(stems: KeyTable, lags: int) -> Floats:
    """The share of stems that each message has in common with the message at each lag."""
    common, size = stems.count_common(lags), stems.count()
    earlier = np.arange(len(size))[:, None] - np.arange(1, lags + 1)
    larger: Ints = np.maximum(size[:, None], size[np.maximum(earlier, 0)])
    return common / np.maximum(1, larger)


def _hash_trigrams(
    words: Ints, message: Ints, content: Bools
) -> tuple[NDArray[np.uint64], Ints, Bools]:
    """The trigrams as hashes, with the message of each and whether it has a content word."""
    mixed = words.astype(np.uint64)
    mixed = mixed[:-2] * _MIX[0] + mixed[1:-1] * _MIX[1] + mixed[2:] * _MIX[2]
    has_content = content[:-2] | content[1:-1] | content[2:]
    inside = message[:-2] == message[2:]
    return mixed[inside], message[:-2][inside], has_content[inside]


# An upper bound for each rule of `evidence`: where it is False, the rule finds nothing.


def screen_twin(trigrams: KeyTable, lengths: Ints, s: Loops) -> Bools:
    """A twin needs trigrams in common with an earlier message, boilerplate with two of them."""
    grams = trigrams.count(trigrams.content)
    share = trigrams.count(trigrams.recurs(1) & trigrams.content) / np.maximum(1, grams)
    # A whole copy counts even where no share would.
    loud: Bools = share > min(s.twin_low, 1 - ROUNDING)
    loud |= trigrams.count(trigrams.recurs(2)) > 0
    loud |= (grams == 0) & (lengths >= 3)
    return loud


def screen_paraphrase_and_order(shares: Floats, fresh: Floats, lengths: Ints, s: Loops) -> Bools:
    """A paraphrase needs near messages and few new words; only short messages are aligned."""
    nearest = np.sort(np.partition(shares, -3, axis=1)[:, -3:], axis=1)
    stale = (fresh < s.fresh_high) & (lengths >= s.short)
    loud: Bools = stale & (nearest.sum(axis=1) / 3 > s.words_low - ROUNDING)
    loud |= (lengths <= MAX_STEP_WORDS) & (nearest[:, -1] >= MIN_ALIGNED_SHARE)
    return loud


def screen_frame(stems: KeyTable, lengths: Ints, s: Loops) -> Bools:
    """A frame needs stems that the last two messages have too, two of them with content."""
    times = stems.times
    in_three = (stems.key[2:] == stems.key[:-2]) & (stems.at[2:] - stems.at[:-2] == 2)
    here = np.flatnonzero(in_three) + 2
    shared = np.minimum(np.minimum(times[here], times[here - 1]), times[here - 2])
    words, content = (
        np.bincount(stems.message[here], each, len(lengths))
        for each in (shared, shared * stems.content[here])
    )
    enough = words / np.maximum(1, lengths) > s.frame_low
    loud: Bools = enough & (content >= MIN_FRAME_CONTENT) & (lengths <= MAX_FRAME_WORDS)
    return loud


def screen_within(trigrams: KeyTable, lengths: Ints) -> Bools:
    """A message repeats itself only with few distinct trigrams; see `may_repeat_within`."""
    loud: Bools = (3 * trigrams.count() <= 2 * lengths - 2) & (lengths >= MIN_WITHIN_WORDS)
    return loud
