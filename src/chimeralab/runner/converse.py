"""Run conversations turn by turn, apply the rules for unusable replies, resume from the journal.

A speaker sees its own turns as assistant and all others as user.
"""

import asyncio
import time
import traceback
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from chimeralab.core.errors import ChimeraError, InputError
from chimeralab.core.records import Turn, plain_value
from chimeralab.core.text import redact, replace_surrogates
from chimeralab.models.seam import (
    Message,
    ModelFailure,
    Reply,
    Request,
    Role,
    drop_invalid_usage,
)
from chimeralab.runner.interventions import Ask, Mark, Trim, due, name_of, prepare, restore
from chimeralab.runner.journal import (
    Answer,
    AttemptFailed,
    Event,
    Intervention,
    RunContext,
    TalkEnded,
    TurnStored,
)
from chimeralab.runner.talk import Lapse, ProbeReplies, Talk, TurnRecord

# Conversations that start together stay in lockstep: all send, then all wait. Staggering the
# starts by the CPU time of one turn keeps them apart.
STAGGER = 0.005
MAX_WAIT = 60.0
# Failures that no retry fixes: the whole run stops.
FATAL = {"auth"}
# The events of a countermeasure: it acted, or its moment was only marked.
ACTS = ("intervention", "mark")


class Ending(NamedTuple):
    """Why a conversation has no further turn. The next run resumes a `paused` one."""

    outcome: str
    reason: str | None = None


async def converse(talk: Talk, run: RunContext) -> Ending:
    """Run one conversation from where the journal says it stands."""
    history = list(run.journal.history(talk.id))
    monitor = Monitor(talk, run)
    examiner = talk.script.examine(talk, run) if talk.script else PlainExaminer(talk, run)
    await monitor.catch_up(history)
    ending = await examiner.look_back(monitor.next_ask(len(history)), history)
    while ending is None and (ending := _check_end(talk, history, monitor, run)) is None:
        result = await examiner.ask(monitor.next_ask(len(history) + 1), history)
        if isinstance(result, Ending):
            ending = result
            break
        turn, answer = result
        history.append(turn)
        await monitor.observe(turn)
        tokens = answer.reply.completion_tokens if answer.reply else None
        run.publish(
            TurnStored(
                talk.id,
                turn.turn,
                turn.model,
                tokens,
                answer.cost,
                answer.seconds,
                monitor.collapsed,
            )
        )
        ending = await examiner.look_back(monitor.next_ask(len(history)), history)
    if ending.outcome != "paused":
        run.journal.finish(talk.id, ending.outcome, ending.reason)
        await run.journal.flush()
    for model in {speaker.model for speaker in talk.speakers}:
        if leave := getattr(run.models[model], "leave", None):
            await leave(talk.id)
    run.publish(TalkEnded(talk.id, ending.outcome, len(history), ending.reason))
    return ending


async def converse_all(talks: Iterable[Talk], run: RunContext, concurrency: int) -> None:
    """Run many conversations in the given order, at most `concurrency` at once."""
    waiting = deque(talks)

    async def run_next() -> None:
        while waiting and run.brake.reason is None:
            await converse(waiting.popleft(), run)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(waiting))):
                group.create_task(run_next())
                await asyncio.sleep(STAGGER)
    except BaseExceptionGroup as several:
        # The first is the cause; the others were cancelled because of it.
        raise several.exceptions[0] from None


def _check_end(
    talk: Talk, history: Sequence[TurnRecord], monitor: "Monitor", run: RunContext
) -> Ending | None:
    if talk.rules.stop_early and monitor.collapsed:
        return Ending("collapsed", f"stop_early: the detector fired at turn {len(history)}")
    if len(history) >= talk.rules.turns:
        return Ending("completed")
    if run.brake.reason is not None:
        return Ending("paused", run.brake.reason)
    return None


class Monitor:
    """Judges one conversation, intervenes as planned, and shapes the next question.

    `collapsed` is the verdict on the last turn. Past interventions are read from the journal, not
    recomputed: a detector that differs in the last bit after a restart must not rewrite the past.
    """

    def __init__(self, talk: Talk, run: RunContext) -> None:
        self._talk = talk
        self._run = run
        self._judge = run.watch() if run.watch else None
        self.collapsed: bool | None = None
        self._streak = 0
        self._texts: list[str] = []

    async def catch_up(self, history: Sequence[TurnRecord]) -> None:
        """Process the turns that an earlier run stored."""
        for turn in history[:-1]:
            await self._judge_turn(turn)
        if history:
            await self.observe(history[-1])

    async def observe(self, turn: TurnRecord) -> None:
        """Judge a new turn, and intervene if that is due."""
        await self._judge_turn(turn)
        countermeasure, schedule = self._talk.countermeasure, self._talk.schedule
        if countermeasure is None:
            return
        events = self._run.journal.events(self._talk.id)
        earlier = [event.turn for event in events if event.kind in ACTS]
        if schedule is None:
            if not (self.collapsed and due(countermeasure, turn.turn, earlier)):
                return
        elif turn.turn >= self._talk.rules.turns or not schedule.is_due(
            turn.turn, self._streak, earlier
        ):
            return
        warning = getattr(self._judge, "warning", None)
        acting = prepare(countermeasure, self._texts, warning and warning.advice)
        detail = {"use": name_of(countermeasure), **plain_value(acting)}
        if schedule:
            detail |= {"arm": schedule.arm}
        event = Event(turn.turn, "mark" if detail["use"] == Mark.name else "intervention", detail)
        self._run.journal.add_event(self._talk.id, event)
        self._run.publish(Intervention(self._talk.id, event))

    def next_ask(self, turn: int) -> Ask:
        """How to ask for a turn, given the interventions so far."""
        slot = self._talk.slot(turn)
        speaker = self._talk.speakers[slot]
        ask = Ask(turn, slot, len(self._talk.speakers), speaker.model, speaker.sampling)
        # A script decides itself what is shown; its events don't change the question.
        events = () if self._talk.script else self._run.journal.events(self._talk.id)
        for event in events:
            if event.kind == "overflow_trim":
                ask = Trim(event.detail["keep"]).change(ask, event.turn - 1)
            elif event.kind == "intervention" and self._talk.countermeasure:
                ask = restore(self._talk.countermeasure, event.detail).change(ask, event.turn)
        return ask

    async def _judge_turn(self, turn: TurnRecord) -> None:
        self._texts.append(turn.text)
        if self._judge is not None:
            self.collapsed = await self._run.judge(
                self._judge, Turn(turn.text, turn.speaker, model=turn.model)
            )
            self._streak = self._streak + 1 if self.collapsed else 0


class PlainExaminer:
    """Asks for one turn after another, with nothing in between."""

    def __init__(self, talk: Talk, run: RunContext) -> None:
        self._talk = talk
        self._run = run

    async def ask(
        self, ask: Ask, history: Sequence[TurnRecord]
    ) -> tuple[TurnRecord, Answer] | Ending:
        return await ask_turn(self._talk, ask, history, self._run)

    async def look_back(self, ask: Ask, history: Sequence[TurnRecord]) -> Ending | None:
        return None


async def ask_turn(
    talk: Talk, ask: Ask, history: Sequence[TurnRecord], run: RunContext
) -> tuple[TurnRecord, Answer] | Ending:
    """Ask until a turn is stored or the rules end the conversation."""
    lapses = Counter(run.journal.count_rejections(talk.id, ask.turn, ask.probe or ""))
    while run.brake.reason is None:
        result, answer = await _attempt(talk, ask, history, run, lapses)
        if isinstance(result, TurnRecord):
            return result, answer
        lapses[result] += 1
        kind, reason = answer.outcome, answer.reason or answer.outcome
        run.publish(AttemptFailed(talk.id, ask.turn, ask.model, kind, reason))
        rule = talk.rule(result)
        if kind in FATAL:
            run.brake.stop(reason)
        elif kind == "lost":
            return Ending("failed", f"{kind}: {reason}")
        elif lapses[result] <= rule.retries:
            if result == "failure":
                wait = run.retry_wait * 2.0 ** (lapses["failure"] - 1)
                await run.brake.wait(min(wait, MAX_WAIT))
        elif rule.keep and ask.first_shown <= ask.turn - 1 - rule.keep:
            event = Event(ask.turn, "overflow_trim", {"keep": rule.keep})
            run.journal.add_event(talk.id, event)
            run.publish(Intervention(talk.id, event))
            ask = Trim(rule.keep).change(ask, ask.turn - 1)
        elif rule.then == "pause":
            run.brake.note_pause(f"{kind}: {reason}")
            return Ending("paused", f"{kind}: {reason}")
        else:
            return Ending("failed" if result == "failure" else result, f"{kind}: {reason}")
    return Ending("paused", run.brake.reason)


async def _attempt(
    talk: Talk, ask: Ask, history: Sequence[TurnRecord], run: RunContext, lapses: Counter[str]
) -> tuple[TurnRecord | Lapse, Answer]:
    """Ask once: the stored turn, or why there is none."""
    probe = ask.probe or ""
    draw = lapses["empty"] + lapses["refusal"] + lapses["unreadable"]
    request = replace(
        build_request(talk, ask, history, lambda turn: run.journal.probe_replies(talk.id, turn)),
        sampling=ask.sampling,
        seed=talk.seed_for(ask.turn, draw, probe),
        conversation=talk.id,
        turn=ask.turn,
        probe=probe,
    )
    estimate = run.cost_of_failure(ask.model, request, Reply(""))
    attempt = run.journal.open_attempt(ask.model, request, estimate)
    await run.journal.flush()
    # A tested model must learn neither the condition nor the solution.
    if talk.script and not getattr(run.models[ask.model], "backstage", False):
        request = request.blind(talk.session)
    answer = await _answer(ask.model, request, run, attempt)
    if answer.reply is not None or answer.cost is not None:
        run.brake.spend(answer.cost)
    lapse = _classify(talk, ask, answer)
    if lapse and not _is_recorded(talk, ask, lapse, lapses):
        outcome = answer.outcome if answer.reply is None else lapse
        given = None if lapse == "unreadable" else answer.reason
        answer = answer._replace(outcome=outcome, reason=given or _REASONS.get(lapse, outcome))
        run.journal.close_attempt(attempt, answer)
        return lapse, answer
    text, finish = (answer.reply.text, answer.reply.finish) if answer.reply else ("", "other")
    turn = TurnRecord(ask.turn, talk.speakers[ask.slot].name, ask.model, text, finish)
    if ask.probe:
        run.journal.add_probe(attempt, talk.id, ask.probe, turn, answer)
    else:
        run.journal.add_turn(attempt, talk, turn, answer)
    await run.journal.flush()
    run.brake.note_progress()
    return turn, answer


async def _answer(model: str, request: Request, run: RunContext, attempt: int) -> Answer:
    """Ask a model. A refusal without any text counts as an empty reply, not as a failure."""
    started = time.perf_counter()
    reply, outcome, reason = None, "answered", None
    billed: Reply | None = None
    try:
        reply = _sanitise(await run.models[model].reply(request))
        reason = reply.note
        run.on_identity(model, reply.identity)
    except ModelFailure as failure:
        outcome, reason = failure.kind, redact(str(failure))
        billed = failure.billed and drop_invalid_usage(failure.billed)
        if failure.kind == "refused":
            reply, outcome = Reply("", "refusal", cost=0.0), "answered"
    except (Exception, asyncio.CancelledError) as broken:
        kind = "cancelled" if isinstance(broken, asyncio.CancelledError) else "crashed"
        seconds = time.perf_counter() - started
        answer = Answer(kind, redact(repr(broken)), None, None, seconds)
        run.journal.close_attempt(attempt, answer)
        if isinstance(broken, ChimeraError | asyncio.CancelledError):
            raise
        raise wrap_error(f"[models.{model}]", broken) from broken
    cost = run.cost(model, reply) if reply else None
    if reply is None and billed is not None:
        cost = run.cost_of_failure(model, request, billed)
    return Answer(outcome, reason, reply, cost, time.perf_counter() - started, billed)


def wrap_error(place: str, error: Exception) -> InputError:
    """Name the model, the error and the line where a model's own code failed."""
    frames = traceback.extract_tb(error.__traceback__)
    line = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return InputError(
        f"{place} failed with {redact(repr(error))}{line}; fix its code, or "
        "raise a ModelFailure there if a retry may help"
    )


def _sanitise(reply: Reply) -> Reply:
    """Drop impossible counts and lone surrogates, which can't be stored or sent on."""
    if not isinstance(reply, Reply):
        raise TypeError(f"reply() returned a {type(reply).__name__}, not a Reply")
    reply = drop_invalid_usage(reply)
    return replace(reply, text=replace_surrogates(reply.text))


_REASONS: dict[Lapse, str] = {
    "empty": "the reply was empty",
    "refusal": "the model refused to answer",
    "unreadable": "the reply names none of the options, or several",
}


def _classify(talk: Talk, ask: Ask, answer: Answer) -> Lapse | None:
    """Why an answer can't become a turn; None if it can."""
    reply = answer.reply
    if reply is None:
        return "overflow" if answer.outcome == "overflow" else "failure"
    if reply.finish == "refusal":
        return "refusal"
    if not reply.text.strip():
        return "empty"
    if talk.script is None or ask.probe or talk.script.is_readable(ask.turn, reply.text):
        return None
    return "unreadable"


def _is_recorded(talk: Talk, ask: Ask, lapse: Lapse, lapses: Counter[str]) -> bool:
    """Whether an unusable reply is stored as it is.

    A probe must not change the conversation, so one without a reply is stored as unread and ends
    nothing. A failing model is different: it would not answer the next question either.
    """
    rule = talk.rule(lapse)
    stored = rule.then == "record" or (ask.probe is not None and lapse != "failure")
    return stored and lapses[lapse] >= rule.retries


def build_request(
    talk: Talk,
    ask: Ask,
    history: Sequence[TurnRecord],
    probe_replies: ProbeReplies = lambda turn: {},
) -> Request:
    """Build the messages of one question, from the conversation so far or from the script."""
    if talk.script is None:
        return Request(visible_messages(talk, ask, history))
    texts = [turn.text for turn in history]
    request: Request = talk.script.build_request(
        system_message(talk, ask), ask, texts, probe_replies
    )
    return request


def visible_messages(talk: Talk, ask: Ask, history: Sequence[TurnRecord]) -> tuple[Message, ...]:
    """The messages that the next speaker sees.

    Consecutive lines of one role are merged: strict chat templates reject two in a row.
    """
    merged = (
        Message(role, "\n\n".join(text for _, text in lines))
        for role, lines in groupby(_lines(talk, ask, history), key=lambda line: line[0])
    )
    return (*system_message(talk, ask), *merged)


def system_message(talk: Talk, ask: Ask) -> tuple[Message, ...]:
    system = "\n\n".join(filter(None, (talk.speakers[ask.slot].system, ask.told)))
    return (Message("system", system),) if system else ()


def _lines(talk: Talk, ask: Ask, history: Sequence[TurnRecord]) -> Iterator[tuple[Role, str]]:
    sees_seed = talk.rules.seed_visible == "all" or ask.slot == 0
    if sees_seed:
        yield ("user", talk.prompt.text)
    first = ask.first_shown
    # Strict chat templates want the first message from the user, so a trimmed history that would
    # open with the speaker's own turn keeps one more turn.
    if first > 1 and not sees_seed and talk.slot(first) == ask.slot:
        first -= 1
    lines: list[tuple[Role, str]] = []
    for turn in history[first - 1 :]:
        role: Role = "assistant" if talk.slot(turn.turn) == ask.slot else "user"
        lines += [(role, turn.text)] if turn.turn not in ask.hidden else []
        lines += [(role, line) for after, line in ask.said if after == turn.turn]
        lines += [("user", hint) for after, hint in ask.hints if after == turn.turn]
    # Without hidden turns, the last line is another speaker's: somebody has to be answered.
    while lines and lines[-1][0] == "assistant":
        lines.pop()
    yield from lines or ([("user", history[-1].text)] if history and not sees_seed else ())
