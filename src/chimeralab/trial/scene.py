"""What a subject has before it at one turn: the past as shown, the question, the evidence."""

import re
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from chimeralab.core.records import Record
from chimeralab.models.seam import Message
from chimeralab.trial.course import Course, Step
from chimeralab.trial.scenarios.items import Fact, Question

# The order of the lines within one message.
KINDS = ("notes", "feedback", "fact", "evidence", "others", "commitment", "review", "question")
Kind = Literal[
    "notes", "feedback", "fact", "evidence", "others", "commitment", "review", "question"
]
Action = Literal["said", "removed", "altered"]
# How far evidence can be trusted where no stressor says.
DEFAULT_STRENGTH = 0.9
EVIDENCE = "evidence"
# What precedes the rest of an episode that the subject does not remember.
EARLIER = "From earlier in this conversation:"
CHECK = "A check that is right in {percent} % of cases says: the answer to “{question}” is {named}."


class Utterance(NamedTuple):
    """One line of a message; `fact` is the fact that it tells, `by` whose treatment it belongs to.

    That is the name of a stressor, or "evidence"; the course itself says the rest.
    """

    kind: Kind
    text: str
    fact: Fact | None = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class Exchange(Record):
    """What was put to the subject at one turn, and its answer if there is one yet.

    In the past, one without an answer is what is left of an episode that was taken away.
    """

    turn: int
    lines: tuple[Utterance, ...]
    answer: str | None = None

    @property
    def ordered(self) -> list[Utterance]:
        """The lines in the order in which they are read."""
        return sorted(self.lines, key=lambda line: KINDS.index(line.kind))

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.ordered)

    def adding(self, line: Utterance) -> "Exchange":
        return replace(self, lines=(*self.lines, line))


@dataclass(frozen=True, slots=True)
class Injection(Record):
    """What a stressor did, where: the text that it said or took away, and what stands instead.

    A countermeasure is entered under its own name in the place of a stressor's; it only says.
    """

    stressor: str
    action: Action
    turn: int
    kind: str
    text: str
    instead: str | None = None


@dataclass(frozen=True, slots=True)
class Scene(Record):
    """Everything that the subject will see at a turn, and what was done to it."""

    opening: str
    past: tuple[Exchange, ...]
    present: Exchange
    injections: tuple[Injection, ...] = ()

    def saying(self, name: str, line: Utterance) -> "Scene":
        """The scene with one more line in the present, on record under a name."""
        injection = Injection(name, "said", self.present.turn, line.kind, line.text)
        return replace(
            self, present=self.present.adding(line), injections=(*self.injections, injection)
        )


class Moment(NamedTuple):
    """Where in which course a scene stands, and what the subject has chosen so far.

    `chosen` holds the option that each earlier answer names, None where it names none; `alone` is
    what the subject answered in a fork, before it heard the others. `strength` is how far
    the evidence of this arm can be trusted. A subject with its `own_memory` can be made to forget
    an episode, but nothing can be written into its past.
    """

    course: Course
    turn: int
    seed: int
    chosen: tuple[str | None, ...]
    strength: float
    alone: str | None = None
    own_memory: bool = False

    @property
    def step(self) -> Step:
        return self.course.step(self.turn)

    @property
    def last(self) -> Step | None:
        return self.course.step(self.turn - 1) if self.turn > 1 else None


def messages(scene: Scene) -> tuple[Message, ...]:
    """The scene as a chat: user and assistant in turn, the opening at the head.

    What is left of an episode stands at the head of the next message, marked as earlier.
    """
    chat = []
    head = [scene.opening] if scene.opening else []
    for exchange in (*scene.past, scene.present):
        if exchange is not scene.present and exchange.answer is None:
            if not exchange.lines:
                continue
            head.append("\n".join((EARLIER, *(f"> {line}" for line in exchange.text.split("\n")))))
            continue
        chat.append(Message("user", "\n\n".join((*head, exchange.text))))
        head = []
        if exchange.answer is not None:
            chat.append(Message("assistant", exchange.answer))
    return tuple(chat)


def testimony(question: Question, strength: float, named: str) -> tuple[str, float]:
    """The evidence for one answer as it is shown, and the reliability that it states: of the
    question's own the nearest in strength, else a check.

    False evidence looks the same and speaks for the lure.

    >>> from chimeralab.trial.scenarios.items import Question
    >>> testimony(Question("q", "recall", "Where?", "Rome"), 0.9, "Oslo")[0]
    'A check that is right in 90 % of cases says: the answer to “Where?” is Oslo.'
    """
    truth = str(question.truth)
    whole = rf"(?<!\w){re.escape(truth)}(?!\w)"
    own = [
        (re.sub(whole, lambda _: named, each.text), each.reliability)
        for each in question.evidence
        if named == truth or re.search(whole, each.text)
    ]
    if own:
        return min(own, key=lambda each: abs(each[1] - strength))
    text = CHECK.format(percent=f"{100 * strength:g}", question=question.prompt, named=named)
    return text, strength


def odds(strength: float) -> str:
    """A reliability as odds.

    >>> odds(0.9), odds(1.0)
    ('9 to 1', 'a certainty')
    """
    return "a certainty" if strength == 1 else f"{strength / (1 - strength):.3g} to 1"
