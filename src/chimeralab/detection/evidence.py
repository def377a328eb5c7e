"""What one message is evidence of: said before, said in other words, or nothing but courtesy."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chimeralab.core.records import Record
from chimeralab.detection.courtesy import COURTEOUS, SOON, courtesy_of, is_idle
from chimeralab.detection.words import (
    TELLING,
    Common,
    HeardMessage,
    MessageWords,
    common_places,
    exchanged,
    is_content,
    names_something,
    ramp,
    repeated_within,
)


@dataclass(frozen=True, slots=True)
class LoopSettings(Record):
    """The settings of the loop detector. The defaults are `loops-1`; whatever differs is marked.

    Pairs of `low` and `high` are ramps: evidence is 0 up to the one and 1 from the other on.
    """

    window: int = 32  # messages looked back
    twin_low: float = 0.15  # three-word runs shared with one earlier message
    twin_high: float = 0.45
    order_low: float = 0.60  # words in the same order, the mean of the three nearest messages
    order_high: float = 0.80
    frame_low: float = 0.22  # words that stand in the last two messages too, around a slot
    frame_high: float = 0.35
    frame: float = 0.70  # evidence of one frame with ever new fillings
    words_low: float = 0.38  # words shared, the mean of the three nearest messages
    words_high: float = 0.60
    fresh_low: float = 0.30  # new content words that weaken a paraphrase, and that refute it
    fresh_high: float = 0.60
    short: int = 4  # a message of fewer words weighs less
    short_weight: float = 0.75
    progress: float = 0.30  # weight of a repeat after a tool has brought something new
    courtesy: float = 0.65  # evidence of an empty courteous message after another one
    reply: float = 0.60  # weight of a short answer to something new
    own_words: int = 6  # a speaker's own loop is made of messages of so many words
    drift: float = 0.30  # evidence that a healthy message may have
    on: float = 1.6  # the sum at which a loop is noticed; it ends at half of it
    cap: float = 2.0
    calls: int = 16  # tool calls looked back


STILL_NEAR = 0.33  # words that a message has in common with the next ones of a rewording
NEARLY_SAME = 0.8  # overlap from which a message is a copy, whatever else was said
COMPARED = 6  # earlier messages that are compared word by word: those with most words in common
COMPARED_WORDS = 200  # of each
COMPARED_FROM = 0.5  # share of words in common
SLOT = 3  # words; a longer exchange is another sentence
TOLD_APART = 0.06  # share of words exchanged for opposed ones that makes a message another step
LONGEST_STEP = 30  # words
NUMERIC = 0.2  # share of numbers in a message that reckons with them
BRIEF = 9  # words; in fewer than these a new word is news
ANSWER = 20  # words; fewer may be a short answer
FRAMED_WORDS = 80  # a longer message is no template
POLITE_WORDS = 10  # fewer courteous words of one speaker are an acknowledgement


class Weighed(NamedTuple):
    """What one message is evidence of, and the numbers of the messages that it resembles."""

    evidence: float
    kind: str
    near: tuple[int, ...]
    period: int


NOTHING = Weighed(0.0, "", (), 0)


class KeptMessage(NamedTuple):
    """What is kept of a message to compare later ones with."""

    words: MessageWords
    speaker: str | None
    evidence: float


class QuietMessage(NamedTuple):
    """The same of a message that is like none before it; few later ones ask for its words."""

    heard: HeardMessage
    speaker: str | None
    evidence: float = 0.0

    @property
    def words(self) -> MessageWords:
        return self.heard.whole


class Likeness(NamedTuple):
    """How alike a message is to an earlier one: runs of words, and words in the same order."""

    number: int
    runs: float
    order: float


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


NO_EVIDENCE = TextEvidence(NOTHING, NOTHING, NOTHING, NOTHING, 0.0)


class TextMemory:
    """The last spoken messages of a conversation, numbered from 1, to compare the next one with."""

    def __init__(self, settings: LoopSettings) -> None:
        self.settings = settings
        self.number = 0
        self.something_new = False
        # As many as the window has, the oldest first.
        self._said: dict[int, KeptMessage | QuietMessage] = {}
        self._courteous: int | None = None  # the last courteous message

    def weigh(self, heard: HeardMessage, speaker: str | None) -> TextEvidence:
        """Take in the next message and say what it is evidence of."""
        s = self.settings
        self.number += 1
        progress, self.something_new = self.something_new, False
        if heard.quiet:
            self._keep(QuietMessage(heard, speaker))
            return NO_EVIDENCE
        words = heard.words
        common = heard.common or self._common(heard.whole)
        said = wording = self._same(heard.whole, common.copies)
        if said is heard.whole:  # what was said word for word has nothing new to leave apart
            wording = self._without_boilerplate(said, common)
        if wording is not said:
            common = self._common(wording)
        near = {self.number - back: share for back, share in common.near.items()}
        alike = self._alike(wording, near, common.copies, speaker)
        weight = s.short_weight if len(words) < s.short else 1.0
        # After news from a tool, a report that resembles the last one is work, not rewording.
        again, stale = (weight * s.progress, 0.0) if progress else (weight, weight)
        stale *= 1 - ramp(common.fresh, s.fresh_low, s.fresh_high)
        if len(words) < BRIEF:
            again *= 1 - ramp(self._news(words), 0.0, 0.5)
        reply = s.reply if self._is_answer(speaker, len(wording)) else 1.0
        # Whether it says something new is asked before a short answer weighs less.
        seen = self._repeated(alike, again, len(wording))
        told = seen if reply == 1.0 else self._repeated(alike, again, len(wording), reply)
        repeated = told
        if common.framed and told.evidence < s.frame * again:  # which is all a frame can give
            repeated = max(told, self._framed(said, again), key=lambda each: each.evidence)
        reworded = self._reworded(near, len(wording), stale)
        courtesy = courtesy_of(heard.text, words)
        polite = self._polite(courtesy, words, repeated.evidence)
        own, own_heat = NOTHING, 0.0
        if speaker is not None:
            own, again_mine = told, reworded
            mine = self._of(speaker, near)
            if len(mine) < len(near):
                of_mine = [each for each in alike if each.number in mine]
                own = self._repeated(of_mine, again, len(wording), reply)
                again_mine = self._reworded(mine, len(wording), stale)
            own_heat = max(own.evidence, again_mine.evidence)
        polite_only = courtesy >= COURTEOUS and len(words) < POLITE_WORDS
        if polite_only or len(words) < s.own_words:
            # Acknowledgements of one side are no loop: they neither raise nor end one.
            own = own._replace(evidence=min(own.evidence, s.drift))
        self._keep(KeptMessage(said, speaker, seen.evidence))
        if common.within and wording.may_repeat_within and repeated_within(wording) >= 0.5:
            repeated = Weighed(s.on, "within-turn", (), 1)
        return TextEvidence(repeated, reworded, polite, own, own_heat if speaker else 0.0)

    def _common(self, wording: MessageWords) -> Common:
        """What a message has in common with the earlier ones."""
        stems, near, copies = wording.stems, {}, []
        for n, kept in self._said.items():
            others = kept.words.stems
            if both := len(stems & others):
                near[self.number - n] = both / max(len(stems), len(others))
                if not wording.keys.isdisjoint(kept.words.keys):
                    copies.append(self.number - n)
        new = len(self._unheard(wording.content, "content"))
        return Common(near, copies, new / max(1, len(wording.content)))

    def _same(self, said: MessageWords, copies: Iterable[int]) -> MessageWords:
        """The same words as an earlier message has them, with their sets, if one has."""
        earlier = (self._said[self.number - back].words for back in copies)
        return next((words for words in earlier if words == said), said)

    def _of(self, speaker: str | None, near: Mapping[int, float]) -> dict[int, float]:
        return {n: share for n, share in near.items() if self._said[n].speaker == speaker}

    def _unheard(self, keys: frozenset[str], which: str) -> frozenset[str]:
        """The keys that no earlier message has in its set of that name."""
        for kept in reversed(self._said.values()):
            if not keys:
                break
            keys -= getattr(kept.words, which)
        return keys

    def _without_boilerplate(self, words: MessageWords, common: Common) -> MessageWords:
        """The words outside of what two earlier messages said, where those say something new."""
        once, twice = set[tuple[str, ...]](), set[tuple[str, ...]]()
        for back in common.copies:
            runs = words.keys & self._said[self.number - back].words.keys
            twice |= once & runs
            once |= runs
        if not twice:
            return words
        covered = [False] * len(words)
        for n, three in enumerate(zip(words, words[1:], words[2:], strict=False)):
            if three in twice:
                covered[n] = covered[n + 1] = covered[n + 2] = True
        rest: list[str] = []
        run: list[str] = []
        for word, known in zip([*words, ""], [*covered, True], strict=True):
            if not known:
                run.append(word)
                continue
            rest += run if len(run) >= 5 else []  # shorter runs are the slots of a template
            run = []
        if len(rest) < max(8, len(words) / 3):
            return words
        outside = MessageWords(rest)
        content, new = outside.content, round(common.fresh * len(words.content))
        if len(content) < 3 or 2 * new < len(content):  # so many are new in the whole message
            return words
        return outside if 2 * len(self._unheard(content, "content")) >= len(content) else words

    def _alike(
        self,
        wording: MessageWords,
        near: Mapping[int, float],
        copies: Iterable[int],
        speaker: str | None,
    ) -> list[Likeness]:
        """How alike a message is to the nearest ones, everybody's and the speaker's own.

        Those that it only resembles, while it says something else, are left out.
        """
        words, said = wording[:COMPARED_WORDS], self._said
        numbers = [self.number - back for back in copies]
        overlaps = {n: wording.overlap(said[n].words) for n in numbers}
        compared = {
            n
            for n, share in near.items()
            if overlaps.get(n, 0.0) > self.settings.twin_low
            or (share >= COMPARED_FROM and len(words) <= LONGEST_STEP)
            or (n in overlaps and words == said[n].words[:COMPARED_WORDS])
        }
        if not compared:  # then there is nothing to choose from
            return []
        by_share = sorted(near, key=lambda n: (-near[n], -overlaps.get(n, 0.0), -n))
        mine = [n for n in by_share if said[n].speaker == speaker]
        chosen = {*by_share[:COMPARED], *mine[:COMPARED]}
        alike = []
        for number in chosen & compared:
            order, other = 0.0, said[number].words[:COMPARED_WORDS]
            if words == other:
                order = 1.0
            else:
                pairs = common_places(words, other)
                if self._tells_apart(words, exchanged(words, other, pairs)):
                    continue
                if any(is_content(words[place]) for place, _ in pairs):
                    order = len(pairs) / max(len(words), len(other))
            alike.append(Likeness(number, overlaps.get(number, 0.0), order))
        return alike

    def _tells_apart(
        self, words: Sequence[str], exchanges: Iterable[tuple[Sequence[str], Sequence[str]]]
    ) -> bool:
        """Whether a message says something else of the same things, as the steps of a puzzle do.

        A word stands in the place of another, and both stand together in some message: they are
        two things, left and right or five and eight, and it matters which. Synonyms do not stand
        together, and neither do the fillings of a template.
        """
        if len(words) > LONGEST_STEP:
            return False
        reckons = sum(map(str.isdigit, words)) >= NUMERIC * len(words)
        apart = 0
        for here, there in exchanges:
            if len(here) <= SLOT >= len(there):
                mine = [w for w in here if names_something(w) and (reckons or not w.isdigit())]
                theirs = [w for w in there if names_something(w)]
                apart += sum(any(self._opposed(w, o, words) for o in theirs) for w in mine)
        return apart > TOLD_APART * sum(map(names_something, words))

    def _opposed(self, word: str, other: str, words: Sequence[str]) -> bool:
        """Whether two words stand together in this message or in an earlier one."""
        said = (kept.words.distinct for kept in self._said.values())
        return word != other and (
            other in words or any(word in each and other in each for each in said)
        )

    def _news(self, words: Sequence[str]) -> float:
        """The share of words that no earlier message has, among those that say something."""
        telling = [word for word in words if names_something(word)]
        unheard = self._unheard(frozenset(telling), "distinct")
        return sum(word in unheard for word in telling) / max(1, len(telling))

    def _repeated(
        self, alike: Sequence[Likeness], weight: float, words: int, reply: float = 1.0
    ) -> Weighed:
        """Word for word like two earlier messages, or with the words in order like three."""
        if not alike:
            return NOTHING
        s = self.settings
        by_runs = sorted(alike, key=lambda each: (-each.runs, -each.number))[:2]
        by_order = sorted(alike, key=lambda each: (-each.order, -each.number))[:3]
        twin = sum(ramp(each.runs, s.twin_low, s.twin_high) for each in by_runs) / 2
        if twin and by_runs[0].runs < NEARLY_SAME:
            twin *= reply
        order = ramp(sum(each.order for each in by_order) / 3, s.order_low, s.order_high)
        order = order if words >= s.short else 0.0
        if not twin and not order:
            return NOTHING
        if twin >= order:
            nearest = [each for each in by_runs if each.runs > s.twin_low]
        else:
            nearest = [each for each in by_order if each.order > s.order_low]
        lag, same = self.number - nearest[0].number, nearest[0].runs >= 0.9
        kind = {1: "verbatim", 2: "alternating"}.get(lag, "cycle") if same else "template"
        numbers = tuple(each.number for each in nearest)
        return Weighed(max(twin, order) * weight, kind, numbers, lag)

    def _is_answer(self, speaker: str | None, words: int) -> bool:
        """Whether a message is a short answer to something new that somebody else has just said."""
        last = self._said.get(self.number - 1)
        if speaker is None or last is None or last.speaker == speaker or words >= ANSWER:
            return False
        return last.evidence < self.settings.drift

    def _framed(self, words: Sequence[str], weight: float) -> Weighed:
        """One frame around ever new fillings: runs of words that the last two messages have too.

        A head or a tail that comes back is no frame: one run has to have a slot on both sides.
        """
        s, last = self.settings, self._said.get(self.number - 1)
        before = self._said.get(self.number - 2)
        if last is None or before is None or not 0 < len(words) <= FRAMED_WORDS:
            return NOTHING
        # Seen at a glance in most messages: too few words stand in all three, side by side.
        common = last.words.distinct & before.words.distinct
        known = [word in common for word in words]
        pairs = [n for n in range(len(words) - 1) if known[n] and known[n + 1]]
        beside = {*pairs, *(n + 1 for n in pairs)}
        if len(beside) / len(words) <= s.frame_low or sum(TELLING[words[n]] for n in beside) < 2:
            return NOTHING
        places = common_places(last.words[:FRAMED_WORDS], before.words[:FRAMED_WORDS])
        frame = common_places(words, [last.words[place] for place, _ in places])
        runs: list[list[int]] = [[]]
        for place, _ in frame:
            if runs[-1] and place != runs[-1][-1] + 1:
                runs.append([])
            runs[-1].append(place)
        runs = [run for run in runs if len(run) >= 2]
        framing = {place for run in runs for place in run}
        fillings = [word for place, word in enumerate(words) if place not in framing]
        has_slots = any(run[0] > 0 and run[-1] < len(words) - 1 for run in runs)
        content = sum(is_content(words[place]) for place in framing)
        if not has_slots or len(runs) < 2 or content < 2 or self._news(fillings) < 0.5:
            return NOTHING
        evidence = s.frame * ramp(len(framing) / len(words), s.frame_low, s.frame_high) * weight
        return Weighed(evidence, "template", (self.number - 1, self.number - 2), 1)

    def _reworded(self, near: Mapping[int, float], words: int, stale: float) -> Weighed:
        """The same in other words: near to three earlier messages, with hardly a new word."""
        s = self.settings
        if not stale or words < s.short:
            return NOTHING
        mean = sum(sorted(near.values(), reverse=True)[:3]) / 3
        evidence = ramp(mean, s.words_low, s.words_high) * stale
        if not evidence:
            return NOTHING
        nearest = sorted(near, key=lambda n: (-near[n], -n))[:3]
        return Weighed(evidence, "paraphrase", tuple(nearest), 0)

    def _polite(self, courtesy: float, words: Sequence[str], repeated: float) -> Weighed:
        """Courtesy counts soon after courtesy; an idle word between neither counts nor ends it."""
        s, last = self.settings, self._courteous
        soon = last is not None and last >= self.number - SOON
        if courtesy >= COURTEOUS:
            self._courteous = self.number
            evidence = max(s.courtesy * courtesy, repeated) if soon else s.drift
            return Weighed(evidence, "farewell", (last,) if last and soon else (), 1)
        if last is not None and soon and is_idle(words):
            self._courteous = last + 1
            return Weighed(s.drift, "farewell", (), 1)
        return NOTHING

    def _keep(self, said: KeptMessage | QuietMessage) -> None:
        self._said[self.number] = said
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
        words = self._said[number].words.stems
        others = (self._said[n].words.stems for n in later if n in self._said)
        near = sorted(len(words & other) / max(len(words), len(other)) for other in others)
        return sum(near[-2:]) / 2
