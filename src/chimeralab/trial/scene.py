"""What a subject sees at one turn: the past as shown, the question and the evidence."""

import re
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

from chimeralab.core.records import Record
from chimeralab.models.seam import Message
from chimeralab.trial.course import Course, Step
from chimeralab.trial.scenarios.items import Fact, Question

# In the order of the lines within one message.
Kind = Literal[
    "notes", "feedback", "fact", "evidence", "others", "commitment", "review", "question"
]
KINDS: tuple[Kind, ...] = get_args(Kind)
Action = Literal["said", "removed", "altered"]
# Reliability of evidence unless a stressor sets it.
DEFAULT_STRENGTH = 0.9
EVIDENCE = "evidence"
# Introduces what is left of an episode that the subject has forgotten.
EARLIER = "From earlier in this conversation:"
CHECK = "A check that is right in {percent} % of cases says: the answer to “{question}” is {named}."


class Utterance(NamedTuple):
    """One line of a message; `fact` is the fact it states.

    `by` names the treatment it belongs to: a stressor, "evidence", or nothing for the course.
    """

    kind: Kind
    text: str
    fact: Fact | None = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class Exchange(Record):
    """The message of one turn, and the answer if there is one.

    In the past, an exchange without an answer is what remains of a removed episode.
    """

    turn: int
    lines: tuple[Utterance, ...]
    answer: str | None = None

    @property
    def sorted_lines(self) -> list[Utterance]:
        return sorted(self.lines, key=lambda line: KINDS.index(line.kind))

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.sorted_lines)

    def with_line(self, line: Utterance) -> "Exchange":
        return replace(self, lines=(*self.lines, line))


@dataclass(frozen=True, slots=True)
class Injection(Record):
    """One manipulation: the text that was said or removed, and its replacement if altered.

    A countermeasure is recorded under its own name, and only adds text.
    """

    stressor: str
    action: Action
    turn: int
    kind: str
    text: str
    instead: str | None = None


@dataclass(frozen=True, slots=True)
class Scene(Record):
    """Everything that the subject sees at a turn, and every manipulation of it."""

    opening: str
    past: tuple[Exchange, ...]
    present: Exchange
    injections: tuple[Injection, ...] = ()

    def saying(self, name: str, line: Utterance) -> "Scene":
        """Add a line to the present, recorded under a name."""
        injection = Injection(name, "said", self.present.turn, line.kind, line.text)
        return replace(
            self, present=self.present.with_line(line), injections=(*self.injections, injection)
        )


class Moment(NamedTuple):
    """The turn of a course at which a scene is shown, and what the subject chose so far.

    `chosen` has the option of each earlier answer (None if unread), `alone` the private answer
    given before hearing the others, and `strength` the reliability of the evidence. The past of a
    subject with its `own_memory` can be forgotten but not rewritten.
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


def render_messages(scene: Scene) -> tuple[Message, ...]:
    """Render a scene as a chat that starts with the opening.

    The remains of a removed episode go, marked as earlier, to the head of the next message.
    """
    chat = []
    head = [scene.opening] if scene.opening else []
    for exchange in (*scene.past, scene.present):
        if exchange is not scene.present and exchange.answer is None:
            if exchange.lines:
                quoted = (f"> {line}" for line in exchange.text.split("\n"))
                head.append("\n".join((EARLIER, *quoted)))
            continue
        chat.append(Message("user", "\n\n".join((*head, exchange.text))))
        head = []
        if exchange.answer is not None:
            chat.append(Message("assistant", exchange.answer))
    return tuple(chat)


def choose_evidence(question: Question, strength: float, named: str) -> tuple[str, float]:
    """Choose the evidence for an answer: its text and stated reliability.

    Of the question's own evidence it is the nearest in strength, otherwise a generic check. False
    evidence looks the same and supports the lure.

    >>> from chimeralab.trial.scenarios.items import Question
    >>> choose_evidence(Question("q", "recall", "Where?", "Rome"), 0.9, "Oslo")[0]
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
