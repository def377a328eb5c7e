"""The rules of other guards, written again from what their documentation says of them.

They stop where ours nudges first; what they ask a model about is left out.
"""

import json
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from chimeralab import Trajectory
from chimeralab.core.records import role_of_turn
from chimeralab.detection.calls import has_failed

Alarm = tuple[str, str, int]
"""What a rule does, which rule it is, and at which message."""


class Event(NamedTuple):
    """A call with its result, a message of the agent (no name), or one of the user ("user")."""

    position: int
    name: str
    arguments: str
    result: str
    failed: bool

    @property
    def call(self) -> tuple[str, str]:
        return self.name, self.arguments


def events(talk: Trajectory) -> Iterator[Event]:
    for position, turn in enumerate(talk.turns, start=1):
        role = role_of_turn(turn)
        if role == "user" and turn.spoken:
            yield Event(position, "user", "", turn.text, failed=False)
        elif turn.spoken and turn.text.strip() and not turn.calls and role != "system":
            yield Event(position, "", "", turn.text, failed=False)
        for n, call in enumerate(turn.calls):
            # Arguments that a log lacks are new in each call, as for our guard.
            known = f"unknown {position}.{n}" if call.arguments is None else call.arguments
            given = json.dumps(known, sort_keys=True, default=str)
            yield Event(position, call.name, given, call.result or "", has_failed(call))


def first_alarm(talk: Trajectory, judge: Callable[[Sequence[Event]], str]) -> list[Alarm]:
    """Stop at the first event after which a rule says so, by what happened since the user."""
    since = list[Event]()
    for event in events(talk):
        since = [] if event.name == "user" else [*since, event]
        if rule := judge(since):
            return [("stop", rule, event.position)]
    return []


def alternate(listed: Sequence[Any], rounds: int) -> bool:
    last = listed[-2 * rounds :]
    return len(last) == 2 * rounds and last[0] != last[1] and last == list(last[:2]) * rounds


def openhands(talk: Trajectory) -> list[Alarm]:
    """Stuck detector of OpenHands' SDK, by its default thresholds.

    One action with one observation four times in a row, one action with an error three times, three
    messages of the agent in a row, or two pairs in turn for six.
    """

    def judge(since: Sequence[Event]) -> str:
        pairs = [(*each.call, each.result) for each in since]
        if len(since) >= 4 and since[-1].name and len(set(pairs[-4:])) == 1:
            return "same observation"
        last = since[-3:]
        if consecutive(last, 3) and all(each.failed for each in last):
            return "same error"
        if len(last) == 3 and not any(each.name for each in last):
            return "monologue"
        return "alternating" if since and since[-1].name and alternate(pairs, 3) else ""

    return first_alarm(talk, judge)


CHUNK, CHANTS, HISTORY = 50, 10, 1000


def chants(texts: Iterable[str]) -> bool:
    """Whether 50 characters come ten times, on average not farther apart than 75 characters."""
    for text in texts:
        places: dict[str, list[int]] = {}
        plain = re.sub(r"```.*?(?:```|\Z)", "", text, flags=re.DOTALL)
        for at in range(len(plain) - CHUNK + 1):
            seen = places.setdefault(plain[at : at + CHUNK], [])
            seen.append(at)
            last = seen[-CHANTS:]
            if len(last) == CHANTS and (last[-1] - last[0]) / (CHANTS - 1) <= 1.5 * CHUNK:
                return True
    return False


def consecutive(since: Sequence[Event], times: int) -> bool:
    last = since[-times:]
    return len(last) == times and bool(last[0].name) and len({each.call for each in last}) == 1


def gemini_cli(talk: Trajectory) -> list[Alarm]:
    """Gemini CLI: one call five times in a row, or chanting; its check by a model is left out."""

    def judge(since: Sequence[Event]) -> str:
        if consecutive([each for each in since if each.name], 5) and since[-1].name:
            return "identical calls"
        return "chanting" if since and not since[-1].name and chants([since[-1].result]) else ""

    return first_alarm(talk, judge)


READS = re.compile(r"read|list|glob|grep|search|find|view|ls\b|cat\b", re.IGNORECASE)
SHELLS = re.compile(r"bash|shell|terminal|execute|run_command", re.IGNORECASE)


def qwen_code(talk: Trajectory) -> list[Alarm]:
    """Qwen Code with all heuristics on (`skipLoopDetection: false`)."""

    def judge(since: Sequence[Event]) -> str:
        calls = [each for each in since if each.name]
        if not since or not since[-1].name:
            return "chanting" if since and chants([since[-1].result]) else ""
        names = [each.name for each in calls]
        reads = [bool(READS.search(name)) for name in names]
        rules = {
            "identical calls": consecutive(calls, 5),
            "duplicate in the turn": Counter(each.call for each in calls)[calls[-1].call] >= 6,
            "alternating": alternate([each.call for each in calls], 3),
            "reading": not all(reads) and reads[-1] and sum(reads[-15:]) >= 8,
            "stagnation": len(names) >= 8
            and len(set(names[-8:])) == 1
            and not (reads[-1] or SHELLS.search(names[-1])),
        }
        return next((rule for rule, found in rules.items() if found), "")

    return first_alarm(talk, judge)


def qwen_code_default(talk: Trajectory) -> list[Alarm]:
    """Qwen Code as it comes: only identical calls in a row are always on."""

    def judge(since: Sequence[Event]) -> str:
        calls = [each for each in since if each.name]
        return "identical calls" if consecutive(calls, 5) and since[-1].name else ""

    return first_alarm(talk, judge)


POLLS = re.compile(r"process\.?poll|command_status|process\.?log|\bpoll\b", re.IGNORECASE)


def openclaw(talk: Trajectory) -> list[Alarm]:
    """OpenClaw's loop detection, turned on, by its defaults: 10 warn, 20 block, 30 break."""
    history: deque[Event] = deque(maxlen=30)
    found = list[Alarm]()
    for event in events(talk):
        if event.name in ("", "user"):
            continue
        history.append(event)
        same = sum(each.call == event.call for each in history)
        unchanged = sum((each.call, each.result) == (event.call, event.result) for each in history)
        polls = bool(POLLS.search(event.name))
        in_turn = 0
        last = list(history)
        while in_turn + 2 < len(last) and (
            (last[-1 - in_turn].call, last[-1 - in_turn].result)
            == (last[-3 - in_turn].call, last[-3 - in_turn].result)
        ):
            in_turn += 1
        in_turn = in_turn + 2 if in_turn and last[-1].call != last[-2].call else 0
        if unchanged >= 30 or (polls and unchanged >= 20) or in_turn >= 20:
            return [*found, ("stop", "no progress", event.position)]
        if not found and ((not polls and same >= 10) or (polls and unchanged >= 10)):
            found.append(("nudge", "repeat", event.position))
        elif not found and in_turn >= 10:
            found.append(("nudge", "ping-pong", event.position))
    return found


PEERS: dict[str, Callable[[Trajectory], list[Alarm]]] = {
    "OpenHands": openhands,
    "gemini-cli": gemini_cli,
    "qwen-code": qwen_code,
    "qwen-code (as it comes)": qwen_code_default,
    "OpenClaw": openclaw,
}
