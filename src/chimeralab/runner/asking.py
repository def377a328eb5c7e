"""Getting one turn: ask, and deal with every lapse as the rules say, until a turn or an end.

A speaker sees its own turns as assistant and all others as user.
"""

import asyncio
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from chimeralab.core.errors import ChimeraError, InputError
from chimeralab.core.text import redact, replace_surrogates
from chimeralab.models.seam import Message, ModelFailure, Reply, Request, Role, with_sound_usage
from chimeralab.runner.interventions import Ask, Trim
from chimeralab.runner.journal import Answer, AttemptFailed, Event, Intervened, Room
from chimeralab.runner.talk import Lapse, Probed, Put, Said, Talk


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
        Message(role, "\n\n".join(text for _, text in lines))
        for role, lines in groupby(_lines(talk, ask, said), key=lambda line: line[0])
    )
    return (*system_message(talk, ask), *merged)


def system_message(talk: Talk, ask: Ask) -> tuple[Message, ...]:
    system = talk.speakers[ask.slot].system
    return (Message("system", system),) if system else ()


def _lines(talk: Talk, ask: Ask, said: Sequence[Said]) -> Iterator[tuple[Role, str]]:
    if _sees_seed(talk, ask.slot):
        yield ("user", talk.prompt.text)
    for turn in said[_first_shown(talk, ask) - 1 :]:
        yield ("assistant" if talk.slot(turn.turn) == ask.slot else "user", turn.text)
        yield from (("user", hint) for after, hint in ask.hints if after == turn.turn)


def _first_shown(talk: Talk, ask: Ask) -> int:
    """A shortened history that would open with the speaker's own turn keeps one turn more.

    Strict chat templates want the first message from the user.
    """
    opens_with_own = talk.slot(ask.first_shown) == ask.slot and not _sees_seed(talk, ask.slot)
    return ask.first_shown - 1 if opens_with_own and ask.first_shown > 1 else ask.first_shown


def _sees_seed(talk: Talk, slot: int) -> bool:
    return talk.rules.seed_visible == "all" or slot == 0


LONGEST_WAIT = 60.0
# Failures that no repetition fixes: the whole run stops.
HOPELESS = {"auth"}


class Ended(NamedTuple):
    """Why there is no further turn. A `paused` conversation is taken up by the next run."""

    outcome: str
    reason: str | None = None


class Stored(NamedTuple):
    """A turn, or the reply to a probe, that is safe in the journal, and how it was got."""

    said: Said
    answer: Answer


class _Lapsed(NamedTuple):
    lapse: Lapse
    kind: str
    reason: str


async def ask_turn(talk: Talk, ask: Ask, said: Sequence[Said], room: Room) -> Stored | Ended:
    """Ask until there is a turn, or until the rules say that there is none."""
    lapses = Counter(room.journal.turned_down(talk.id, ask.turn, ask.probe or ""))
    while room.brake.reason is None:
        result = await _attempt(talk, ask, said, room, lapses)
        if isinstance(result, Stored):
            return result
        lapses[result.lapse] += 1
        room.publish(AttemptFailed(talk.id, ask.turn, ask.model, result.kind, result.reason))
        rule = talk.rule(result.lapse)
        if result.kind in HOPELESS:
            room.brake.pull(result.reason)
        elif result.kind == "lost":
            return Ended("failed", f"{result.kind}: {result.reason}")
        elif lapses[result.lapse] <= rule.retries:
            if result.lapse == "failure":
                wait = room.retry_wait * 2.0 ** (lapses["failure"] - 1)
                await room.brake.wait(min(wait, LONGEST_WAIT))
        elif rule.keep and ask.first_shown <= ask.turn - 1 - rule.keep:
            event = Event(ask.turn, "overflow_trim", {"keep": rule.keep})
            room.journal.add_event(talk.id, event)
            room.publish(Intervened(talk.id, event))
            ask = Trim(rule.keep).change(ask, ask.turn - 1)
        else:
            return _end(rule.then, result, room)
    return Ended("paused", room.brake.reason)


async def _attempt(
    talk: Talk, ask: Ask, said: Sequence[Said], room: Room, lapses: Counter[str]
) -> Stored | _Lapsed:
    draw = lapses["empty"] + lapses["refusal"] + lapses["unreadable"]
    asked = put(talk, ask, said, lambda turn: room.journal.probed(talk.id, turn))
    probe = ask.probe or ""
    seed = talk.seed_for(ask.turn, draw, probe)
    request = Request(asked.messages, ask.sampling, seed, talk.id, ask.turn, probe, *asked[1:])
    attempt = room.journal.open_attempt(ask.model, request)
    await room.journal.settled()
    # Whoever is tested must not be told under which name, with which solution.
    if talk.script and not getattr(room.models[ask.model], "backstage", False):
        request = request.blind(talk.session)
    answer = await _answer(ask.model, request, room, attempt)
    if answer.reply is not None:
        room.brake.spend(answer.cost)
    lapsed = _lapsed(answer) or _unread(talk, ask, answer)
    if lapsed and not _is_recorded(talk, ask, lapsed.lapse, lapses):
        closed = answer._replace(outcome=lapsed.kind, reason=lapsed.reason)
        room.journal.close_attempt(attempt, closed)
        return lapsed
    text, finish = (answer.reply.text, answer.reply.finish) if answer.reply else ("", "other")
    turn = Said(ask.turn, talk.speakers[ask.slot].name, ask.model, text, finish)
    if ask.probe:
        room.journal.add_probe(attempt, talk.id, ask.probe, turn, answer)
    else:
        room.journal.add_turn(attempt, talk, turn, answer)
    await room.journal.settled()
    room.brake.move()
    return Stored(turn, answer)


async def _answer(model: str, request: Request, room: Room, attempt: int) -> Answer:
    """The reply, or the failure by its name. A refusal without any text is an empty reply."""
    started = time.perf_counter()
    reply, outcome, reason = None, "answered", None
    try:
        reply = _storable(await room.models[model].reply(request))
        reason = reply.note
    except ModelFailure as failure:
        outcome, reason = failure.kind, redact(str(failure))
        if failure.kind == "refused":
            reply, outcome = Reply("", "refusal", cost=0.0), "answered"
    except (Exception, asyncio.CancelledError) as broken:
        kind = "cancelled" if isinstance(broken, asyncio.CancelledError) else "crashed"
        seconds = time.perf_counter() - started
        answer = Answer(kind, redact(repr(broken)), None, None, seconds)
        room.journal.close_attempt(attempt, answer)
        if isinstance(broken, ChimeraError | asyncio.CancelledError):
            raise
        raise breakdown(f"[models.{model}]", broken) from broken
    cost = room.cost(model, reply) if reply else None
    return Answer(outcome, reason, reply, cost, time.perf_counter() - started)


def breakdown(place: str, error: Exception) -> InputError:
    """The error to raise instead of whatever a model's own code let through: which, how, where."""
    frames = traceback.extract_tb(error.__traceback__)
    line = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return InputError(
        f"{place} failed with {redact(repr(error))}{line}; fix its code, or "
        "raise a ModelFailure there where another attempt may help"
    )


def _storable(reply: Reply) -> Reply:
    """A reply whose counts fit, without half characters, which can't be stored or sent on."""
    if not isinstance(reply, Reply):
        raise TypeError(f"reply() gave a {type(reply).__name__}, not a Reply")
    reply = with_sound_usage(reply)
    return replace(reply, text=replace_surrogates(reply.text))


_REASONS: dict[Lapse, str] = {
    "empty": "the reply was empty",
    "refusal": "the model refused to answer",
}


def _lapsed(answer: Answer) -> _Lapsed | None:
    reply = answer.reply
    if reply is None:
        lapse: Lapse = "overflow" if answer.outcome == "overflow" else "failure"
        return _Lapsed(lapse, answer.outcome, answer.reason or answer.outcome)
    if reply.finish != "refusal" and reply.text.strip():
        return None
    lapse = "refusal" if reply.finish == "refusal" else "empty"
    return _Lapsed(lapse, lapse, answer.reason or _REASONS[lapse])


def _unread(talk: Talk, ask: Ask, answer: Answer) -> _Lapsed | None:
    """A reply in a session that names none of its options."""
    if talk.script is None or ask.probe or answer.reply is None:
        return None
    if talk.script.is_readable(ask.turn, answer.reply.text):
        return None
    return _Lapsed("unreadable", "unreadable", "the reply names none of the options, or several")


def _is_recorded(talk: Talk, ask: Ask, lapse: Lapse, lapses: Counter[str]) -> bool:
    """Measuring must change nothing: a probe without a reply is kept as unread, and ends nothing.

    A model that fails is another matter, since it would not answer the next question either.
    """
    rule = talk.rule(lapse)
    kept = rule.then == "record" or (ask.probe is not None and lapse != "failure")
    return kept and lapses[lapse] >= rule.retries


def _end(then: str, result: _Lapsed, room: Room) -> Ended:
    reason = f"{result.kind}: {result.reason}"
    if then == "pause":
        room.brake.stumble(reason)
        return Ended("paused", reason)
    return Ended("failed" if result.lapse == "failure" else result.lapse, reason)
