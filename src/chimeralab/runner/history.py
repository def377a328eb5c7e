"""The conversation as one speaker sees it: its own turns as assistant, all others as user."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from chimeralab.models.seam import Message, Role
from chimeralab.runner.interventions import Ask
from chimeralab.runner.talk import Probed, Put, Said, Talk


class _Line(NamedTuple):
    role: Role
    text: str


def put(talk: Talk, ask: Ask, said: Sequence[Said], probed: Probed = lambda turn: {}) -> Put:
    """One question, from the conversation so far or as the script has it.

    `probed` gives the replies to the probes of an earlier turn.
    """
    if talk.script is None:
        return Put(view(talk, ask, said))
    asked: Put = talk.script.put(
        system_message(talk, ask), ask, [turn.text for turn in said], probed
    )
    return asked


def view(talk: Talk, ask: Ask, said: Sequence[Said]) -> tuple[Message, ...]:
    """The messages for one question.

    Lines of one role in a row become one message: strict chat templates refuse two.
    """
    merged = (
        Message(role, "\n\n".join(line.text for line in lines))
        for role, lines in groupby(_lines(talk, ask, said), key=lambda line: line.role)
    )
    return (*system_message(talk, ask), *merged)


def system_message(talk: Talk, ask: Ask) -> tuple[Message, ...]:
    system = talk.speakers[ask.slot].system
    return (Message("system", system),) if system else ()


def _lines(talk: Talk, ask: Ask, said: Sequence[Said]) -> Iterator[_Line]:
    if _sees_seed(talk, ask.slot):
        yield _Line("user", talk.prompt.text)
    for turn in said[_first_shown(talk, ask) - 1 :]:
        yield _Line("assistant" if talk.slot(turn.turn) == ask.slot else "user", turn.text)
        yield from (_Line("user", hint.text) for hint in ask.hints if hint.after == turn.turn)


def _first_shown(talk: Talk, ask: Ask) -> int:
    """A shortened history that would open with the speaker's own turn keeps one turn more.

    Strict chat templates want the first message from the user.
    """
    opens_with_own = talk.slot(ask.first_shown) == ask.slot and not _sees_seed(talk, ask.slot)
    return ask.first_shown - 1 if opens_with_own and ask.first_shown > 1 else ask.first_shown


def _sees_seed(talk: Talk, slot: int) -> bool:
    return talk.rules.seed_visible == "all" or slot == 0
