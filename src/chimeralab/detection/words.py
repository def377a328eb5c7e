"""What a message says, word by word: all that the loop detector sees where there are no vectors."""

import hashlib
import re
import unicodedata
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
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
_NUMBERS = """
    two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    twenty thirty forty fifty sixty hundred thousand
"""
NUMBERS = frozenset(_NUMBERS.split())


COURTEOUS = 0.5

# Heads of words: "appreci" stands for appreciate, appreciated and appreciation.
_HEADS = """
    thank thx welcom bye goodby farewell cheers regards appreci gratitud grateful pleas enjoy
    delight glad happy honor honour privileg bless touched wonderful great lovely love nice
    amazing awesome fantastic beautiful brilliant perfect excellent splendid marvel charming
    kind generous thoughtful inspir admir remarkabl special sweet warm heart joy wish luck
    congrat proud compliment cherish treasur friend likewise anytime smile hug dank bitte gern
    tsch wiedersehen wiederhören servus lieb herzlich freu schön grüß gruß ebenso ebenfalls
    gleichfalls ursache gracias adios adiós luego encantad abraz cuíd igualmente salud placer
    beso amable feliz suerte merci revoir bientôt salut plaisir gentil bonne souhait cordial
    amiti obrigad grazie prego ciao arrivederci piacere abbracc tchau prazer 谢 祝 拜
"""
# Words that courtesy uses and that make nothing more or less courteous.
_FILLERS = """
    again ahead always afternoon back best better bit bright care catch chat chatting come day
    days else evening ever everyone everything far feel forward free fully future going good
    hear heard help helped hope indeed journey keep know later look looking lot made make mean
    means meet meeting moment morning need never next night ok okay part rest reach ready
    really safe say see seeing share shared sharing soon speak spend stay still sure take
    taking talk talking tell time today together tomorrow tonight true truly week weekend well
    whenever word words work world year abend alles gut heute immer mal morgen nacht schon tag
    wieder woche buena buenas bueno bien día días hasta noche noches siempre todo bien journée
    nuit soirée toujours tout
"""
# Set phrases, whose words say nothing courteous by themselves.
_PHRASES = """
    all the best | any time | be well | best of luck | catch you later | do come again |
    farewell for now | for now | get home safe | give my regards | good evening | good luck |
    good morning | good night | great day | have a good one | have fun | my door is open | my
    pleasure | next time | no problem | no worries | off i go | off you go | rest well | safe
    travels | same to you | say hello | see you | sleep tight | sleep well | so long | speak
    soon | stay safe | stay well | sweet dreams | take care | talk soon | talk to you | the
    pleasure | till then | until next | until then | you too | and you | and to you | back at
    you | don't mention it | not at all
"""
HEADS = tuple(_HEADS.split())
PHRASES = frozenset(tuple(phrase.split()) for phrase in _PHRASES.split("|"))
FILLERS = frozenset(_FILLERS.split())


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
        content = " ".join(block.group().split()).encode("utf-8", "replace")
        return f" block{hashlib.blake2b(content, digest_size=6).hexdigest()} "

    text = _QUOTE.sub(mark, _FENCE.sub(mark, text[:MOST_CHARACTERS]))
    return _SPEECH.sub(mark, text)


def numbers_in(words: Iterable[str]) -> list[str]:
    """The numbers of a message in order, in digits or in words.

    >>> numbers_in("pour two of the 12 litres".split())
    ['two', '12']
    """
    return [word for word in words if word in NUMBERS or any(map(str.isdigit, word))]


def is_content(word: str) -> bool:
    """Whether a word says something by itself."""
    return (len(word) > 2 and word not in FUNCTION_WORDS) or not word.isascii() or word.isdigit()


def stem(word: str) -> str:
    """The head of a word, which its forms share; a number stands for any number."""
    return "0" if word.isdigit() else word[:STEM]


def share_of_courtesy(words: Sequence[str]) -> float | None:
    """The share of courteous words among those that say something; None where none does.

    >>> share_of_courtesy("thank you so much have a great evening".split())
    1.0
    >>> share_of_courtesy("the parser drops the last token".split())
    0.0
    """
    in_phrase = set[int]()
    for length in (2, 3, 4):
        for start in range(len(words) - length + 1):
            if tuple(words[start : start + length]) in PHRASES:
                in_phrase.update(range(start, start + length))
    others = [word for n, word in enumerate(words) if n not in in_phrase]
    telling = [word for word in others if word not in FUNCTION_WORDS and word not in FILLERS]
    courteous = len(in_phrase) + sum(word.startswith(HEADS) for word in telling)
    total = len(in_phrase) + len(telling)
    return courteous / total if total else None


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


def common_words(one: Sequence[str], other: Sequence[str]) -> int:
    """How many words stand in both messages in the same order (bit-parallel, Hyyrö 2004).

    >>> common_words("I fire at G1 now".split(), "so I fire at D4".split())
    3
    """
    masks: defaultdict[str, int] = defaultdict(int)
    for place, word in enumerate(one):
        masks[word] |= 1 << place
    everything = (1 << len(one)) - 1
    open_places = everything
    for word in other:
        hits = open_places & masks.get(word, 0)
        open_places = ((open_places + hits) | (open_places - hits)) & everything
    return len(one) - open_places.bit_count()


def is_blank(text: str) -> bool:
    """Whether a text has nothing but white space and punctuation.

    >>> is_blank(" ... "), is_blank("ok"), is_blank("\N{WAVING HAND SIGN}")
    (True, False, False)
    """
    return not any(char.isalnum() or unicodedata.category(char)[0] in "LNS" for char in text)
