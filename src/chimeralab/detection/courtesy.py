"""Messages that are nothing but courtesy: thanks, farewells, wishes and praise."""

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from chimeralab.detection.words import FUNCTION_WORDS, MAX_MEMOISED, ramp

# Courtesy as phrase books for learners teach it. Prefixes of words: "appreci" stands for appreciate
# and appreciation.
_PREFIXES = """
    thank thx welcom bye goodby farewell cheers cheerio regards adieu ciao toodle godspeed
    appreci gratitud grateful oblige pleas enjoy delight glad happy honor honour privileg bless
    touched wonderful great lovely love nice amazing awesome awe fantastic beautiful brilliant
    perfect excellent splendid marvel charming superb magnificen tremendous terrific outstanding
    phenomenal exceptional impress astonish astound genius talent gifted bravo kudos applau wow
    kind generous thoughtful inspir admir remarkabl special sweet warm heart joy wish luck
    congrat proud compliment cherish treasur friend likewise anytime smile hug praise
    dank bitte gern tsch wiedersehen wiederhören wiederschauen servus lieb herzlich freu schön
    grüß gruß ebenso ebenfalls gleichfalls ursache glückwunsch
    gracias adios adiós chao chau luego encantad abraz cuíd igualmente salud placer beso amable
    feliz felic suerte
    merci revoir bientôt salut plaisir gentil bonne souhait cordial amiti enchant félicit
    obrigad grazie prego arrivederci piacere abbracc tchau prazer 谢 祝 拜
"""
# Neutral words that are common in courtesy.
_FILLERS = """
    again ahead always afternoon back best better bit bright care catch chat chatting come day
    days else evening ever everyone everything far feel forward free fully future going good
    gotta hear heard help helped hope indeed journey keep know later look looking lot made make
    mean means meet meeting moment morning need never next night ok okay part rest reach ready
    really safe say see seeing share shared sharing soon speak spend stay still sure take
    taking talk talking tell time today together tomorrow tonight true truly week weekend well
    whenever word words work world year abend alles gut heute immer mal morgen nacht schon tag
    wieder woche noch viel vielen buena buenas bueno bien día días hasta mucho muchas muchos
    noche noches siempre todo journée nuit soirée toujours tout beaucoup
"""
# Set phrases of words that are not courteous by themselves.
_PHRASES = """
    all the best | any time | at your service | be well | best of luck | catch you later | do
    come again | don't be a stranger | drive safe | farewell for now | for now | get home safe |
    give my regards | good evening | good luck | good morning | good night | got to go | great
    day | have a good one | have fun | i must be going | i'm off | i'm out | in your debt | it
    was nothing | it's nothing | keep in touch | later alligator | least i could do | look after
    yourself | made my day | made my week | much obliged | my door is open | my pleasure | next
    time | night night | no problem | no worries | not a problem | off i go | off you go | over
    and out | owe you | parting is such | peace out | rest well | safe travels | same to you |
    say hello | see ya | see you | should get going | signing off | sleep tight | sleep well |
    so long | speak soon | stay safe | stay well | sweet dreams | ta ta | take care | take it
    easy | talk soon | talk to you | the pleasure | till then | until next | until then | until
    we meet | you shouldn't have | you too | and you | and to you | back at you | don't mention
    it | not at all | think nothing of | a big hand | blown away | good for you | good job |
    good work | hat off | hats off | hit the mark | job well done | keep it up | nailed it |
    one of a kind | one in a million | on the back | out of this world | outdone yourself |
    round of applause | second to none | spot on | thumbs up | top marks | top notch | top of the
    class | way to go | well done | well put | well said | what a gift | you did it | you rock |
    you're a star | you're the best |
    alles gute | alles liebe | auf bald | auf dich auf | bis bald | bis dahin | bis dann | bis
    gleich | bis morgen | bis nachher | bis später | gut gemacht | gute besserung | gute nacht |
    gute reise | guten abend | guten tag | hat mich gefreut | kein problem | keine ursache |
    komm gut | mach es gut | mach's gut | nichts zu danken | schlaf gut | träum süß | viel
    erfolg | viel glück | viel spaß | war mir eine |
    buen día | buen viaje | buenas noches | buenas tardes | buenos días | con gusto | de nada |
    dulces sueños | hablamos luego | hasta la | hasta luego | hasta mañana | hasta pronto |
    hasta siempre | me voy | muy amable | no hay de | nos vemos | que descanses | que te vaya |
    que tengas |
    à bientôt | à demain | à plus | au revoir | avec plaisir | bon courage | bon voyage | bonne
    chance | bonne journée | bonne nuit | bonne soirée | de rien | en prie | je vous en | prends
    soin | soin de toi |
    再 见 | 再 会 | 拜 拜 | 次 见 | 头 见 | 天 见 | 儿 见 | 慢 走 | 一 路 顺 风 | 一 路 平 安 |
    保 重 | 晚 安 | 早 安 | 感 谢 | 多 谢 | 谢 谢 你 | 谢 谢 您 | 不 客 气 | 不 用 谢 | 没 关 系 |
    辛 苦 了 | 祝 你 | 祝 您 | 祝 福 | 顺 利 | 好 梦 | 后 会 有 期 | 太 好 了 | 太 棒 了
"""
PREFIXES: dict[str, tuple[str, ...]] = {
    letter: tuple(each for each in _PREFIXES.split() if each[0] == letter)
    for letter in {each[0] for each in _PREFIXES.split()}
}
"""Prefixes of courteous words by first letter."""
PHRASES: dict[tuple[str, ...], tuple[tuple[str, ...], ...]] = {}
"""Set phrases by their first two words."""
for _phrase in sorted({tuple(phrase.split()) for phrase in _PHRASES.split("|")}):
    PHRASES[_phrase[:2]] = (*PHRASES.get(_phrase[:2], ()), _phrase)
_NEUTRAL = FUNCTION_WORDS | frozenset(_FILLERS.split())
# Courtesy ramps up with the share of courteous words, and fades with the length in words.
SHARES = 0.2, 0.5
LENGTHS = 25, 45
COURTEOUS = 0.5  # the score from which a message counts as courtesy
SOON = 2  # messages
IDLE_WORDS = 8  # a message of as many words or more is not idle


def courtesy_share(words: Sequence[str]) -> float | None:
    """The share of courteous words among those that are not neutral; None if all are.

    >>> courtesy_share("thank you so much have a great evening".split())
    1.0
    >>> courtesy_share("the parser drops the last token".split())
    0.0
    """
    in_phrase = set[int]()
    for start, pair in enumerate(pairwise(words)):
        if pair in PHRASES:
            for phrase in PHRASES[pair]:
                if tuple(words[start : start + len(phrase)]) == phrase:
                    in_phrase.update(range(start, start + len(phrase)))
    others = [word for n, word in enumerate(words) if n not in in_phrase] if in_phrase else words
    counted = [word for word in others if word not in _NEUTRAL]
    total = len(in_phrase) + len(counted)
    return (len(in_phrase) + sum(map(is_courteous, counted))) / total if total else None


@lru_cache(MAX_MEMOISED)
def is_courteous(word: str) -> bool:
    """Whether a word is courteous by itself."""
    return word.startswith(PREFIXES.get(word[:1], ()))


def score_courtesy(text: str, words: Sequence[str]) -> float:
    """How far a short message is nothing but courtesy, from 0 to 1; emoji alone count.

    >>> score_courtesy("Take care!", ["take", "care"])
    1.0
    """
    if len(words) >= LENGTHS[1]:
        return 0.0
    if not any(char.isalnum() for char in text):
        return float(any(unicodedata.category(char) == "So" for char in text))
    share = courtesy_share(words) or 0.0
    return ramp(share, *SHARES) * (1 - ramp(len(words), *LENGTHS))


def is_polite(text: str, words: Sequence[str]) -> bool:
    """Whether a message is courteous, or idle and so does not interrupt courtesy."""
    return len(words) < LENGTHS[1] and (score_courtesy(text, words) >= COURTEOUS or is_idle(words))


def is_idle(words: Sequence[str]) -> bool:
    """Whether a short message has only neutral words, as in "and so it was".

    >>> is_idle("Well, you know".lower().replace(",", "").split()), is_idle(["ok", "Ulm"])
    (True, False)
    """
    return len(words) < IDLE_WORDS and courtesy_share(words) is None
