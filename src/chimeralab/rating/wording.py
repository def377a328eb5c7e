"""Normalise the text of a turn for the rules: a verbatim key, words, and content words.

Look-alike letters of other alphabets are folded to Latin, and names that a piece of code defines
are numbered, so that renaming them changes nothing. The long word lists are English; in other
languages all but the most common function words count as content.
"""

import re
import tomllib
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_LISTS = tomllib.loads(Path(__file__).with_name("lexicon.toml").read_text(encoding="utf-8"))

FILLERS = frozenset(_LISTS["fillers"].split())
LY_NOUNS = frozenset(_LISTS["ly_nouns"].split())
NEGATIONS = frozenset(_LISTS["negations"].split())
NUMBER_WORDS = frozenset(_LISTS["numbers"].split())
DETERMINERS = frozenset(_LISTS["determiners"].split())
CONTRASTS: list[list[str]] = [line.split() for line in _LISTS["contrasts"].splitlines() if line]
SYNONYMS: list[list[str]] = [line.split() for line in _LISTS["synonyms"].splitlines() if line]

ENDINGS = ("ings", "ing", "ies", "ed", "es", "s", "ly")

# Scripts without spaces: each character counts as a word.
UNSPACED = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
ALIKE: dict[str, str] = {
    letter: latin for latin, letters in _LISTS["alike"].items() for letter in letters
}
OTHER_ALPHABET = re.compile("\\w*[\u0370-\u052f]\\w*")
NUMBER = re.compile(r"\d+(st|nd|rd|th)?")
STRETCHED = re.compile(r"(\w)\1{2,}")
NAME = re.compile(r"(?<=[\w,;] )[A-Z]\w+")

# An answer to the turn before, which leaves what follows as it is: "I do not know, but I …". It
# ends at a mark, at "but", or before the subject of the next clause.
OPENER = re.compile(
    rf"""\W*(?:{"|".join(_LISTS["openers"].splitlines()).strip("|")})
    (?:\s*[,.;:!?]+\s*(?:but\b)? | \s+but\b)
    | \W*no\s(?=(?:i|we|you|he|she|it|they|that|there)\b)""",
    re.IGNORECASE | re.VERBOSE,
)
# Contractions, and phrases that stand for each other.
PHRASES = dict(line.split(" = ") for line in _LISTS["phrases"].splitlines() if line)
PHRASE = re.compile(rf"\b({'|'.join(PHRASES)})\b")

# A longer turn that ends with good wishes is not a farewell.
MAX_FAREWELL_WORDS = 60

_PLEASANT = "nice|great|good|lovely|wonderful|pleasant|fun|delightful|fantastic|pleasure|enjoyable"
_TIME = (
    "day|night|evening|afternoon|morning|week|weekend|time|one|rest|journey|trip|life|holiday|year"
)
_TALK = "chat|chatting|talk|talking|conversation|conversing|discussion|speaking|exchange|meeting"
_EVENT = "conversation|chat|call|session|discussion"

PARTING = re.compile(
    rf"""\b(
      (good\s?)?bye(\s?bye)? | farewell | so\slong(?!\sas) | ciao | adieu | adios | cheerio
    | au\srevoir | auf\swiedersehen | tschüss | bis\s(bald|dann|später|morgen) | machs\sgut
    | hasta\s(luego|pronto|mañana) | arrivederci | до\sсвидания | 再\s见 | 拜\s拜
    | sayonara | godspeed | good\s?night | over\sand\sout
    | take\s(good\s)?care(\sof\syourself)? | look\safter\syourself | stay\s(safe|well) | be\swell$
    | see\s(you|ya)(\s(later|soon|around|then|tomorrow|again|next)|$) | catch\s(you|ya)\slater
    | (talk|speak|chat|write)\s(to\syou\s|with\syou\s)?(later|soon|again|tomorrow)
    | (until|till)\s(next|we|then|tomorrow)
    | all\sthe\sbest | best\s(wishes|of\sluck) | warm\sregards | kind\sregards
    | wish(ing)?\syou\s(a|all|the|well|luck|many)
    | (?<!i\s)(?<!we\s)(?<!you\s)(?<!they\s)(?<!not\s)(?<!nt\s)(have|enjoy)
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

# Code: operators count as words, and the names that it defines do not.
FENCED = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
CALL = re.compile(r"\w\(|\w\s=\s\S|\w=\w")
STATEMENT = re.compile(
    r"^\s*(?:(?:def|class|for|while|if|import|return|let|const|var|function|fn|func|public|private)"
    r"\b.*[:;(){}=]|[\w.]+(?:,\s*\w+)*\s*=\s*\S)",
    re.MULTILINE,
)
# Functions and classes, parameters, declared or assigned variables, loop variables.
BINDINGS = (
    re.compile(r"\b(?:def|function|class|fn|func)\s+(\w+)"),
    re.compile(r"\b(?:def|function|fn|func)\b[^(\n]*\(([^)]*)\)"),
    re.compile(r"\b(?:let|const|var)\s+(\w+)"),
    re.compile(r"^\s*(\w+(?:\s*,\s*\w+)*)\s*=(?!=)", re.MULTILINE),
    re.compile(r"\bfor\s*\(?\s*(?:let|const|var|int)?\s*(\w+(?:\s*,\s*\w+)*)\s*(?:in|of|=)\b"),
    re.compile(r"\blambda\s+([\w\s,]+):"),
)
PARAMETER = re.compile(r"[A-Za-z_]\w*")
OPERATOR = re.compile(r"[-+*/%<>=!&|^~]+")
NAMES = {
    "-": "minus", "+": "plus", "*": "times", "/": "by", "%": "modulo", "<": "below", ">": "above",
    "=": "is", "!": "bang", "&": "both", "|": "either", "^": "caret", "~": "tilde",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wording:
    """A normalised text.

    Texts with the same `key` differ only in white space, punctuation and case. `words` maps
    synonyms and word forms to one sense; `content` has the senses of content words, which in
    `code` include all names and operators.
    """

    text: str
    key: str
    words: tuple[str, ...]
    content: frozenset[str]
    numbers: frozenset[str]
    farewell: bool
    code: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Capitalised words within a sentence."""
        return frozenset(sense(name.casefold()) for name in NAME.findall(self.text))


def normalize(text: str) -> Wording:
    """Normalise a text for comparison with others.

    >>> normalize("Well, GOODBYE!").key == normalize("well goodbye...").key
    True
    """
    renamed = number_names(text)
    key = verbatim_key(text if renamed is None else spell_operators(text))
    if renamed is None:
        rest = strip_openers(text)
        said = key if rest == text else verbatim_key(rest) or key
        plain = PHRASE.sub(lambda found: PHRASES[found[1]], said).split()
    else:
        plain = verbatim_key(renamed).split()
    words = [_word(word) for word in plain]
    return Wording(
        text=text,
        key=key,
        words=tuple(sense for sense, _, _ in words),
        content=frozenset(sense for sense, _, is_content in words if is_content),
        numbers=frozenset(sense for sense, is_number, _ in words if is_number),
        farewell=is_farewell(key, key.count(" ") + 1),
        code=renamed is not None,
    )


def verbatim_key(text: str) -> str:
    """Strip a text of white space, punctuation and case.

    >>> verbatim_key("It's  **over**.")
    'its over'
    """
    plain = unicodedata.normalize("NFKC", text)
    if not plain.isascii():
        plain = OTHER_ALPHABET.sub(_fold_lookalikes, plain)
    return " ".join(plain.casefold().translate(_NORMALIZER).split())


def strip_openers(text: str) -> str:
    """Strip the answers that open a turn.

    >>> strip_openers("No, I do not know, but I like tea."), strip_openers("No, I do not know tea.")
    (' I like tea.', 'I do not know tea.')
    """
    while found := OPENER.match(text):
        text = text[found.end() :]
    return text


def _fold_lookalikes(word: re.Match[str]) -> str:
    """Fold a word to the Latin one that it looks like; without a Latin letter, leave it."""
    folded = "".join(ALIKE.get(char, char) for char in word[0])
    mixed = any(char.isascii() for char in word[0])
    looks_latin = folded.isascii() and (mixed or len(folded) == 1)
    return folded if looks_latin else word[0]


def short_key(key: str) -> str:
    """Remove emoji and stretched letters from a key.

    >>> short_key("nooooo 😀")
    'no'
    """
    letters = "".join(char for char in key if not unicodedata.category(char).startswith("S"))
    return " ".join(STRETCHED.sub(r"\1", letters).split())


@lru_cache(maxsize=1 << 16)
def _word(word: str) -> tuple[str, bool, bool]:
    """Return the sense of a word, whether it is a number, and whether it is content."""
    if word in FILLERS:
        return word, False, False
    if word in NUMBER_WORDS or NUMBER.fullmatch(word):
        return word, True, False
    manner = word.endswith("ly") and word not in LY_NOUNS
    return sense(word), False, word[0].isalnum() and not manner


class _Normalizer(dict[int, str]):
    """Lazy `str.translate` table: drops apostrophes and invisible characters, splits at symbols."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        kind = unicodedata.category(char)
        if char in "'’‘ʼ" or kind == "Cf" or "\ufe00" <= char <= "\ufe0f":
            result = ""
        elif kind[0] in "PZC" or kind == "Sk":
            result = " "
        else:
            result = f" {char} " if kind[0] == "S" or UNSPACED.match(char) else char
        self[code] = result
        return result


_NORMALIZER = _Normalizer()


def is_farewell(key: str, words: int) -> bool:
    """True when a key of at most MAX_FAREWELL_WORDS words is a farewell.

    >>> is_farewell("the pleasure was mine", 4), is_farewell("the pleasure of reading", 4)
    (True, False)
    """
    return words <= MAX_FAREWELL_WORDS and PARTING.search(key) is not None


def stem(word: str) -> str:
    """Strip the ending of a word, roughly.

    >>> stem("improving"), stem("improved"), stem("improve"), stem("cities"), stem("class")
    ('improv', 'improv', 'improv', 'cit', 'class')
    """
    if len(word) <= 4 or word.endswith("ss"):
        return word
    ending = next((end for end in ENDINGS if word.endswith(end) and len(word) > len(end) + 2), "")
    return (word[: len(word) - len(ending)]).rstrip("ey")


def sense(word: str) -> str:
    """Map synonyms and forms of a word to one name.

    >>> sense("wonderful") == sense("great"), sense("improving") == sense("enhanced")
    (True, True)
    """
    if word in NEGATIONS:
        return word
    root = stem(word)
    return _GROUPS.get(root, root)


_GROUPS: dict[str, str] = {stem(word): group[0] for group in SYNONYMS for word in group}
_ROWS: dict[str, set[int]] = {}
for _number, _row in enumerate(CONTRASTS):
    for _entry in _row:
        _ROWS.setdefault(sense(_entry), set()).add(_number)


def contrast(one: str, other: str) -> bool:
    """True when two senses exclude each other, such as opposites or colours.

    >>> contrast(sense("rise"), sense("fall")), contrast(sense("rise"), sense("soar"))
    (True, False)
    """
    return one != other and bool(_ROWS.get(one, set()) & _ROWS.get(other, set()))


def number_names(text: str) -> str | None:
    """Spell out the operators of code and number the names that it defines; None without code.

    >>> number_names("n = f(1)") == number_names("k = f(1)") != number_names("k = g(1)")
    True
    """
    if not has_code(text):
        return None
    own = {
        name: None
        for binding in BINDINGS
        for bound in binding.finditer(text)
        for name in PARAMETER.findall(bound[1])
    }
    if own:
        numbers: dict[str, str] = {}
        text = re.sub(
            rf"\b({'|'.join(own)})\b",
            lambda found: numbers.setdefault(found[1], f"name{len(numbers)}"),
            text,
        )
    return spell_operators(text)


def has_code(text: str) -> bool:
    """True when a text has a fenced block, or statements with calls or assignments.

    >>> has_code("for i in x:\\n    print(i)"), has_code("If you like (as I do): go!")
    (True, False)
    """
    if "```" in text:
        return True
    return STATEMENT.search(text) is not None and CALL.search(text) is not None


def spell_operators(text: str) -> str:
    """Replace operators with words, which survive normalisation, in fenced blocks if there are any.

    >>> spell_operators("a ** b")
    'a  timestimes  b'
    """
    if "```" not in text:
        return _spell(text)
    return FENCED.sub(lambda block: f"\n{_spell(block[1])}\n", text)


def _spell(code: str) -> str:
    return OPERATOR.sub(lambda found: f" {''.join(NAMES[char] for char in found[0])} ", code)
