"""What a message says, word by word: all that the loop detector sees where there are no vectors."""

import re
import unicodedata
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

STEM = 5
MOST_WORDS = 4_000  # of one message; nobody reads further to see that it repeats
MOST_CHARACTERS = 40_000

# Scripts without spaces between words are read letter by letter.
_WORD = re.compile(
    r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+(?:['’][^\W_]+)*"
)
_WIDE = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
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
OPPOSED = frozenset(
    [
        "after",
        "all",
        "before",
        "down",
        "in",
        "no",
        "not",
        "off",
        "on",
        "out",
        "over",
        "under",
        "up",
        "yes",
    ]
)


def words_of(text: str) -> list[str]:
    """The words of a message in order, without case; a message of signs alone gives its signs.

    >>> words_of("Let's GO — again!")
    ["let's", 'go', 'again']
    >>> words_of("\N{THUMBS UP SIGN}\N{THUMBS UP SIGN}")
    ['\\U0001f44d', '\\U0001f44d']
    """
    plain = unicodedata.normalize("NFKC", text[:MOST_CHARACTERS]).casefold().replace("’", "'")
    found = _WORD.findall(plain)[:MOST_WORDS]
    return found or [sign for sign in plain if unicodedata.category(sign)[0] in "SP"][:MOST_WORDS]


def without_blocks(text: str) -> str:
    """The text with each fenced block and long quotation as one word: to quote is not to say."""

    def mark(block: re.Match[str]) -> str:
        import hashlib  # noqa: PLC0415 - slow to import, and few messages hold a block

        content = " ".join(block.group().split()).encode("utf-8", "replace")
        return f" block{hashlib.blake2b(content, digest_size=6).hexdigest()} "

    text = _QUOTE.sub(mark, _FENCE.sub(mark, text[:MOST_CHARACTERS]))
    return _SPEECH.sub(mark, text)


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


@dataclass(frozen=True, slots=True)
class MessageWords:
    """One message in the sets by which messages are compared.

    `runs` are all runs of three words, `grams` those with a content word: function words alone make
    nobody repeat anybody. A shorter message, or one of function words only, is one gram.
    """

    words: tuple[str, ...]
    runs: frozenset[tuple[str, ...]]
    grams: frozenset[tuple[str, ...]]
    stems: frozenset[str]
    content: frozenset[str]

    @classmethod
    def of(cls, words: Sequence[str]) -> "MessageWords":
        telling = {word for word in set(words) if is_content(word)}
        runs = frozenset(zip(words, words[1:], words[2:], strict=False)) or {tuple(words)}
        grams = {run for run in runs if not telling.isdisjoint(run)}
        return cls(
            words=tuple(words),
            runs=frozenset(runs),
            grams=frozenset(grams or {tuple(words)}),
            stems=frozenset(map(stem, words)),
            content=frozenset(map(stem, telling)),
        )


class Index:
    """Which of the last messages hold a key. Counting what they share costs no look at others."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._places: defaultdict[object, list[int]] = defaultdict(list)
        self._kept: deque[tuple[int, Collection[object]]] = deque()

    def shared(self, keys: Iterable[object]) -> Counter[int]:
        """By message, how many of these keys it holds."""
        return Counter(chain.from_iterable(self._places.get(key, ()) for key in keys))

    def places(self, key: object) -> Sequence[int]:
        """Which of the last messages hold a key."""
        return self._places.get(key, ())

    def count(self, key: object) -> int:
        """How many of the last messages hold a key."""
        return len(self._places.get(key, ()))

    def add(self, place: int, keys: Collection[object]) -> None:
        """Take in a message; the oldest one leaves."""
        self._kept.append((place, keys))
        for key in keys:
            self._places[key].append(place)
        if len(self._kept) > self._window:
            oldest, gone = self._kept.popleft()
            for key in gone:
                places = self._places[key]
                places.remove(oldest)
                if not places:
                    del self._places[key]


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
    return not any(char.isalnum() or unicodedata.category(char)[0] in "LNS" for char in text)
