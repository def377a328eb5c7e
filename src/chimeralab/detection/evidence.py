"""What one message is evidence of: said before, said in other words, or nothing but courtesy."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

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

if TYPE_CHECKING:
    from chimeralab.detection.loops import Loops


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


TextEvidence = tuple[Weighed, Weighed, Weighed, Weighed, float]
"""What a spoken message is evidence of: said again, said in other words, courtesy, and a speaker's
own loop, with the heat of that one.
"""
NO_EVIDENCE: TextEvidence = (NOTHING, NOTHING, NOTHING, NOTHING, 0.0)


class TextMemory:
    """The last spoken messages of a conversation, numbered from 1, to compare the next one with."""

    def __init__(self, settings: "Loops") -> None:
        self.settings = settings
        self.number = 0
        self.something_new = False
        # As many as the window has, the oldest first.
        self._said: dict[int, HeardMessage] = {}
        self._courteous: int | None = None  # the last courteous message

    def weigh(self, heard: HeardMessage, speaker: str | None) -> TextEvidence:
        """Take in the next message and say what it is evidence of."""
        s = self.settings
        self.number += 1
        progress, self.something_new = self.something_new, False
        if heard.quiet:
            self._keep(heard, speaker)
            return NO_EVIDENCE
        words = heard.words
        shares, copies, fresh, framed, within = heard.common or self._common(heard.whole)
        said = wording = self._same(heard.whole, copies)
        if said is heard.whole:  # what was said word for word has nothing new to leave apart
            wording = self._without_boilerplate(said, copies, fresh)
        if wording is not said:
            shares, copies, fresh, framed, within = self._common(wording)
        near = {self.number - back: share for back, share in shares.items()}
        alike = self._alike(wording, near, copies, speaker)
        weight = s.short_weight if len(words) < s.short else 1.0
        # After news from a tool, a report that resembles the last one is work, not rewording.
        again, stale = (weight * s.progress, 0.0) if progress else (weight, weight)
        stale *= 1 - ramp(fresh, s.fresh_low, s.fresh_high)
        if len(words) < BRIEF:
            again *= 1 - ramp(self._news(words), 0.0, 0.5)
        reply = s.reply if self._is_answer(speaker, len(wording)) else 1.0
        # Whether it says something new is asked before a short answer weighs less.
        seen = self._repeated(alike, again, len(wording))
        told = repeated = self._repeated(alike, again, len(wording), reply) if reply != 1 else seen
        if framed and told.evidence < s.frame * again:  # which is all a frame can give
            repeated = max(told, self._framed(said, again), key=lambda each: each.evidence)
        reworded = self._reworded(near, len(wording), stale)
        courtesy = courtesy_of(heard.text, words)
        polite = self._polite(courtesy, words, repeated.evidence)
        own, own_heat = NOTHING, 0.0
        if speaker is not None:
            own, again_mine = told, reworded
            mine = {n: share for n, share in near.items() if self._said[n].speaker == speaker}
            if len(mine) < len(near):
                of_mine = [each for each in alike if each[0] in mine]
                own = self._repeated(of_mine, again, len(wording), reply)
                again_mine = self._reworded(mine, len(wording), stale)
            own_heat = max(own.evidence, again_mine.evidence)
        acknowledges = courtesy >= COURTEOUS and len(words) < POLITE_WORDS
        if acknowledges or len(words) < s.own_words:
            # Acknowledgements of one side are no loop: they neither raise nor end one.
            own = own._replace(evidence=min(own.evidence, s.drift))
        heard.settle(said, seen.evidence)
        self._keep(heard, speaker)
        if within and wording.may_repeat_within and repeated_within(wording) >= 0.5:
            repeated = Weighed(s.on, "within-turn", (), 1)
        return repeated, reworded, polite, own, own_heat if speaker else 0.0

    def _common(self, wording: MessageWords) -> Common:
        """What a message has in common with the earlier ones."""
        stems, near, copies = wording.stems, {}, []
        for n, kept in self._said.items():
            others = kept.whole.stems
            if both := len(stems & others):
                near[self.number - n] = both / max(len(stems), len(others))
                if not wording.keys.isdisjoint(kept.whole.keys):
                    copies.append(self.number - n)
        new = len(self._unheard(wording.content, "content"))
        return near, copies, new / max(1, len(wording.content)), True, True

    def _same(self, said: MessageWords, copies: Iterable[int]) -> MessageWords:
        """The same words as an earlier message has them, with their sets, if one has."""
        earlier = (self._said[self.number - back].whole for back in copies)
        return next((words for words in earlier if words == said), said)

    def _unheard(self, keys: frozenset[str], which: str) -> frozenset[str]:
        """The keys that no earlier message has in its set of that name."""
        for kept in reversed(self._said.values()):
            if not keys:
                break
            keys -= getattr(kept.whole, which)
        return keys

    def _without_boilerplate(
        self, words: MessageWords, copies: Iterable[int], fresh: float
    ) -> MessageWords:
        """The words outside of what two earlier messages said, where those say something new."""
        once, twice = set[tuple[str, ...]](), set[tuple[str, ...]]()
        for back in copies:
            runs = words.keys & self._said[self.number - back].whole.keys
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
        content, new = outside.content, round(fresh * len(words.content))
        if len(content) < 3 or 2 * new < len(content):  # so many are new in the whole message
            return words
        return outside if 2 * len(self._unheard(content, "content")) >= len(content) else words

    def _alike(
        self,
        wording: MessageWords,
        near: Mapping[int, float],
        copies: Iterable[int],
        speaker: str | None,
    ) -> list[tuple[int, float, float]]:
        """How alike a message is to the nearest ones, everybody's and the speaker's own.

        Each with its number: runs of words in common, and words in the same order. Those that it
        only resembles, while it says something else, are left out.
        """
        words, said = wording[:COMPARED_WORDS], self._said
        numbers = [self.number - back for back in copies]
        overlaps = {n: wording.overlap(said[n].whole) for n in numbers}
        compared = {
            n
            for n, share in near.items()
            if overlaps.get(n, 0.0) > self.settings.twin_low
            or (share >= COMPARED_FROM and len(words) <= LONGEST_STEP)
            or (n in overlaps and words == said[n].whole[:COMPARED_WORDS])
        }
        if not compared:  # then there is nothing to choose from
            return []
        by_share = sorted(near, key=lambda n: (-near[n], -overlaps.get(n, 0.0), -n))
        mine = [n for n in by_share if said[n].speaker == speaker]
        chosen = {*by_share[:COMPARED], *mine[:COMPARED]}
        alike = []
        for number in chosen & compared:
            order, other = 0.0, said[number].whole[:COMPARED_WORDS]
            if words == other:
                order = 1.0
            else:
                pairs = common_places(words, other)
                if self._tells_apart(words, exchanged(words, other, pairs)):
                    continue
                if any(is_content(words[place]) for place, _ in pairs):
                    order = len(pairs) / max(len(words), len(other))
            alike.append((number, overlaps.get(number, 0.0), order))
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
        said = (kept.whole.distinct for kept in self._said.values())
        return word != other and (
            other in words or any(word in each and other in each for each in said)
        )

    def _news(self, words: Sequence[str]) -> float:
        """The share of words that no earlier message has, among those that say something."""
        telling = [word for word in words if names_something(word)]
        unheard = self._unheard(frozenset(telling), "distinct")
        return sum(word in unheard for word in telling) / max(1, len(telling))

    def _repeated(
        self,
        alike: Sequence[tuple[int, float, float]],
        weight: float,
        words: int,
        reply: float = 1.0,
    ) -> Weighed:
        """Word for word like two earlier messages, or with the words in order like three."""
        if not alike:
            return NOTHING
        s = self.settings
        by_runs = sorted(((runs, n) for n, runs, _ in alike), reverse=True)[:2]
        by_order = sorted(((order, n) for n, _, order in alike), reverse=True)[:3]
        twin = sum(ramp(runs, s.twin_low, s.twin_high) for runs, _ in by_runs) / 2
        if twin and by_runs[0][0] < NEARLY_SAME:
            twin *= reply
        order = ramp(sum(order for order, _ in by_order) / 3, s.order_low, s.order_high)
        order = order if words >= s.short else 0.0
        if not twin and not order:
            return NOTHING
        nearest = [n for runs, n in by_runs if runs > s.twin_low]
        if twin < order:
            nearest = [n for share, n in by_order if share > s.order_low]
        same = next(runs for n, runs, _ in alike if n == nearest[0]) >= 0.9
        lag = self.number - nearest[0]
        kind = {1: "verbatim", 2: "alternating"}.get(lag, "cycle") if same else "template"
        return Weighed(max(twin, order) * weight, kind, tuple(nearest), lag)

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
        common = last.whole.distinct & before.whole.distinct
        known = [word in common for word in words]
        pairs = [n for n in range(len(words) - 1) if known[n] and known[n + 1]]
        beside = {*pairs, *(n + 1 for n in pairs)}
        if len(beside) / len(words) <= s.frame_low or sum(TELLING[words[n]] for n in beside) < 2:
            return NOTHING
        places = common_places(last.whole[:FRAMED_WORDS], before.whole[:FRAMED_WORDS])
        frame = common_places(words, [last.whole[place] for place, _ in places])
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

    def _keep(self, heard: HeardMessage, speaker: str | None) -> None:
        heard.speaker = speaker
        self._said[self.number] = heard
        self._said.pop(self.number - self.settings.window, None)

    def stretched_back(self, began: int) -> int:
        """A rewording begins before it is evident: go back while messages resemble the next."""
        while True:
            later = range(began, min(self.number, began + 6))
            for earlier in (began - 1, began - 2):
                if earlier not in self._said:
                    continue
                words = self._said[earlier].whole.stems
                others = (self._said[n].whole.stems for n in later if n in self._said)
                near = sorted(len(words & other) / max(len(words), len(other)) for other in others)
                if sum(near[-2:]) / 2 >= STILL_NEAR:
                    began = earlier
                    break
            else:
                return began
