"""Courtesy that says nothing new: thanks, farewells, praise and wishes."""

from collections.abc import Sequence

from chimeralab.detection.words import FUNCTION_WORDS

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
