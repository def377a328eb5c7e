"""Words that can't both be true of one thing: opposites, and choices of which only one holds."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from chimeralab.sandbox.wording import stem

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


class Opposites(NamedTuple):
    """A word of one text and the word of the other that can't hold beside it."""

    one: str
    other: str


def opposites(one: Iterable[str], other: Iterable[str]) -> Opposites | None:
    """Two words, each in one text alone, that exclude each other.

    >>> opposites(["the", "door", "is", "open"], ["the", "door", "is", "shut"])
    Opposites(one='open', other='shut')
    """
    ones, others = set(one), set(other)
    elsewhere = {stem(word): word for word in sorted(others - ones)}
    for word in sorted(ones - others):
        found = _excluded(stem(word)) & elsewhere.keys()
        if found:
            return Opposites(word, elsewhere[min(found)])
    return None


def _excluded(word: str) -> set[str]:
    """The stems that can't hold beside a stem: its rivals, and itself turned round by a prefix."""
    turned = {prefix + word for prefix in PREFIXES} if len(word) >= SHORTEST else set()
    bare = {word.removeprefix(p) for p in PREFIXES if len(word) >= len(p) + SHORTEST}
    return RIVALS.get(word, set()) | turned | (bare - {word})
