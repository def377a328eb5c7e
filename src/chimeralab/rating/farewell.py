"""Does a turn take leave? In a farewell, only the exact utterance counts as a repetition."""

import re

# A longer turn that ends with good wishes is about something else.
MOST_WORDS = 60

_PLEASANT = "nice|great|good|lovely|wonderful|pleasant|fun|delightful|fantastic|pleasure|enjoyable"
_TIME = (
    "day|night|evening|afternoon|morning|week|weekend|time|one|rest|journey|trip|life|holiday|year"
)
_TALK = "chat|chatting|talk|talking|conversation|conversing|discussion|speaking|exchange|meeting"
_EVENT = "conversation|chat|call|session|discussion"

PARTING = re.compile(
    rf"""\b(
      (good\s?)?bye(\s?bye)? | farewell | so\slong(?!\sas) | ciao | adieu | adios | cheerio
    | au\srevoir | auf\swiedersehen | tschüss | sayonara | godspeed | good\s?night | over\sand\sout
    | take\s(good\s)?care(\sof\syourself)? | look\safter\syourself | stay\s(safe|well) | be\swell$
    | see\s(you|ya)(\s(later|soon|around|then|tomorrow|again|next)|$) | catch\s(you|ya)\slater
    | (talk|speak|chat|write)\s(to\syou\s|with\syou\s)?(later|soon|again|tomorrow)
    | (until|till)\s(next|we|then|tomorrow)
    | all\sthe\sbest | best\s(wishes|of\sluck) | warm\sregards | kind\sregards
    | wish(ing)?\syou\s(a|all|the|well|luck|many)
    | (?<!i\s)(?<!we\s)(?<!you\s)(?<!they\s)(have|enjoy)
      \s(yourself | (a|an|the|your)\s(\w+\s){{0,4}}({_TIME}))
    | ({_PLEASANT})\s(to\s)?(talk|chat|speak|meet|convers|catch|discuss)\w*
    | (thanks|thank\syou)(\s\w+)?\sfor\s((a|an|the|this|our|your|such)\s)*(\w+\s){{0,3}}({_TALK})
    | thank\syou\sfor\shaving\sme
    | pleasure\s(was|is)\s(all\s)?mine | feeling\sis\smutual | same\sto\syou
    | ({_EVENT})\s(has\s|is\s|was\s)?(now\s)?(ended|over|closed|concluded|complete)
    | end\sof\s(the\s|this\s|our\s)?({_EVENT})
    )\b""",
    re.VERBOSE,
)


def is_farewell(key: str, words: int) -> bool:
    """True when the text, white space and punctuation aside, is a way to part.

    >>> is_farewell("the pleasure was mine", 4), is_farewell("the pleasure of reading", 4)
    (True, False)
    """
    return words <= MOST_WORDS and PARTING.search(key) is not None
