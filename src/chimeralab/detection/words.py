"""Words of messages: tokenising, stems, trigrams and alignment, all in plain Python."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import islice

STEM = 5
MAX_WORDS = 4_000  # per message; a loop shows long before
MAX_CHARACTERS = 40_000
MAX_MEMOISED = 1 << 15  # words; a few thousand make up most conversations
MIN_WITHIN_WORDS = 25  # a shorter message can't be a loop by itself
MAX_FRAME_TOKENS = 200  # of a message that may fill a template
MIN_FIXED = 2  # words in a row that make a fixed part of a template

# In scripts without spaces between words, every character is a word.
_WORD = re.compile(
    r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+(?:['’][^\W_]+)*"
)
_TOKEN = re.compile(
    r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
    r"|[^\s\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+"
)
_NO_WORD = re.compile(r"[\W_]+")
# A translation table does the same for ASCII in a fraction of the time.
_LOWER = bytes(
    ord(sign.lower()) if sign.isalnum() or sign == "'" else ord(" ")
    for sign in map(chr, range(128))
).ljust(256)
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_SPEECH = re.compile(r'["“][^"“”]{30,}["”]')
_QUOTE = re.compile(r"(?:^[ \t]*>.*(?:\n|\Z))+", re.MULTILINE)

# English, German, Spanish and French. In other languages every word counts as content.
_FUNCTION_WORDS = """
    a about after all also am an and any are as at be because been before being but by can
    could did do does doing don't down each for from get had has have he her here hers him his
    how i i'd i'll i'm i've if in into is isn't it it's its just let let's like may me might
    mine more most much must my no nor not now of off on once one only or other our ours out
    over own same shall she should so some such than that that's the their theirs them then
    there there's these they they're this those through to too under until up us very was we
    we'll we're we've were what what's when where which while who whom why will with won't
    would yes you you'd you'll you're you've your yours aber als auch auf aus bei bin bis bist
    da damit dann das dass dein dem den denn der des dich dir doch du ein eine einem einen
    einer er es euch für habe haben hat ich ihr ihm im ist ja kein keine mein mich mir mit
    nach nicht noch nur ob oder sehr sich sie sind und uns von vor wenn wer wie wir wird wo zu
    zum zur al como con cuando de del donde el ella en eres esta este esto estoy está fue ha
    hay la las le les lo los mi muy más ni nos o para pero por porque que qué se si sin sobre
    soy su sus sí te tu tú un una uno y ya yo au aux avec ce ces cette c'est d'un dans des
    elle est et eu il ils j'ai je l'on leur lui ma mais mes moi mon ne nous ou où par pas plus
    pour quand qui sa sans ses sont sur ta toi très une vos votre vous
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
_OPPOSED = "after all before down in no not off on out over under up yes"
OPPOSED = frozenset(_OPPOSED.split())


def tokenize(text: str) -> list[str]:
    """Split a message into casefolded words, or into symbols if it has no words.

    >>> tokenize("Let's GO — again!")
    ["let's", 'go', 'again']
    >>> tokenize("\N{THUMBS UP SIGN}\N{THUMBS UP SIGN}")
    ['\\U0001f44d', '\\U0001f44d']
    """
    plain = text[:MAX_CHARACTERS]
    if plain.isascii():
        letters = plain.encode().translate(_LOWER)
        if b"'" in letters:  # an apostrophe counts only between letters
            letters = b" %b " % letters.replace(b"''", b"  ")
            letters = letters.replace(b" '", b"  ").replace(b"' ", b"  ")
        found = letters.decode().split()
    else:
        plain = unicodedata.normalize("NFKC", plain).casefold().replace("’", "'")
        found = _WORD.findall(plain)
    found = found or [sign for sign in plain if unicodedata.category(sign)[0] in "SP"]
    return found[:MAX_WORDS]


def mask_blocks(text: str) -> str:
    """Replace each fenced block and long quotation with one word: quoting is not repeating."""

    def mark(block: re.Match[str]) -> str:
        import hashlib  # noqa: PLC0415 - slow to import, and few messages have a block

        content = " ".join(block.group().split()).encode("utf-8", "replace")
        return f" block{hashlib.blake2b(content, digest_size=6).hexdigest()} "

    text = _QUOTE.sub(mark, _FENCE.sub(mark, text[:MAX_CHARACTERS]))
    return _SPEECH.sub(mark, text)


def may_quote(text: str) -> bool:
    """Whether a text may contain a block or a quotation."""
    return '"' in text or ">" in text or "```" in text or "“" in text


Overlap = tuple[Mapping[int, float], Collection[int], float, bool, bool]
"""How a message overlaps with earlier ones, which are named by how many messages back they are:

the share of stems in common, where it is not 0; the messages with a trigram in common; the share of
content words that none of them has; whether it may fit a frame of the last two messages; and
whether it may repeat itself.
"""


@lru_cache(MAX_MEMOISED)
def is_content(word: str) -> bool:
    """Whether a word carries meaning by itself."""
    return (len(word) > 2 and word not in FUNCTION_WORDS) or not word.isascii() or word.isdigit()


def ramp(value: float, low: float, high: float) -> float:
    """0 up to `low`, 1 from `high` on, linear in between.

    >>> ramp(0.25, 0.0, 0.5)
    0.5
    """
    return 0.0 if value <= low else 1.0 if value >= high else (value - low) / (high - low)


def is_distinctive(word: str) -> bool:
    """Whether exchanging a word can change what a message says.

    >>> [word for word in "is the left lamp on".split() if is_distinctive(word)]
    ['left', 'lamp', 'on']
    """
    return word not in FUNCTION_WORDS or word in OPPOSED


@lru_cache(MAX_MEMOISED)
def stem(word: str) -> str:
    """The first letters of a word, which its inflections share; all numbers are one stem."""
    return "0" if word.isdigit() else word[:STEM]


class MessageWords(tuple[str, ...]):
    """The words of a message, with the sets by which messages are compared.

    Sets are built on first use: most messages resemble no other and never need them.
    """

    @cached_property
    def distinct(self) -> frozenset[str]:
        return frozenset(self)

    @cached_property
    def trigrams(self) -> frozenset[tuple[str, ...]]:
        """All runs of three words; a shorter message is one run by itself."""
        return frozenset(zip(self, self[1:], self[2:], strict=False)) or frozenset({tuple(self)})

    @cached_property
    def grams(self) -> frozenset[tuple[str, ...]]:
        """The trigrams with a content word: sharing function words is not repeating.

        A message without content words is one gram.
        """
        if len(self) < 3:
            return self.trigrams
        content = self._content_words
        grams = [
            (a, b, c) for a, b, c in self.trigrams if a in content or b in content or c in content
        ]
        return frozenset(grams) if grams else frozenset({tuple(self)})

    @cached_property
    def keys(self) -> frozenset[tuple[str, ...]]:
        """Trigrams and grams; the latter add nothing where there is a content word."""
        return self.trigrams if self._content_words else self.trigrams | self.grams

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(map(stem, self.distinct))

    @cached_property
    def content(self) -> frozenset[str]:
        """The stems of the content words."""
        return frozenset(map(stem, self._content_words))

    def overlap(self, other: "MessageWords") -> float:
        """The share of grams that another message has too."""
        if self is other:
            return 1.0
        return len(self.grams & other.keys) / max(len(self.grams), len(other.grams))

    @property
    def may_repeat_within(self) -> bool:
        """A quick bound: whether half of its runs of five words can occur three times each.

        At most a third of that half are distinct, and so are the trigrams that they start with.
        Each run but the first adds at most one new word, so few distinct runs mean few words.
        """
        limit = (2 * len(self) - 2) // 3
        return len(self) >= MIN_WITHIN_WORDS and len(self.distinct) - 2 <= limit >= len(
            self.trigrams
        )

    @cached_property
    def _content_words(self) -> frozenset[str]:
        return frozenset(filter(is_content, self.distinct))


class SpokenMessage:
    """A message of a conversation, tokenised on first use.

    The screen proves most messages `quiet`: no rule can find evidence in them. For the others it
    supplies their `overlap` with earlier messages.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.quiet = False
        self.overlap: Overlap | None = None
        self.speaker: str | None = None
        self.evidence = 0.0

    def compact(self, masked: MessageWords, evidence: float) -> None:
        """Keep only what later messages are compared with."""
        vars(self).pop("words", None)
        vars(self).update(masked_words=masked, evidence=evidence, text="", overlap=None)

    def set_words(self, words: list[str], masked: list[str]) -> None:
        """Supply words that were expensive to find."""
        vars(self).update(words=words, masked_words=MessageWords(masked))

    @cached_property
    def words(self) -> list[str]:
        return tokenize(self.text)

    @cached_property
    def masked_words(self) -> MessageWords:
        """The words, with one for each block or quotation."""
        return MessageWords(
            tokenize(mask_blocks(self.text)) if may_quote(self.text) else self.words
        )


def repetition_within(words: Sequence[str]) -> float:
    """The share of a message's runs of five words that occur three times or more.

    >>> repetition_within("now I will look at the file and then".split() * 4)
    1.0
    """
    runs = [tuple(words[n : n + 5]) for n in range(len(words) - 4)]
    counts = Counter(runs)
    return sum(n for n in counts.values() if n >= 3) / len(runs) if runs else 0.0


def align(one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int]]:
    """The longest common subsequence as pairs of places, bit-parallel (Hyyrö 2004).

    >>> align("I fire at G1".split(), "so I fire at D4".split())
    [(0, 1), (1, 2), (2, 3)]
    """
    masks: defaultdict[str, int] = defaultdict(int)
    for place, word in enumerate(one):
        masks[word] |= 1 << place
    everything = (1 << len(one)) - 1
    rows = [everything]  # in row m, bit n is 0 where word n lengthens the subsequence
    for word in other:
        hits = rows[-1] & masks.get(word, 0)
        rows.append(((rows[-1] + hits) | (rows[-1] - hits)) & everything)
    pairs = []
    n, m = len(one), len(other)
    for _ in range(len(one) - rows[-1].bit_count()):
        while rows[m] >> (n - 1) & 1:
            n -= 1
        while not rows[m - 1] >> (n - 1) & 1:
            m -= 1
        n, m = n - 1, m - 1
        pairs.append((n, m))
    return pairs[::-1]


def list_substitutions(
    one: Sequence[str], other: Sequence[str], pairs: Sequence[tuple[int, int]]
) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Yield the words of one message that take the place of other words in the other.

    >>> one, other = "I fire at G1 now".split(), "so I fire at D4 now".split()
    >>> list(list_substitutions(one, other, align(one, other)))
    [(['G1'], ['D4'])]
    """
    n = m = 0
    for next_n, next_m in (*pairs, (len(one), len(other))):
        if next_n > n and next_m > m:
            yield one[n:next_n], other[m:next_m]
        n, m = next_n + 1, next_m + 1


Frame = tuple[str | None, ...]
"""A template: its fixed parts in order, with None for each slot."""


def find_frame(texts: Sequence[str]) -> Frame | None:
    """The template that messages have in common, in the writing of the first; None without a slot.

    >>> find_frame(["We met Ann in Rome, once.", "We met Bo in Oslo, once."])
    ('We met', None)
    >>> find_frame(["Ann has a red hat today.", "Bo has a very red hat today."])
    (None, 'has a', None, 'red hat today.')
    """
    tokens = [_find_tokens(text) for text in texts]
    rows: list[tuple[int, ...]] = [(n,) for n in range(len(tokens[0]))]
    for other in tokens[1:]:
        common = [tokens[0][row[0]][0] for row in rows]
        pairs = align(common, [key for key, *_ in other])
        rows = [(*rows[n], m) for n, m in pairs]
    runs: list[list[tuple[int, ...]]] = [[]]
    for row in rows:
        if runs[-1] and not _follows(row, runs[-1][-1]):
            runs.append([])
        runs[-1].append(row)
    frame, last = list[str | None](), (-1,) * len(tokens)
    for run in runs:
        if len(run) < MIN_FIXED:
            continue
        if not _follows(run[0], last):
            frame.append(None)
        start, end, last = tokens[0][run[0][0]][1], tokens[0][run[-1][0]][2], run[-1]
        frame.append(texts[0][start:end])
    if not _follows(tuple(map(len, tokens)), last):
        frame.append(None)
    fixed = tokenize(" ".join(part for part in frame if part))
    return tuple(frame) if None in frame and any(map(is_content, fixed)) else None


def fill_frame(frame: Frame, text: str) -> tuple[str, ...] | None:
    """What a message puts into the slots of a template; None if it does not fit.

    >>> fill_frame(("Let's go to", None, "next week", None), "let's go to Rome next week!")
    ('Rome', '')
    """
    tokens, slots, place = _find_tokens(text), list[str](), 0
    keys = [key for key, *_ in tokens]
    for number, part in enumerate(frame):
        if part is None:
            continue
        wanted = [key for key, *_ in _find_tokens(part)]
        last = len(keys) - len(wanted)
        places = range(place, last + 1) if number else range(min(1, last + 1))
        if number == len(frame) - 1:
            places = range(max(last, place), last + 1)
        start = next((n for n in places if keys[n : n + len(wanted)] == wanted), None)
        if start is None:
            return None
        if number:
            slots.append(_slice(text, tokens[place:start]))
        place = start + len(wanted)
    if frame[-1] is None:
        slots.append(_slice(text, tokens[place:]))
    return tuple(slots)


def _find_tokens(text: str) -> list[tuple[str, int, int]]:
    """The first tokens of a text as they are compared, and where they begin and end."""
    found = islice(_TOKEN.finditer(text), MAX_FRAME_TOKENS)
    return [(_NO_WORD.sub("", m[0].casefold()) or m[0], m.start(), m.end()) for m in found]


def _follows(row: Sequence[int], last: Sequence[int]) -> bool:
    """Whether places in several messages come right after others in all of them."""
    return all(place == before + 1 for place, before in zip(row, last, strict=True))


def _slice(text: str, tokens: Sequence[tuple[str, int, int]]) -> str:
    return text[tokens[0][1] : tokens[-1][2]] if tokens else ""


def is_blank(text: str) -> bool:
    """Whether a text is only white space and punctuation.

    >>> is_blank(" ... "), is_blank("ok"), is_blank("\N{WAVING HAND SIGN}")
    (True, False, False)
    """
    return not text[:1].isalnum() and not any(
        char.isalnum() or unicodedata.category(char)[0] in "LNS" for char in text
    )
