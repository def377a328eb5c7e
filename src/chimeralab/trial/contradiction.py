"""A guard against statements that look similar and say something else.

Vectors hardly see a "not", a changed number or an opposite. These rules do; they read English, and
where they are in doubt they call two statements different.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Literal

from chimeralab.trial.wording import (
    ARTICLES,
    AUXILIARIES,
    FUNCTION_WORDS,
    listed,
    quantities,
    stem,
    words,
)

Conflict = Literal["negation", "number", "opposite", "order"]

NEGATIONS = listed(
    "not no never none nobody nothing nowhere neither without hardly barely scarcely unable lack"
    " lacks lacked lacking fail fails failed failing refuse refuses refused decline declines"
    " declined deny denies denied avoid avoids avoided"
)
# Phrases with such a word that negate nothing.
HARMLESS = (
    ("not", "only"), ("not", "just"), ("not", "merely"), ("no", "doubt"), ("nothing", "but"),
    ("without", "doubt"), ("or", "not"),
)  # fmt: skip
SCOPE = 3
JOINING = ARTICLES | AUXILIARIES | {"and", "or"}


# A line is a question, a bar parts its answers, and words between bars mean the same here.
CHOICES = """
hot warm | cold cool chilly | frozen
big large huge great | small little tiny
high | low
tall | short
long | short brief
wide broad | narrow
thick | thin
heavy | light
fast quick rapid swift | slow
early | late
old ancient | new | young
hard difficult tough | easy simple
hard firm | soft
strong | weak
rich wealthy | poor
full | empty
wet | dry
clean | dirty
loud noisy | quiet silent
bright | dark dim
sharp | blunt dull
deep | shallow
near close nearby | far distant
good better best | bad worse worst
right correct | wrong incorrect
true | false
real genuine | fake
safe | dangerous
cheap | expensive costly
happy glad | sad
calm | angry
brave | cowardly
friend ally | enemy foe
guilty | innocent
healthy well | sick ill
alive living survived survive | dead died die killed kill
asleep | awake
present | absent missing
public | private
major | minor
maximum | minimum
positive | negative
rough | smooth
raw | cooked
sweet | sour | bitter | salty
fresh | stale rotten
permanent | temporary
legal | illegal
guest visitor | host
open opened | closed close shut
locked lock | unlocked unlock
begin began begun start | end ended finish stop
increase increased grow grew grown | decrease decreased shrink shrank
rise rose risen climb | fall fell fallen drop sink sank
raise raised lift | lower lowered
gain gained | lose lost
win won | lose lost
buy bought purchase | sell sold
lend lent | borrow
give gave given | take took taken | receive
teach taught | learn learnt learned
push | pull
enter | leave left exit | stay stayed remain
arrive arrived came come | leave left depart
accept accepted | reject rejected refuse refused
agree agreed | disagree disagreed
allow allowed permit | forbid forbade forbidden ban prohibit
approve approved | veto vetoed
love loved like | hate hated dislike
praise praised | blame criticise criticize
remember remembered | forget forgot forgotten
build built create | destroy destroyed demolish
join joined | quit
attack attacked | defend defended
attract attracted | repel
succeed succeeded success | fail failed failure
pass passed | fail failed
appear appeared | vanish vanished disappear
expand expanded | contract contracted
import imported | export exported
hire hired | fire fired dismiss
save saved | spend spent
confirm confirmed | deny denied
reveal revealed | hide hid hidden conceal
improve improved | worsen worsened
strengthen | weaken
float | sink sank
freeze froze frozen | melt melted | boil
advance advanced | retreat retreated
admit admitted | deny denied
before | after
above over | below under beneath
inside within in | outside
left | right
front | back rear
top upper | bottom lower
north northern | south southern | east eastern | west western
up upward upwards | down downward downwards
forward forwards | backward backwards
first | last
most | least
more | less fewer
majority | minority
all every each everyone everybody always | some sometimes | none never nobody | few | most | half
many much often frequently | few seldom rarely
both | neither
with | without
for | against
on | off
mother | father
brother | sister
son | daughter
husband | wife
king | queen
man men | woman women
boy | girl
male | female
parent | child
teacher | student pupil
employer | employee
buyer | seller
winner | loser
day daytime | night
morning | afternoon | evening | midnight | noon
dawn sunrise | dusk sunset
summer | winter | spring | autumn
monday | tuesday | wednesday | thursday | friday | saturday | sunday
january | february | march | april | june | july | august | september | october | november |\
 december
yesterday | today | tomorrow
red | orange | yellow | green | blue | purple violet | black | white | grey gray | brown | pink
gold | silver | bronze
sun | moon
war | peace
heaven | hell
profit | loss
credit | debit
cause | effect
question | answer
victory | defeat
birth born | death
odd | even
plus | minus
vertical | horizontal
clockwise | anticlockwise counterclockwise
liquid | solid | gas
acid | alkali
urban | rural
domestic | foreign
ancient | modern
natural | artificial
optional | mandatory compulsory
voluntary | forced
identical same | different
certain sure | doubtful
must | may
yes | no
"""
# "able" and "unable": so short a word may take a prefix and turn round.
SHORTEST = 3
PREFIXES = ("un", "in", "im", "il", "ir", "dis", "non", "mis")


def conflict(one: str, other: str) -> Conflict | None:
    """Why two statements can't be the same; None when no rule objects.

    >>> conflict("The door is open.", "The door isn't open.")
    'negation'
    >>> conflict("She has three dogs.", "She owns 3 dogs.")
    """
    return next((kind for kind, differs in RULES.items() if differs(one, other)), None)


def negation_differs(one: str, other: str) -> bool:
    """Whether one statement denies more than the other, or denies what the other states."""
    ones, others = _stated(words(one)), _stated(words(other))
    if _count(ones) != _count(others):
        return True
    return _denies(ones, others) or _denies(others, ones)


def numbers_differ(one: str, other: str) -> bool:
    """Whether the statements name other quantities, or as many of something else.

    A bare 1 is left out: "one dog", "1 dog" and "a dog" say the same.
    """
    ones, others = (
        [quantity for quantity in quantities(text) if quantity[:2] != ("", 1)]
        for text in (one, other)
    )
    if Counter(q[:2] for q in ones) != Counter(q[:2] for q in others):
        return True
    counted = {q.of for q in ones} & {q.of for q in others}
    return any(
        Counter(q for q in ones if q.of == noun) != Counter(q for q in others if q.of == noun)
        for noun in counted
    )


def opposites_differ(one: str, other: str) -> bool:
    """Whether a word of one statement alone excludes a word of the other alone.

    >>> opposites_differ("The door is open.", "The door is shut.")
    True
    """
    ones, others = set(words(one)), set(words(other))
    excluded = set().union(*(_excluded(stem(word)) for word in ones - others))
    return not excluded.isdisjoint(map(stem, others - ones))


def order_differs(one: str, other: str) -> bool:
    """Whether the same words stand in an order that no single move explains, as in a swap of roles.

    A passive turns the order round and keeps the sense, so a "by" in one of them lets it pass.
    """
    ones, others = _ordered(one), _ordered(other)
    if ones == others or Counter(ones) != Counter(others):
        return False
    start = next(at for at, pair in enumerate(zip(ones, others, strict=True)) if pair[0] != pair[1])
    end = next(at for at in range(len(ones), start, -1) if ones[at - 1] != others[at - 1])
    middle, target = ones[start:end], others[start:end]
    return not any(middle[cut:] + middle[:cut] == target for cut in range(1, len(middle)))


RULES: dict[Conflict, Callable[[str, str], bool]] = {
    "negation": negation_differs,
    "number": numbers_differ,
    "opposite": opposites_differ,
    "order": order_differs,
}


def _stated(spoken: Sequence[str]) -> list[str]:
    """The words, without those of a harmless phrase."""
    kept = list(spoken)
    for first, second in HARMLESS:
        for at in range(len(kept) - 2, -1, -1):
            if kept[at : at + 2] == [first, second]:
                del kept[at : at + 2]
    return kept


def _count(spoken: Sequence[str]) -> int:
    return sum(word in NEGATIONS for word in spoken)


def _denies(ones: Sequence[str], others: Sequence[str]) -> bool:
    """Whether the very thing that is denied in the one stands undenied in the other."""
    undenied = set(map(stem, others)) - _denied(others, SCOPE)
    return not undenied.isdisjoint(_denied(ones, 1))


def _denied(spoken: Sequence[str], reach: int) -> set[str]:
    """The first words of weight behind each negation; at the end of a clause, the one before."""
    found: set[str] = set()
    for at, word in enumerate(spoken):
        if word in NEGATIONS:
            behind = [stem(w) for w in spoken[at + 1 :] if w not in FUNCTION_WORDS]
            before = [stem(w) for w in spoken[:at] if w not in FUNCTION_WORDS]
            found.update(behind[:reach] or before[-1:])
    return found


def _ordered(text: str) -> list[str]:
    return [stem(word) for word in words(text) if word not in JOINING]


def _excluded(word: str) -> set[str]:
    """The stems that can't be true beside a stem: rivals, and itself turned round by a prefix."""
    turned = {prefix + word for prefix in PREFIXES} if len(word) >= SHORTEST else set()
    bare = {word.removeprefix(p) for p in PREFIXES if len(word) >= len(p) + SHORTEST}
    return RIVALS.get(word, set()) | turned | (bare - {word})


def _rivals(choices: str) -> dict[str, set[str]]:
    """For the stem of each word, the stems that it excludes in some line and meets in none."""
    rivals: defaultdict[str, set[str]] = defaultdict(set)
    friends: defaultdict[str, set[str]] = defaultdict(set)
    for line in choices.strip().splitlines():
        answers = [{stem(word) for word in answer.split()} for answer in line.split("|")]
        for answer in answers:
            for word in answer:
                friends[word] |= answer
                rivals[word] |= set().union(*answers) - answer
    return {word: others - friends[word] for word, others in rivals.items()}


RIVALS = _rivals(CHOICES)
