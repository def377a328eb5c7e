"""The conversation as one speaker sees it: its own turns as assistant, all others as user."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from chimeralab.models.seam import Heard, Message, Role
from chimeralab.runner.interventions import Ask
from chimeralab.runner.talk import Said, Talk
from chimeralab.trial.script import Presented, Script


class _Line(NamedTuple):
    role: Role
    text: str


class Put(NamedTuple):
    """A question as it is put: its messages, and its solution where there is one.

    `heard` has every turn so far, for a subject that keeps its own memory; `options` are those that
    the reply is held to.
    """

    messages: tuple[Message, ...]
    key: Mapping[str, Any] | None = None
    heard: tuple[Heard, ...] = ()
    options: tuple[str, ...] = ()


Probed = Callable[[int], Mapping[str, str]]


def put(talk: Talk, ask: Ask, said: Sequence[Said], probed: Probed = lambda turn: {}) -> Put:
    """One question, from the conversation so far or as the script has it.

    `probed` gives the replies to the probes of an earlier turn.
    """
    if talk.script is None:
        return Put(view(talk, ask, said))
    answers = [turn.text for turn in said]
    if ask.probe is None:
        shown = talk.script.asked(ask.turn, answers, ask.probed)
    else:
        shown = talk.script.fork(ask.turn, answers, ask.probe, ask.probed)
    system = _system(talk, ask)
    heard = _heard(talk.script, ask, answers, probed, shown) if talk.script.own_memory else ()
    if heard and system:
        first = replace(heard[0], text=f"{system[0].content}\n\n{heard[0].text}")
        heard = (first, *heard[1:])
    return Put((*system, *shown.messages), shown.key, heard, shown.options)


def _heard(
    script: Script, ask: Ask, answers: Sequence[str], probed: Probed, shown: Presented
) -> tuple[Heard, ...]:
    """Every turn up to this one as it was heard; the last has an answer if it was given already."""
    present = script.hears(shown.scene, answers)
    past = [script.heard_at(turn, answers, probed(turn)) for turn in range(1, ask.turn)]
    said = answers[ask.turn - 1] if len(answers) >= ask.turn else None
    turns = (*past, present)
    return tuple(
        replace(each, answer=answer)
        for each, answer in zip(turns, (*answers[: ask.turn - 1], said), strict=True)
    )


def view(talk: Talk, ask: Ask, said: Sequence[Said]) -> tuple[Message, ...]:
    """The messages for one question.

    Lines of one role in a row become one message: strict chat templates refuse two.
    """
    merged = (
        Message(role, "\n\n".join(line.text for line in lines))
        for role, lines in groupby(_lines(talk, ask, said), key=lambda line: line.role)
    )
    return (*_system(talk, ask), *merged)


def _system(talk: Talk, ask: Ask) -> tuple[Message, ...]:
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
