"""Evidence that a message is part of a loop, from 0 (none) to 1, by one method for each rule.

- Twin: it shares trigrams with two earlier messages (`twin_low`, `twin_high` in `Loops`).
- Order: it has the words of three earlier messages in the same order (`order_*`).
- Frame: it fills the slots of a template that the last two messages fill too (`frame*`).
- Paraphrase: it shares stems with three earlier messages and adds no new words (`words_*`,
  `fresh_*`).
- Courtesy: it is nothing but courtesy, soon after another message that was (`courtesy`).
- Within-turn: it repeats one sentence over and over inside itself.

Rules for healthy talk that looks repetitive make them weaker: a short message, a brief one with a
new word, a short answer to something new, news from a tool. Text that two earlier messages share
is left out where the rest is new (boilerplate), and steps of a puzzle that differ in an opposed
word, such as left and right, are told apart.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from chimeralab.detection.courtesy import COURTEOUS, SOON, is_idle, score_courtesy
from chimeralab.detection.words import (
    MessageWords,
    Overlap,
    SpokenMessage,
    align,
    is_content,
    is_distinctive,
    list_substitutions,
    ramp,
    repetition_within,
)

if TYPE_CHECKING:
    from chimeralab.detection.loops import Loops

# Twin and order. Aligning words is slow, so only the likeliest earlier messages are aligned.
MAX_ALIGNED = 6  # earlier messages: those with the most stems in common
MAX_ALIGNED_WORDS = 200  # of each
MIN_ALIGNED_SHARE = 0.5  # of stems in common, for a message that shares few trigrams
COPY = 0.8  # overlap from which a message is a copy, even as a short answer
VERBATIM = 0.9  # overlap from which a loop is verbatim or a cycle, not a template
# Told apart.
MAX_STEP_WORDS = 30
MAX_SLOT_WORDS = 3  # a longer substitution is another sentence
MAX_OPPOSED = 0.06  # share of words replaced by opposed ones; with more it is another step
NUMERIC = 0.2  # share of numbers from which on numbers are steps, too
# Weakening.
BRIEF_WORDS = 9  # in fewer words than these, a new word is news
ANSWER_WORDS = 20  # fewer may be a short answer
ACKNOWLEDGEMENT_WORDS = 10  # fewer courteous words of one speaker acknowledge
# Boilerplate.
MIN_NEW_RUN = 5  # words; a shorter run between known ones is the slot of a template
MIN_NEW_WORDS = 8
# Frame.
MAX_FRAME_WORDS = 80  # a longer message is not a template
MIN_FRAME_CONTENT = 2  # content words
# Paraphrase.
STILL_NEAR = 0.33  # share of stems with the next messages, by which a paraphrase reaches back


class LoopEvidence(NamedTuple):
    """How strongly a message suggests a loop, of which kind, and which messages it repeats."""

    strength: float
    kind: str
    near: tuple[int, ...]
    period: int


class TextEvidence(NamedTuple):
    """What a spoken message is evidence of; `own` is about its speaker's messages alone.

    `own_strength` also counts a paraphrase of one's own words, for the score.
    """

    repeat: LoopEvidence
    paraphrase: LoopEvidence
    courtesy: LoopEvidence
    own: LoopEvidence
    own_strength: float


NOTHING = LoopEvidence(0.0, "", (), 0)
NO_EVIDENCE = TextEvidence(NOTHING, NOTHING, NOTHING, NOTHING, 0.0)

# An earlier message by its number, its overlap in trigrams, and the share of words in order.
Likeness = tuple[int, float, float]


class TextMemory:
    """The last spoken messages of a conversation, numbered from 1, to compare the next one with."""

    def __init__(self, settings: "Loops") -> None:
        self.settings = settings
        self.number = 0
        self.something_new = False  # whether a tool has brought news since the last message
        self._earlier: dict[int, SpokenMessage] = {}  # a window of them, oldest first
        self._last_courteous: int | None = None

    def weigh(self, message: SpokenMessage, speaker: str | None) -> TextEvidence:
        """Take in the next message and apply every rule to it."""
        s = self.settings
        self.number += 1
        progress, self.something_new = self.something_new, False
        if message.quiet:
            self._keep(message, speaker)
            return NO_EVIDENCE
        words = message.words
        overlap = message.overlap or self._compare_words(message.masked_words)
        masked = wording = self._share_words(message.masked_words, overlap[1])
        if masked is message.masked_words:  # a verbatim copy has nothing new apart from boilerplate
            wording = self._strip_boilerplate(masked, overlap[1], overlap[2])
        if wording is not masked:
            overlap = self._compare_words(wording)
        shares, copies, fresh, may_frame, may_repeat = overlap
        near = {self.number - back: share for back, share in shares.items()}
        alike = self._align_nearest(wording, near, copies, speaker)
        weight, stale = self._weaken(words, fresh, progress=progress)
        reply = s.reply if self._is_answer(speaker, len(wording)) else 1.0
        size = len(wording)

        # Whether a message says something new is decided before a short answer weighs less.
        unweakened = repeat = self._score_repeat(alike, weight, size)
        if reply != 1:
            repeat = self._score_repeat(alike, weight, size, reply)
        paraphrase = self._score_paraphrase(near, size, stale)
        own, own_strength = NOTHING, 0.0
        if speaker is not None:
            own, own_paraphrase = repeat, paraphrase
            mine = {n: share for n, share in near.items() if self._earlier[n].speaker == speaker}
            if len(mine) < len(near):
                alike = [each for each in alike if each[0] in mine]
                own = self._score_repeat(alike, weight, size, reply)
                own_paraphrase = self._score_paraphrase(mine, size, stale)
            own_strength = max(own.strength, own_paraphrase.strength)
        if may_frame and repeat.strength < s.frame * weight:  # which is all that a frame can give
            repeat = strongest(repeat, self._score_frame(masked, weight))
        courteous = score_courtesy(message.text, words)
        courtesy = self._score_courtesy(courteous, words, repeat.strength)
        acknowledges = courteous >= COURTEOUS and len(words) < ACKNOWLEDGEMENT_WORDS
        # From version 2 on, the same sentence counts, however short.
        least = s.own_words if s.version == 1 else s.short
        if acknowledges or len(words) < least:
            # Acknowledgements of one side are not a loop: they neither raise nor end one.
            own = own._replace(strength=min(own.strength, s.drift))
        message.compact(masked, unweakened.strength)
        self._keep(message, speaker)
        if may_repeat and wording.may_repeat_within and repetition_within(wording) >= 0.5:
            repeat = LoopEvidence(s.on, "within-turn", (), 1)
        return TextEvidence(repeat, paraphrase, courtesy, own, own_strength if speaker else 0.0)

    def skim(self, message: SpokenMessage, speaker: str | None) -> LoopEvidence:
        """Take in a message whose words are not compared, only whether it repeats itself."""
        self.number += 1
        self._keep(message, speaker)
        if message.quiet or not message.masked_words.may_repeat_within:
            return NOTHING
        repeats = repetition_within(message.masked_words) >= 0.5
        return LoopEvidence(self.settings.on, "within-turn", (), 1) if repeats else NOTHING

    def _keep(self, message: SpokenMessage, speaker: str | None) -> None:
        message.speaker = speaker
        self._earlier[self.number] = message
        self._earlier.pop(self.number - self.settings.window, None)

    # Comparing

    def _compare_words(self, wording: MessageWords) -> Overlap:
        """The overlap with earlier messages, where the screen has not supplied it."""
        stems, shares, copies = wording.stems, {}, []
        for n, earlier in self._earlier.items():
            others = earlier.masked_words.stems
            if both := len(stems & others):
                shares[self.number - n] = both / max(len(stems), len(others))
                if not wording.keys.isdisjoint(earlier.masked_words.keys):
                    copies.append(self.number - n)
        new = len(self._remove_known(wording.content, "content"))
        return shares, copies, new / max(1, len(wording.content)), True, True

    def _share_words(self, words: MessageWords, copies: Iterable[int]) -> MessageWords:
        """The words of an identical earlier message, whose sets are built already, or these."""
        earlier = (self._earlier[self.number - back].masked_words for back in copies)
        return next((each for each in earlier if each == words), words)

    def _remove_known(self, keys: frozenset[str], which: str) -> frozenset[str]:
        """The keys that no earlier message has in its set of that name."""
        for earlier in reversed(self._earlier.values()):
            if not keys:
                break
            keys -= getattr(earlier.masked_words, which)
        return keys

    def _share_of_news(self, words: Sequence[str]) -> float:
        """The share of distinctive words that no earlier message has."""
        distinctive = [word for word in words if is_distinctive(word)]
        new = self._remove_known(frozenset(distinctive), "distinct")
        return sum(word in new for word in distinctive) / max(1, len(distinctive))

    def _align_nearest(
        self,
        wording: MessageWords,
        near: Mapping[int, float],
        copies: Iterable[int],
        speaker: str | None,
    ) -> list[Likeness]:
        """Align a message with the nearest ones of everybody, and with its speaker's own.

        Those that it resembles while it says something else are left out.
        """
        words, said = wording[:MAX_ALIGNED_WORDS], self._earlier
        numbers = [self.number - back for back in copies]
        overlaps = {n: wording.overlap(said[n].masked_words) for n in numbers}
        candidates = {
            n
            for n, share in near.items()
            if overlaps.get(n, 0.0) > self.settings.twin_low
            or (share >= MIN_ALIGNED_SHARE and len(words) <= MAX_STEP_WORDS)
            or (n in overlaps and words == said[n].masked_words[:MAX_ALIGNED_WORDS])
        }
        if not candidates:
            return []
        nearest = sorted(near, key=lambda n: (-near[n], -overlaps.get(n, 0.0), -n))
        own = [n for n in nearest if said[n].speaker == speaker]
        alike = []
        for number in {*nearest[:MAX_ALIGNED], *own[:MAX_ALIGNED]} & candidates:
            order, other = 0.0, said[number].masked_words[:MAX_ALIGNED_WORDS]
            if words == other:
                order = 1.0
            else:
                pairs = align(words, other)
                if self._tells_apart(words, list_substitutions(words, other, pairs)):
                    continue
                if any(is_content(words[place]) for place, _ in pairs):
                    order = len(pairs) / max(len(words), len(other))
            alike.append((number, overlaps.get(number, 0.0), order))
        return alike

    # Weakening

    def _weaken(self, words: Sequence[str], fresh: float, *, progress: bool) -> tuple[float, float]:
        """The weights of a repeat and of a paraphrase.

        After news from a tool, a report that resembles the last one is work, not a paraphrase.
        """
        s = self.settings
        weight = s.short_weight if len(words) < s.short else 1.0
        repeat, paraphrase = (weight * s.progress, 0.0) if progress else (weight, weight)
        paraphrase *= 1 - ramp(fresh, s.fresh_low, s.fresh_high)
        if len(words) < BRIEF_WORDS:
            repeat *= 1 - ramp(self._share_of_news(words), 0.0, 0.5)
        return repeat, paraphrase

    def _is_answer(self, speaker: str | None, words: int) -> bool:
        """Whether a message is a short answer to something new that another speaker said."""
        last = self._earlier.get(self.number - 1)
        if speaker is None or last is None or last.speaker == speaker or words >= ANSWER_WORDS:
            return False
        return last.evidence < self.settings.drift

    def _tells_apart(
        self, words: Sequence[str], substitutions: Iterable[tuple[Sequence[str], Sequence[str]]]
    ) -> bool:
        """Whether a message says something else about the same things, as a step of a puzzle does.

        A word takes the place of another, and some message has both: they are opposed, like left
        and right or five and eight, and it matters which. Synonyms do not occur together, and
        neither do the fillings of a template.
        """
        if len(words) > MAX_STEP_WORDS:
            return False
        numeric = sum(map(str.isdigit, words)) >= NUMERIC * len(words)
        opposed = 0
        for here, there in substitutions:
            if len(here) <= MAX_SLOT_WORDS >= len(there):
                mine = [w for w in here if is_distinctive(w) and (numeric or not w.isdigit())]
                theirs = [w for w in there if is_distinctive(w)]
                opposed += sum(any(self._are_opposed(w, o, words) for o in theirs) for w in mine)
        return opposed > MAX_OPPOSED * sum(map(is_distinctive, words))

    def _are_opposed(self, word: str, other: str, words: Sequence[str]) -> bool:
        """Whether this message or an earlier one has both words."""
        earlier = (each.masked_words.distinct for each in self._earlier.values())
        return word != other and (
            other in words or any(word in each and other in each for each in earlier)
        )

    def _strip_boilerplate(
        self, words: MessageWords, copies: Iterable[int], fresh: float
    ) -> MessageWords:
        """The words outside of what two earlier messages have too, if those are mostly new."""
        once, twice = set[tuple[str, ...]](), set[tuple[str, ...]]()
        for back in copies:
            common = words.keys & self._earlier[self.number - back].masked_words.keys
            twice |= once & common
            once |= common
        if not twice:
            return words
        covered = [False] * len(words)
        for n, trigram in enumerate(zip(words, words[1:], words[2:], strict=False)):
            if trigram in twice:
                covered[n] = covered[n + 1] = covered[n + 2] = True
        rest: list[str] = []
        run: list[str] = []
        for word, known in zip([*words, ""], [*covered, True], strict=True):
            if not known:
                run.append(word)
                continue
            rest += run if len(run) >= MIN_NEW_RUN else []
            run = []
        if len(rest) < max(MIN_NEW_WORDS, len(words) / 3):
            return words
        outside = MessageWords(rest)
        content, new = outside.content, round(fresh * len(words.content))
        if len(content) < 3 or 2 * new < len(content):  # the whole message has too few new words
            return words
        return outside if 2 * len(self._remove_known(content, "content")) >= len(content) else words

    # Rules

    def _score_repeat(
        self, alike: Sequence[Likeness], weight: float, size: int, reply: float = 1.0
    ) -> LoopEvidence:
        """Score a repeat: trigrams of two earlier messages, or the word order of three."""
        if not alike:
            return NOTHING
        s = self.settings
        by_overlap = sorted(((overlap, n) for n, overlap, _ in alike), reverse=True)[:2]
        by_order = sorted(((order, n) for n, _, order in alike), reverse=True)[:3]
        twin = sum(ramp(overlap, s.twin_low, s.twin_high) for overlap, _ in by_overlap) / 2
        if twin and by_overlap[0][0] < COPY:
            twin *= reply
        order = ramp(sum(order for order, _ in by_order) / 3, s.order_low, s.order_high)
        order = order if size >= s.short else 0.0
        if not twin and not order:
            return NOTHING
        nearest = [n for overlap, n in by_overlap if overlap > s.twin_low]
        if twin < order:
            nearest = [n for share, n in by_order if share > s.order_low]
        same = next(overlap for n, overlap, _ in alike if n == nearest[0]) >= VERBATIM
        lag = self.number - nearest[0]
        kind = {1: "verbatim", 2: "alternating"}.get(lag, "cycle") if same else "template"
        return LoopEvidence(max(twin, order) * weight, kind, tuple(nearest), lag)

    def _score_frame(self, words: Sequence[str], weight: float) -> LoopEvidence:
        """Score a frame: runs of words shared with the last two messages, around slots that change.

        A recurring head or tail is not a frame: one run must have a slot on both sides.
        """
        s, last = self.settings, self._earlier.get(self.number - 1)
        before = self._earlier.get(self.number - 2)
        if last is None or before is None or not 0 < len(words) <= MAX_FRAME_WORDS:
            return NOTHING
        # A cheap test rules out most messages: too few adjacent words occur in all three.
        common = last.masked_words.distinct & before.masked_words.distinct
        known = [word in common for word in words]
        pairs = [n for n in range(len(words) - 1) if known[n] and known[n + 1]]
        adjacent = {*pairs, *(n + 1 for n in pairs)}
        if len(adjacent) / len(words) <= s.frame_low:
            return NOTHING
        if sum(is_content(words[n]) for n in adjacent) < MIN_FRAME_CONTENT:
            return NOTHING
        places = align(last.masked_words[:MAX_FRAME_WORDS], before.masked_words[:MAX_FRAME_WORDS])
        runs: list[list[int]] = [[]]
        for place, _ in align(words, [last.masked_words[place] for place, _ in places]):
            if runs[-1] and place != runs[-1][-1] + 1:
                runs.append([])
            runs[-1].append(place)
        runs = [run for run in runs if len(run) >= 2]
        frame = {place for run in runs for place in run}
        fillings = [word for place, word in enumerate(words) if place not in frame]
        has_slots = any(run[0] > 0 and run[-1] < len(words) - 1 for run in runs)
        content = sum(is_content(words[place]) for place in frame)
        if not has_slots or len(runs) < 2 or content < MIN_FRAME_CONTENT:
            return NOTHING
        if self._share_of_news(fillings) < 0.5:
            return NOTHING
        strength = s.frame * ramp(len(frame) / len(words), s.frame_low, s.frame_high) * weight
        return LoopEvidence(strength, "template", (self.number - 1, self.number - 2), 1)

    def _score_paraphrase(
        self, near: Mapping[int, float], size: int, weight: float
    ) -> LoopEvidence:
        """Score a paraphrase: stems of three earlier messages, and hardly a new word."""
        s = self.settings
        if not weight or size < s.short:
            return NOTHING
        mean = sum(sorted(near.values(), reverse=True)[:3]) / 3
        strength = ramp(mean, s.words_low, s.words_high) * weight
        if not strength:
            return NOTHING
        nearest = sorted(near, key=lambda n: (-near[n], -n))[:3]
        return LoopEvidence(strength, "paraphrase", tuple(nearest), 0)

    def _score_courtesy(
        self, courteous: float, words: Sequence[str], repeat: float
    ) -> LoopEvidence:
        """Score courtesy soon after courtesy; an idle message between them changes nothing."""
        s, last = self.settings, self._last_courteous
        soon = last is not None and last >= self.number - SOON
        if courteous >= COURTEOUS:
            self._last_courteous = self.number
            strength = max(s.courtesy * courteous, repeat) if soon else s.drift
            return LoopEvidence(strength, "farewell", (last,) if last and soon else (), 1)
        if last is not None and soon and is_idle(words):
            self._last_courteous = last + 1
            return LoopEvidence(s.drift, "farewell", (), 1)
        return NOTHING

    def extend_back(self, began: int) -> int:
        """Move the onset of a paraphrase back while messages resemble the next ones."""
        while True:
            later = range(began, min(self.number, began + 6))
            for earlier in (began - 1, began - 2):
                if earlier not in self._earlier:
                    continue
                stems = self._earlier[earlier].masked_words.stems
                others = (self._earlier[n].masked_words.stems for n in later if n in self._earlier)
                near = sorted(len(stems & other) / max(len(stems), len(other)) for other in others)
                if sum(near[-2:]) / 2 >= STILL_NEAR:
                    began = earlier
                    break
            else:
                return began


def strongest(*found: LoopEvidence) -> LoopEvidence:
    return max(found, key=lambda each: each.strength)
