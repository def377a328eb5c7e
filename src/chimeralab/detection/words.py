"""What a message says, word by word: all that the loop detector sees where there are no vectors."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

STEM = 5
MOST_WORDS = 4_000  # of one message; nobody reads further to see that it repeats
MOST_CHARACTERS = 40_000
MOST_REMEMBERED = 1 << 15
WITHIN_WORDS = 25  # a shorter message does not go round in circles by itself

Value = TypeVar("Value")

# Scripts without spaces between words are read letter by letter.
_WORD = re.compile(
    r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+(?:['’][^\W_]+)*"
)
# The same for ASCII, in a fraction of the time: letters small, and blanks between the words.
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


def words_of(text: str) -> list[str]:
    """The words of a message in order, without case; a message of signs alone gives its signs.

    >>> words_of("Let's GO — again!")
    ["let's", 'go', 'again']
    >>> words_of("\N{THUMBS UP SIGN}\N{THUMBS UP SIGN}")
    ['\\U0001f44d', '\\U0001f44d']
    """
    plain = text[:MOST_CHARACTERS]
    if plain.isascii():
        letters = plain.encode().translate(_LOWER)
        if b"'" in letters:  # which stays between letters only
            letters = b" %b " % letters.replace(b"''", b"  ")
            letters = letters.replace(b" '", b"  ").replace(b"' ", b"  ")
        found = letters.decode().split()
    else:
        plain = unicodedata.normalize("NFKC", plain).casefold().replace("’", "'")
        found = _WORD.findall(plain)
    found = found or [sign for sign in plain if unicodedata.category(sign)[0] in "SP"]
    return found[:MOST_WORDS]


def without_blocks(text: str) -> str:
    """The text with each fenced block and long quotation as one word: to quote is not to say."""

    def mark(block: re.Match[str]) -> str:
        import hashlib  # noqa: PLC0415 - slow to import, and few messages hold a block

        content = " ".join(block.group().split()).encode("utf-8", "replace")
        return f" block{hashlib.blake2b(content, digest_size=6).hexdigest()} "

    text = _QUOTE.sub(mark, _FENCE.sub(mark, text[:MOST_CHARACTERS]))
    return _SPEECH.sub(mark, text)


def quotes(text: str) -> bool:
    """Whether a text may have a block or a quotation."""
    return '"' in text or ">" in text or "```" in text or "“" in text


Common = tuple[Mapping[int, float], Collection[int], float, bool, bool]
"""What a message has in common with earlier ones; these are told by how far back they are.

First the shares of words, without those that share none, and those that have runs of words in
common. Then the share of content words that none of them has, whether it has enough words in common
with the last two to stand in a frame, and whether it may repeat itself.
"""


class Memo(dict[str, Value]):
    """What a function says of words, remembered: the same few thousand make up most talk."""

    def __init__(self, function: Callable[[str], Value]) -> None:
        self._function = function

    def __missing__(self, word: str) -> Value:
        if len(self) >= MOST_REMEMBERED:
            self.clear()
        value = self[word] = self._function(word)
        return value


def is_content(word: str) -> bool:
    """Whether a word says something by itself."""
    return (len(word) > 2 and word not in FUNCTION_WORDS) or not word.isascii() or word.isdigit()


def ramp(value: float, low: float, high: float) -> float:
    """0 up to `low`, 1 from `high` on, a straight line between.

    >>> ramp(0.25, 0.0, 0.5)
    0.5
    """
    return 0.0 if value <= low else 1.0 if value >= high else (value - low) / (high - low)


def names_something(word: str) -> bool:
    """Whether a word may be one of several things that a talk tells apart.

    >>> [word for word in "is the left lamp on".split() if names_something(word)]
    ['left', 'lamp', 'on']
    """
    return word not in FUNCTION_WORDS or word in OPPOSED


def stem(word: str) -> str:
    """The head of a word, which its forms share; a number stands for any number."""
    return "0" if word.isdigit() else word[:STEM]


class made_once(Generic[Value]):  # noqa: N801 - a decorator
    """A property that is computed once: `cached_property` without the lock of older Pythons."""

    def __init__(self, function: Callable[[Any], Value]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: Any, owner: type) -> Value:
        value = instance.__dict__[self._function.__name__] = self._function(instance)
        return value


STEMS = Memo(stem)
TELLING = Memo(is_content)


class MessageWords(tuple[str, ...]):
    """The words of a message, with the sets by which messages are compared.

    A set is made when it is first asked for: most messages of most talks are like no other, and
    nobody asks.
    """

    @made_once
    def distinct(self) -> frozenset[str]:
        """Each word once."""
        return frozenset(self)

    @made_once
    def runs(self) -> frozenset[tuple[str, ...]]:
        """All runs of three words; a shorter message is one run."""
        return frozenset(zip(self, self[1:], self[2:], strict=False)) or frozenset({tuple(self)})

    @made_once
    def grams(self) -> frozenset[tuple[str, ...]]:
        """The runs with a content word: function words alone make nobody repeat anybody.

        A message of function words only is one gram.
        """
        if len(self) < 3:
            return self.runs
        telling = self._telling
        grams = [(a, b, c) for a, b, c in self.runs if a in telling or b in telling or c in telling]
        return frozenset(grams) if grams else frozenset({tuple(self)})

    @made_once
    def keys(self) -> frozenset[tuple[str, ...]]:
        """The runs and the grams, which are runs where any word says something."""
        return self.runs if self._telling else self.runs | self.grams

    @made_once
    def stems(self) -> frozenset[str]:
        return frozenset(map(STEMS.__getitem__, self.distinct))

    @made_once
    def content(self) -> frozenset[str]:
        """The stems of the content words."""
        return frozenset(map(STEMS.__getitem__, self._telling))

    def overlap(self, other: "MessageWords") -> float:
        """The share of grams that stand in another message, too."""
        if self is other:
            return 1.0
        return len(self.grams & other.keys) / max(len(self.grams), len(other.grams))

    @property
    def may_repeat_within(self) -> bool:
        """Whether half of its runs of five words can stand three times in it.

        Of that half, at most a third are different, and so are the first three words of each. Each
        run but the first brings one new word at most, so that few runs have few words.
        """
        most = (2 * len(self) - 2) // 3
        return len(self) >= WITHIN_WORDS and len(self.distinct) - 2 <= most >= len(self.runs)

    @made_once
    def _telling(self) -> frozenset[str]:
        return frozenset(filter(TELLING.__getitem__, self.distinct))


class HeardMessage:
    """A message as words, which are made when they are asked for: of most messages nobody does.

    A `quiet` one is known to be like none of the messages before it, and of others it may be known
    what they have in `common` with those; see `screen`.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.quiet = False
        self.common: Common | None = None
        self.speaker: str | None = None
        self.evidence = 0.0

    def settle(self, said: MessageWords, evidence: float) -> None:
        """Once it is weighed, keep no more than later messages are compared with."""
        vars(self).pop("words", None)
        vars(self).update(whole=said, evidence=evidence, text="", common=None)

    def remember(self, words: list[str], whole: list[str]) -> None:
        """Keep words that it took long to find."""
        vars(self).update(words=words, whole=MessageWords(whole))

    @made_once
    def words(self) -> list[str]:
        """All words."""
        return words_of(self.text)

    @made_once
    def whole(self) -> MessageWords:
        """The words with one for each quotation."""
        return MessageWords(
            words_of(without_blocks(self.text)) if quotes(self.text) else self.words
        )


def repeated_within(words: Sequence[str]) -> float:
    """The share of a message that lies in runs of five words which stand three times or more.

    >>> repeated_within("now I will look at the file and then".split() * 4)
    1.0
    """
    runs = [tuple(words[n : n + 5]) for n in range(len(words) - 4)]
    counts = Counter(runs)
    return sum(n for n in counts.values() if n >= 3) / len(runs) if runs else 0.0


def common_places(one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int]]:
    """Where words stand in both messages in the same order: pairs of places in each.

    The longest common subsequence, by bits (Hyyrö 2004).

    >>> common_places("I fire at G1".split(), "so I fire at D4".split())
    [(0, 1), (1, 2), (2, 3)]
    """
    masks: defaultdict[str, int] = defaultdict(int)
    for place, word in enumerate(one):
        masks[word] |= 1 << place
    everything = (1 << len(one)) - 1
    rows = [everything]  # in row m, bit n is 0 where word n makes one[: n + 1] share one more
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


def exchanged(
    one: Sequence[str], other: Sequence[str], pairs: Sequence[tuple[int, int]]
) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """What stands in one message where something else stands in the other.

    >>> one, other = "I fire at G1 now".split(), "so I fire at D4 now".split()
    >>> list(exchanged(one, other, common_places(one, other)))
    [(['G1'], ['D4'])]
    """
    n = m = 0
    for next_n, next_m in (*pairs, (len(one), len(other))):
        if next_n > n and next_m > m:
            yield one[n:next_n], other[m:next_m]
        n, m = next_n + 1, next_m + 1


def is_blank(text: str) -> bool:
    """Whether a text has nothing but white space and punctuation.

    >>> is_blank(" ... "), is_blank("ok"), is_blank("\N{WAVING HAND SIGN}")
    (True, False, False)
    """
    return not text[:1].isalnum() and not any(
        char.isalnum() or unicodedata.category(char)[0] in "LNS" for char in text
    )
