"""What says that a conversation loops: our detector, with or without a term, and peers' rules."""

import math
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

from benchmarks.validity.loop_logs import Log
from chimeralab import LOCKED, LOOPS, Detection, Trajectory, detect
from chimeralab.detection import calls, evidence, words
from chimeralab.detection.loops import LoopStream

WINDOW = 32
NEVER = 2.0  # an overlap that no two messages have


class Alarm(NamedTuple):
    """That somebody says it loops: since when, said at which message, up to which."""

    level: str
    kind: str
    stream: str
    began: int | None
    noticed: int
    ended: int | None


class Judged(NamedTuple):
    """What a rule says of one conversation."""

    alarms: tuple[Alarm, ...]
    score: float

    def on(self, log: Log, *, notices: bool = False) -> Alarm | None:
        """The first alarm about the stretch that is stuck; in a healthy log, the first alarm."""
        for alarm in self.alarms:
            if alarm.level == "verdict" or notices:
                overlaps = not log.spans or (
                    (alarm.began or alarm.noticed) <= max(last for _, last in log.spans)
                    and (alarm.ended or math.inf) >= min(first for first, _ in log.spans)
                )
                if overlaps:
                    return alarm
        return None


Rule = Callable[[Trajectory], Judged]


def by_loops(talk: Trajectory) -> Judged:
    stream = LoopStream(LOOPS)
    for turn in talk.turns:
        stream.update(turn)
    found = [
        Alarm(loop.level, loop.kind, loop.stream, loop.began, loop.noticed, loop.ended)
        for loop in stream.loops
    ]
    return Judged(tuple(found), stream.score)


def exact_text(talk: Trajectory) -> Judged:
    """The same text for the third time in the last 32 messages."""
    window: deque[str] = deque(maxlen=WINDOW)
    places = []
    for position, turn in enumerate(talk.turns, start=1):
        if turn.spoken and turn.text.strip():
            window.append(" ".join(turn.text.split()))
            places += [position] if window.count(window[-1]) >= 3 else []
    return _at(places, talk)


def word_jaccard(talk: Trajectory) -> Judged:
    """Words shared with one of the last three messages: 85 % or more, as lexical metrics count."""
    window: deque[frozenset[str]] = deque(maxlen=3)
    places = []
    for position, turn in enumerate(talk.turns, start=1):
        if turn.spoken and turn.text.strip():
            said = frozenset(words.tokenize(turn.text))
            if any(len(said & other) >= 0.85 * len(said | other) for other in window):
                places.append(position)
            window.append(said)
    return _at(places, talk)


def events_equal(talk: Trajectory) -> Judged:
    """The same message, or call with its result, four times in a row; or two in turn, six times."""
    events: deque[object] = deque(maxlen=6)
    places = []
    for position, turn in enumerate(talk.turns, start=1):
        said = [turn.text] if turn.spoken and turn.text.strip() else []
        for event in (*said, *((c.name, str(c.arguments), c.result) for c in turn.calls)):
            events.append(event)
            last = list(events)
            four = len(last) >= 4 and len(set(last[-4:])) == 1
            six = len(last) == 6 and len(set(last[::2])) == len(set(last[1::2])) == 1
            places += [position] if four or six else []
    return _at(places, talk)


def calls_in_a_row(talk: Trajectory) -> Judged:
    """The same call five times in a row, whatever it returns, or a piece of 50 characters ten times
    in one message."""
    last, run, places = None, 0, []
    for position, turn in enumerate(talk.turns, start=1):
        for call in turn.calls:
            key = call.name, str(call.arguments)
            run = run + 1 if key == last else 1
            last = key
            places += [position] if run >= 5 else []
        text = turn.text if turn.spoken else ""
        pieces = Counter(text[n : n + 50] for n in range(len(text) - 49))
        places += [position] if max(pieces.values(), default=0) >= 10 else []
    return _at(places, talk)


def longer_than(messages: int) -> Rule:
    """The length baseline: nothing but the number of messages that say or call something."""
    return partial(_by_length, messages)


def length_of(talk: Trajectory) -> int:
    return sum(turn.spoken or bool(turn.calls) for turn in talk.turns)


def _by_length(messages: int, talk: Trajectory) -> Judged:
    total = length_of(talk)
    alarm = Alarm("verdict", "length", "all", 1, messages, None)
    return Judged((alarm,) if total >= messages else (), total)


def locked(talk: Trajectory) -> Judged:
    found: Detection = detect(talk, detector=LOCKED, loops=None)
    alarms = (
        Alarm(
            "verdict",
            "locked",
            "all",
            None,
            found.positions[span.start - 1],
            found.positions[span.end - 1],
        )
        for span in found.episodes
    )
    return Judged(tuple(alarms), found.collapse_rate or 0.0)


def _at(places: list[int], talk: Trajectory) -> Judged:
    alarms = (Alarm("verdict", "rule", "all", None, place, place) for place in places)
    return Judged(tuple(alarms), len(places) / len(talk.turns))


PEERS: Mapping[str, Rule] = {
    "exact text three times": exact_text,
    "word Jaccard .85 (DeepEval-like)": word_jaccard,
    "events equal (OpenHands-like)": events_equal,
    "five calls or a chant (gemini-cli-like)": calls_in_a_row,
}


# Each term of the detector with what takes it out: settings, or functions that do nothing.
Change = tuple[Any, str, Any]
_NO_NEWS = property(lambda memory: False, lambda memory, value: None)


def _setting(**values: Any) -> tuple[Change, ...]:
    """Patches of the default settings; they are frozen, so the default object is replaced."""
    return ((sys.modules[__name__], "LOOPS", replace(LOOPS, **values)),)


TERMS: dict[str, Callable[[], tuple[Change, ...]]] = {
    "nothing": lambda: (),
    "twin": lambda: _setting(twin_low=NEVER, twin_high=NEVER + 1),
    "order": lambda: _setting(order_low=NEVER, order_high=NEVER + 1),
    "frame": lambda: _setting(frame=0.0),
    "courtesy": lambda: ((evidence, "score_courtesy", lambda *_: 0.0),),
    "within one message": lambda: ((evidence, "repetition_within", lambda _: 0.0),),
    "words (paraphrase)": lambda: _setting(words_low=NEVER, words_high=NEVER + 1),
    "fresh words refute": lambda: _setting(fresh_low=NEVER, fresh_high=NEVER + 1),
    "told apart": lambda: ((evidence.TextMemory, "_tells_apart", lambda *_: False),),
    "news in a brief message": lambda: ((evidence, "BRIEF_WORDS", 0),),
    "progress": lambda: ((evidence.TextMemory, "something_new", _NO_NEWS),),
    "boilerplate": lambda: (
        (evidence.TextMemory, "_strip_boilerplate", lambda memory, said, *_: said),
    ),
    "blocks": lambda: ((words, "mask_blocks", lambda text: text),),
    "own-speaker streams": lambda: _setting(own_words=1_000_000),
    "own words": lambda: _setting(own_words=1),
    "short answers": lambda: _setting(reply=1.0),
    "short weight": lambda: _setting(short_weight=1.0),
    "cap": lambda: _setting(cap=1_000_000.0),
    "times and ids in results": lambda: ((calls, "mask_volatile", calls.normalize),),
}


def without(term: str, logs: Iterable[Log]) -> list[Judged]:
    """What the detector says of the logs without one of its terms."""
    with ExitStack() as changes:
        for place, name, value in TERMS[term]():
            changes.enter_context(patch.object(place, name, value, create=True))
        return [by_loops(log.talk) for log in logs]
