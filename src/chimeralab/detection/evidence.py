"""What one message is evidence of: said before, said in other words, or nothing but courtesy."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chimeralab.core.records import Record
from chimeralab.detection.words import (
    COURTEOUS,
    Index,
    MessageWords,
    common_words,
    is_content,
    numbers_in,
    repeated_within,
    share_of_courtesy,
    stem,
    without_blocks,
    words_of,
)


@dataclass(frozen=True, slots=True)
class LoopSettings(Record):
    """The settings of the loop detector. The defaults are `loops-1`; whatever differs is marked.

    Pairs of `low` and `high` are ramps: evidence is 0 up to the one and 1 from the other on.
    """

    window: int = 32  # messages looked back
    twin_low: float = 0.15  # three-word runs shared with one earlier message
    twin_high: float = 0.45
    frame_low: float = 0.50  # words in the same order as in one earlier message
    frame_high: float = 0.75
    patch_low: float = 0.25  # three-word runs that stood in two earlier messages at least
    patch_high: float = 0.50
    patch_words: int = 20  # in fewer words, known words in another order may be news
    words_low: float = 0.38  # words shared, the mean of the three nearest messages
    words_high: float = 0.60
    fresh_low: float = 0.30  # new content words that weaken a paraphrase, and that refute it
    fresh_high: float = 0.60
    short: int = 4  # a message of fewer words weighs less
    short_weight: float = 0.75
    relay: float = 0.80  # a copy of what somebody else has just said for the first time
    progress: float = 0.30  # weight of a repeat after a tool has brought something new
    courtesy: float = 0.65  # evidence of an empty courteous message after another one
    moving: float = 0.50  # weight of a template that still says something new
    own_words: int = 6  # a speaker's own loop is made of messages of so many words
    drift: float = 0.30  # evidence that a healthy message may have
    on: float = 1.6  # the sum at which a loop is noticed; it ends at half of it
    cap: float = 2.0
    calls: int = 16  # tool calls looked back


def ramp(value: float, low: float, high: float) -> float:
    """0 up to `low`, 1 from `high` on, a straight line between.

    >>> ramp(0.25, 0.0, 0.5)
    0.5
    """
    return 0.0 if value <= low else 1.0 if value >= high else (value - low) / (high - low)


STILL_NEAR = 0.33  # words that a message has in common with the next ones of a rewording
NEARLY_SAME = 0.8  # overlap from which a message is a copy, whatever else was said
RECOMBINED = 0.6  # overlap below which known words in another order may say something new
QUOTES = ("```", ">", '"', "“")


class Weighed(NamedTuple):
    """What one message is evidence of, and the numbers of the messages that it resembles."""

    evidence: float
    kind: str
    near: tuple[int, ...]
    period: int


NOTHING = Weighed(0.0, "", (), 0)


class KeptMessage(NamedTuple):
    """What is kept of a message to compare later ones with."""

    words: tuple[str, ...]
    speaker: str | None
    evidence: float
    grams: int = 0
    stems: int = 0
    relayed: bool = False


class Resemblance(NamedTuple):
    """How alike a message is to each of the earlier ones, by their numbers."""

    grams: dict[int, float]
    stems: dict[int, float]

    def among(self, numbers: set[int]) -> "Resemblance":
        """The same, to some of them alone."""
        return Resemblance(*({n: x for n, x in each.items() if n in numbers} for each in self))


class TextEvidence(NamedTuple):
    """What a spoken message is evidence of, by itself and among those of its own speaker."""

    repeated: Weighed
    reworded: Weighed
    polite: Weighed
    own: Weighed
    own_heat: float

    @property
    def best(self) -> Weighed:
        """Word for word or in other words, whichever says more."""
        return max(self.repeated, self.reworded, key=lambda seen: seen.evidence)


RELAYED = TextEvidence(NOTHING, NOTHING, NOTHING, NOTHING, 0.0)


class TextMemory:
    """The last spoken messages of a conversation, numbered from 1, to compare the next one with."""

    def __init__(self, settings: LoopSettings) -> None:
        self.settings = settings
        self.number = 0
        self.something_new = False
        self._said: dict[int, KeptMessage] = {}
        self._grams, self._stems = Index(settings.window), Index(settings.window)
        self._content = Index(settings.window)
        self._courteous = 0.0
        self._withheld = 0.0

    def weigh(self, text: str, speaker: str | None) -> TextEvidence:
        """Take in the next message and say what it is evidence of."""
        s = self.settings
        self.number += 1
        words = words_of(text)
        whole = words_of(without_blocks(text)) if any(mark in text for mark in QUOTES) else words
        telling = self._without_boilerplate(whole)
        said = MessageWords.of(whole)
        wording = said if telling is whole else MessageWords.of(telling)
        alike = self._resemblance(wording)
        weight = s.short_weight if len(words) < s.short else 1.0
        progress, self.something_new = self.something_new, False
        # After news from a tool, a report that resembles the last one is work, not rewording.
        again, stale = (weight * s.progress, 0.0) if progress else (weight, weight)
        new = sum(not self._content.count(each) for each in wording.content)
        stale *= 1 - ramp(new / max(1, len(wording.content)), s.fresh_low, s.fresh_high)
        repeated = self._repeated(alike, again, speaker, wording)
        if self._is_relayed(alike.grams, speaker, len(telling)):
            self._withheld += max(0.0, repeated.evidence - s.drift)
            self._keep(said, KeptMessage(said.words, speaker, 0.0, relayed=True))
            return RELAYED
        if any(self._said[n].relayed for n in repeated.near):
            # It was not a relay after all: what was not counted then counts now.
            repeated = repeated._replace(evidence=repeated.evidence + self._withheld)
        self._withheld = 0.0
        reworded = self._reworded(alike, len(telling), stale)
        courtesy = self._courtesy(text, words)
        polite = self._after_courtesy(courtesy, words, repeated.evidence)
        mine = alike.among({n for n, each in self._said.items() if each.speaker == speaker})
        own = self._repeated(mine, again, speaker, wording) if speaker is not None else NOTHING
        own_heat = max(own.evidence, self._reworded(mine, len(telling), stale).evidence)
        if len(words) < s.own_words or courtesy >= COURTEOUS:
            # Acknowledgements of one side are no loop: they neither raise nor end one.
            own = own._replace(evidence=min(own.evidence, s.drift))
        self._keep(said, KeptMessage(said.words, speaker, repeated.evidence))
        if len(telling) >= 25 and repeated_within(telling) >= 0.5:
            repeated = Weighed(s.on, "within-turn", (), 1)
        return TextEvidence(repeated, reworded, polite, own, own_heat if speaker else 0.0)

    def _without_boilerplate(self, words: list[str]) -> list[str]:
        """The words outside of what two earlier messages said, where those say something new."""
        covered = [False] * len(words)
        for n in range(len(words) - 2):
            if self._grams.count(tuple(words[n : n + 3])) >= 2:
                covered[n] = covered[n + 1] = covered[n + 2] = True
        if not any(covered):
            return words
        rest: list[str] = []
        run: list[str] = []
        for word, known in zip([*words, ""], [*covered, True], strict=True):
            if not known:
                run.append(word)
                continue
            rest += run if len(run) >= 5 else []  # shorter runs are the slots of a template
            run = []
        content = {stem(word) for word in rest if is_content(word)}
        new = sum(not self._content.count(each) for each in content)
        enough = len(rest) >= max(8, len(words) / 3) and len(content) >= 3
        return rest if enough and 2 * new >= len(content) else words

    def _resemblance(self, wording: MessageWords) -> Resemblance:
        grams, stems = self._grams.shared(wording.grams), self._stems.shared(wording.stems)
        return Resemblance(
            {n: c / max(len(wording.grams), self._said[n].grams) for n, c in grams.items()},
            {n: c / max(len(wording.stems), self._said[n].stems) for n, c in stems.items()},
        )

    def _is_relayed(self, overlaps: dict[int, float], speaker: str | None, words: int) -> bool:
        """Whether this is the copy of what another speaker has just said for the first time."""
        copied = {n for n, overlap in overlaps.items() if overlap >= self.settings.relay}
        if speaker is None or words < 8 or not copied:
            return False
        if any(self._said[n].speaker in (speaker, None) for n in copied):
            return False
        return min(copied) >= self.number - 3

    def _repeated(
        self, alike: Resemblance, weight: float, speaker: str | None, wording: MessageWords
    ) -> Weighed:
        """Word for word: like two earlier messages, or patched together from several."""
        s = self.settings
        near = sorted(alike.grams, key=lambda n: (-alike.grams[n], -n))[:2]
        evidence = sum(ramp(alike.grams[n], s.twin_low, s.twin_high) for n in near) / 2
        if near and len(wording.words) >= s.short:
            frame = sum(self._framed(wording, n) for n in near) / 2
            evidence = max(evidence, frame, self._patched(wording))
        if not evidence:
            return NOTHING
        lag, same = self.number - near[0], alike.grams[near[0]] >= 0.9
        if self._moves_on(near[0], alike.grams[near[0]], speaker, wording):
            weight *= s.moving
        kind = {1: "verbatim", 2: "alternating"}.get(lag, "cycle") if same else "template"
        return Weighed(evidence * weight, kind, tuple(near), lag)

    def _moves_on(
        self, number: int, overlap: float, speaker: str | None, wording: MessageWords
    ) -> bool:
        """Whether a message that is like an earlier one still says something new.

        It does when it reckons with three numbers or more, and with others than the earlier one. A
        short one does as an answer to something new that somebody else has just said, or when it
        puts known words together in another way, as the steps of a puzzle do.
        """
        if overlap >= NEARLY_SAME:
            return False
        numbers = numbers_in(wording.words)
        if len(numbers) >= 3 and numbers != numbers_in(self._said[number].words):
            return True
        if len(wording.words) >= self.settings.patch_words:
            return False
        last = self._said.get(self.number - 1)
        is_reply = speaker is not None and last is not None and last.speaker != speaker
        if last is not None and is_reply and last.evidence < self.settings.drift:
            return True
        fillings = wording.content - {stem(word) for word in self._said[number].words}
        known = all(self._content.count(each) for each in fillings)
        return overlap < RECOMBINED and bool(fillings) and known

    def _patched(self, wording: MessageWords) -> float:
        """Put together from what earlier messages said, and not from their words in a new order."""
        s = self.settings
        if len(wording.words) < 12:
            return 0.0
        known = {gram for gram in wording.grams if self._grams.count(gram) >= 2}
        patch = ramp(len(known) / len(wording.grams), s.patch_low, s.patch_high)
        if not patch:
            return 0.0
        if len(wording.words) >= s.patch_words:
            return patch
        other = wording.content - {stem(word) for gram in known for word in gram}
        seen = sum(self._content.count(each) > 0 for each in other)
        return patch * (1 - seen / len(other)) if other else patch

    def _framed(self, wording: MessageWords, number: int) -> float:
        """One template with other fillings: the same words in the same order, but for new ones."""
        s, earlier = self.settings, self._said[number].words
        longest = max(len(wording.words), len(earlier))
        if longest > 80:
            return 0.0
        frame = ramp(common_words(wording.words, earlier) / longest, s.frame_low, s.frame_high)
        if not frame:
            return 0.0
        fillings = wording.content - set(map(stem, earlier))
        known = sum(self._content.count(each) > 0 for each in fillings)
        return frame * (1 - known / len(fillings)) if fillings else frame

    def _reworded(self, alike: Resemblance, words: int, stale: float) -> Weighed:
        """The same in other words: near to three earlier messages, with hardly a new word."""
        s = self.settings
        if not stale or words < s.short:
            return NOTHING
        nearest = sorted(alike.stems, key=lambda n: (-alike.stems[n], -n))[:3]
        near = sum(alike.stems[n] for n in nearest) / 3
        evidence = ramp(near, s.words_low, s.words_high) * stale
        return Weighed(evidence, "paraphrase", tuple(nearest), 0) if evidence else NOTHING

    def _courtesy(self, text: str, words: Sequence[str]) -> float:
        """How far a short message is nothing but courtesy, from 0 to 1."""
        if len(words) >= 45:
            return 0.0
        if not any(char.isalnum() for char in text):
            return float(any(unicodedata.category(char) == "So" for char in text))
        courtesy = ramp(share_of_courtesy(words) or 0.0, 0.2, 0.5)
        return courtesy * (1 - ramp(len(words), 25, 45))

    def _after_courtesy(self, courtesy: float, words: Sequence[str], repeated: float) -> Weighed:
        """Courtesy counts after courtesy; an idle word in between neither counts nor ends it."""
        s, before = self.settings, self._courteous
        last = (self.number - 1,)
        self._courteous = courtesy
        if courtesy >= COURTEOUS:
            evidence = max(s.courtesy * courtesy, repeated) if before >= COURTEOUS else s.drift
            return Weighed(evidence, "farewell", last, 1)
        if before >= COURTEOUS and len(words) < 8 and share_of_courtesy(words) is None:
            self._courteous = before
            return Weighed(s.drift, "farewell", last, 1)
        return NOTHING

    def _keep(self, wording: MessageWords, said: KeptMessage) -> None:
        self._grams.add(self.number, wording.runs | wording.grams)
        self._stems.add(self.number, wording.stems)
        self._content.add(self.number, wording.content)
        self._said[self.number] = said._replace(grams=len(wording.grams), stems=len(wording.stems))
        self._said.pop(self.number - self.settings.window, None)

    def stretched_back(self, began: int) -> int:
        """A rewording begins before it is evident: go back while messages resemble the next."""
        while True:
            for earlier in (began - 1, began - 2):
                if (
                    self._near_next(earlier, range(began, min(self.number, began + 6)))
                    >= STILL_NEAR
                ):
                    began = earlier
                    break
            else:
                return began

    def _near_next(self, number: int, later: range) -> float:
        """The mean share of words that a message has in common with the two nearest later ones."""
        if number not in self._said:
            return 0.0
        words = {stem(word) for word in self._said[number].words}
        others = ({stem(word) for word in self._said[n].words} for n in later if n in self._said)
        near = sorted(len(words & other) / max(len(words), len(other)) for other in others)
        return sum(near[-2:]) / 2
