"""Messages of a conversation for a page: what is new is marked, what repeats is grey or folded."""

import json
import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from itertools import pairwise, zip_longest
from textwrap import indent
from typing import Any, NamedTuple

from markupsafe import Markup

from chimeralab.core.records import (
    RESULT_ROLES,
    Call,
    Detection,
    Evidence,
    Loop,
    Trajectory,
    Turn,
    TurnTrace,
    role_of_turn,
)
from chimeralab.core.result_words import FACT, ResultWords
from chimeralab.core.text import neutralize
from chimeralab.detection.calls import has_failed
from chimeralab.detection.loops import LOOPS, Loops, is_in_stream, restore_echoes

# Longer conversations are shown in parts.
MAX_MESSAGES = 2_000
HEAD, TAIL = 100, 20
BEFORE_EDGE, AFTER_EDGE = 6, 10

# Longer texts are folded, and very long ones truncated, so that browsers can open the page.
FOLD_AT = 1_200
FOLD_LINES = 24
# Arguments and results of tools are folded earlier.
CALL_FOLD_AT = 400
CALL_FOLD_LINES = 6
MAX_CALLS = 20
MAX_CHARACTERS = 20_000
PAGE_CHARACTERS = 4_000_000
# Repeats are compared word by word up to this length, and shown so up to this many changes.
MAX_COMPARED = 2_400
MAX_CHANGES = 24
# Of a loop, this many rounds of repeats are shown; the others are folded, if there are enough.
ROUNDS = 2
MIN_FOLDED = 3
MAX_TEXTS = 3
EXCERPT = 280


Text = tuple[str, str, int]
"""Visible text, folded text, and the number of characters left out."""
ShownCall = tuple[str, Text | None, Text | None, bool]
"""Name, arguments and result of a tool call (None: not in the log), and whether it failed."""
LoopMark = tuple[list[Loop], list[int]]
"""The loops that contain a message (notices only without a verdict), and what it repeats."""


class ShownMessage(NamedTuple):
    """One message. `turn` is its number if the collapse detector judged it.

    `repeat` is the earlier turn that it repeats, their similarity, and the length of the run.
    `answers` are the messages whose calls produced this one, where its text is shown. A `result`
    belongs to a tool call that the page does not show. A `stale` message says nothing new.
    """

    position: int
    turn: int | None
    speaker: str | None
    model: str | None
    spoken: bool
    collapsed: bool
    repeat: tuple[int, float | None, int] | None
    text: Text
    loop: LoopMark | None = None
    calls: Sequence[ShownCall] = ()
    calls_left_out: int = 0
    result: bool = False
    answers: Sequence[int] = ()
    stale: bool = False


Item = ShownMessage | range | list[ShownMessage]
"""A message, the positions of those left out, or repeats that are folded together."""


class Transcript(NamedTuple):
    """Messages in order. `links` are the positions that can be linked to.

    Of a study, `window` is that of its rule, whose marks are then shown with each message. A
    server adds the `more` address where it shows those left out.
    """

    messages: Sequence[Item]
    kept_in: str
    words: ResultWords = FACT
    links: frozenset[int] = frozenset()
    window: int | None = None
    more: str | None = None


def list_messages(
    trajectory: Trajectory,
    detection: Detection,
    loops: Loops = LOOPS,
    shown: Sequence[int] | None = None,
) -> list[ShownMessage | range]:
    """List the messages in order; very long conversations leave out ranges."""
    turns = trajectory.turns
    shown = positions_shown(len(turns), detection) if shown is None else shown
    calls = sum(min(MAX_CALLS, len(turns[n - 1].calls)) for n in shown)
    limit = min(MAX_CHARACTERS, PAGE_CHARACTERS // max(1, len(shown) + 2 * calls))
    numbers = {position: turn for turn, position in enumerate(detection.positions, start=1)}
    traces = {trace.position: trace for trace in detection.trace or ()}
    evidence = {each.turn: each for each in detection.evidence}
    verdicts = [loop for loop in detection.loops if loop.level == "verdict"]  # else, notices
    marks, answers = loop_marks(turns, verdicts or detection.loops, loops), _answers(turns)
    items: list[ShownMessage | range] = []
    for before, position in pairwise((0, *shown, len(turns) + 1)):
        if position > before + 1:
            items.append(range(before + 1, position))
        if position > len(turns):
            break
        turn, trace = turns[position - 1], traces.get(position)
        result, mark = _is_result(turn), marks.get(position)
        original = turns[mark[1][0] - 1] if mark and mark[1] else None
        text = fold(turn.text, max(2 * FOLD_AT, limit), of_call=result)
        items.append(
            ShownMessage(
                position=position,
                turn=numbers.get(position),
                speaker=turn.speaker or turn.role,
                model=turn.model,
                spoken=turn.spoken,
                collapsed=trace.collapsed if trace else False,
                repeat=_repeat(trace, evidence.get(trace.turn)) if trace else None,
                text=_mark(text, original.text) if original else text,
                loop=mark,
                calls=[
                    _show_call(call, limit, before)
                    for call, before in zip_longest(
                        turn.calls[:MAX_CALLS],
                        (original.calls if original else ())[: len(turn.calls[:MAX_CALLS])],
                    )
                ],
                calls_left_out=max(0, len(turn.calls) - MAX_CALLS),
                result=result,
                answers=answers.get(position, ()),
                stale=original is not None and describe_turn(turn) == describe_turn(original),
            )
        )
    return items


def fold_repeats(items: Sequence[ShownMessage | range]) -> list[Item]:
    """Fold the messages of a loop after its first rounds, with the results shown at their calls."""
    found: list[Item] = []
    rounds: Counter[tuple[str, int]] = Counter()
    held: list[ShownMessage] = []

    def release() -> None:
        if sum(not message.answers for message in held) < MIN_FOLDED:
            found.extend(held)
        else:
            found.append(list(held))
        held.clear()

    for item in items:
        loop = item.loop if isinstance(item, ShownMessage) else None
        if isinstance(item, range) or not (loop or (held and item.answers)):
            release()
            found.append(item)
        elif loop is None:
            held.append(item)
        else:
            name = loop[0][0].stream, loop[0][0].began
            rounds[name] += bool(loop[1])
            repeats = loop[0][0].level == "verdict" and loop[1]
            if repeats and rounds[name] > ROUNDS * max(1, loop[0][0].period):
                held.append(item)
            else:
                release()
                found.append(item)
    release()
    return found


def positions_shown(
    messages: int, detection: Detection, limit: int = MAX_MESSAGES, at: int | None = None
) -> list[int]:
    """All positions or, if there are many, the head, the tail and around onsets and ends.

    A page that starts `at` a position has the next ones, up to the limit.
    """
    if at is not None:
        return list(range(min(at, messages), min(messages, at + limit - 1) + 1))
    if messages <= limit:
        return list(range(1, messages + 1))
    head, tail = min(HEAD, limit // 4), min(TAIL, limit // 8)
    shown = {*range(1, head + 1), *range(messages - tail + 1, messages + 1)}
    loops, where = detection.loops, detection.positions
    edges_of_loops = [(loop.began, loop.noticed, loop.ended or messages) for loop in loops]
    edges_of_collapse = [(where[e.start - 1], where[e.end - 1]) for e in detection.episodes]
    for edges in (*edges_of_loops, *edges_of_collapse):
        for at_edge in edges:
            first, last = max(1, at_edge - BEFORE_EDGE), min(messages, at_edge + AFTER_EDGE)
            shown.update(range(first, last + 1))
        if len(shown) >= limit:
            break
    return sorted(shown)


def loop_marks(
    turns: Sequence[Turn], found: Sequence[Loop], loops: Loops = LOOPS
) -> dict[int, LoopMark]:
    """Find the messages inside loops, by position, and what each repeats."""
    if not found:
        return {}
    found = restore_echoes(found, turns, loops)
    repeats = {loop: {at: earlier for at, *earlier in loop.echoes or ()} for loop in found}
    covering: defaultdict[int, list[Loop]] = defaultdict(list)
    for loop in found:
        for position in range(loop.began, min(loop.ended or len(turns), len(turns)) + 1):
            if is_in_stream(turns[position - 1], loop.stream):
                covering[position].append(loop)
    marks = {}
    for position, each in covering.items():
        named = [loop for loop in each if loop.level == "verdict"] or each
        earlier = {n for loop in named for n in repeats[loop].get(position, ())}
        marks[position] = named, sorted(earlier)
    return marks


def _is_result(turn: Turn) -> bool:
    return not turn.spoken and role_of_turn(turn) in RESULT_ROLES


def _answers(turns: Sequence[Turn]) -> dict[int, list[int]]:
    """Match messages that carry results, by position, to the messages with the calls.

    A message may carry the results of several calls, separated by line breaks.
    """
    waiting: dict[str, deque[int]] = defaultdict(deque)
    found: dict[int, list[int]] = {}
    for position, turn in enumerate(turns, start=1):
        if _is_result(turn):
            called, rest = list[int](), turn.text
            while rest and (result := _first_result(rest, waiting)) is not None:
                called.append(waiting[result].popleft())
                if not waiting[result]:
                    del waiting[result]
                rest = rest[len(result) + 1 :]
            if called and not rest:
                found[position] = list(dict.fromkeys(called))
        # Results of calls that are not shown must stay visible here.
        for call in turn.calls[:MAX_CALLS]:
            if call.result:
                waiting[call.result].append(position)
    return found


def _first_result(text: str, waiting: Iterable[str]) -> str | None:
    """The longest waiting result that a text equals or starts with."""
    if text in waiting:
        return text
    parts = (r for r in waiting if text.startswith(r) and text[len(r)] == "\n")
    return max(parts, key=len, default=None)


def _show_call(call: Call, limit: int, original: Call | None) -> ShownCall:
    def show(text: str | None, earlier: str | None) -> Text | None:
        if text is None:
            return None
        shown = fold(text, max(2 * CALL_FOLD_AT, limit), of_call=True)
        return shown if earlier is None else _mark(shown, earlier)

    before = (_arguments(original), original.result) if original else (None, None)
    now = _arguments(call), call.result
    arguments, result = map(show, now, before)
    return call.name, arguments, result, has_failed(call)


def _arguments(call: Call) -> str | None:
    return None if call.arguments is None else format_arguments(call.arguments)


def describe_turn(turn: Turn) -> str:
    """The text of a message with its calls, to compare and to quote it.

    >>> describe_turn(Turn("Once\\n more."))
    'Once more.'
    """
    return " ".join([*turn.text.split(), *map(describe_call, turn.calls)])


def describe_call(call: Call) -> str:
    """A call with its result; a name that its arguments repeat is given once.

    >>> describe_call(Call("edit", "edit view a.py", "1 line"))
    'edit view a.py → 1 line'
    """
    told = (_arguments(call) or "").removeprefix(f"{call.name} ")
    return " ".join(f"{call.name} {told} → {call.result or 'no result'}".split())


def _mark(text: Text, earlier: str) -> Text:
    return mark_news(text[0], earlier[: len(text[0]) + MAX_COMPARED]), *text[1:]


def mark_news(text: str, earlier: str) -> str:
    """Grey the words that an earlier text has, too, and mark the new ones.

    Texts that are long, or too different to compare, stay as they are.

    >>> mark_news("Once <again>.", "Once more.")
    Markup('<span class="same">Once </span><mark>&lt;again&gt;</mark><span class="same">.</span>')
    """
    if not text or text == earlier[: len(text)]:
        return _SAME.format(neutralize(text)) if text else text
    if max(len(text), len(earlier)) > MAX_COMPARED:
        return text
    before, after = (re.findall(r"\w+|\s+|[^\w\s]", each) for each in (earlier, text))
    changes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    if len(changes) > MAX_CHANGES or not any(change[0] == "equal" for change in changes):
        return text
    return Markup("").join(
        (_SAME if what == "equal" else _NEW).format(neutralize("".join(after[c:d])))
        for what, _, _, c, d in changes
        if d > c
    )


_SAME, _NEW = Markup('<span class="same">{}</span>'), Markup("<mark>{}</mark>")


def list_repeated(
    turns: Sequence[Turn], positions: Sequence[int], *, calls_only: bool = False
) -> list[tuple[str, int]]:
    """The texts that recur among the messages of a loop, and how often each came.

    With `calls_only`, or where no message as a whole does, calls are counted without what is said
    about them.

    >>> list_repeated([Turn("Yes."), Turn("No."), Turn("Yes."), Turn("No.")], [1, 2, 3, 4])
    [('Yes.', 2), ('No.', 2)]
    """
    inside = [turns[position - 1] for position in positions]
    counted = Counter(map(describe_turn, inside))
    if calls_only or len(counted) > len(inside) / 2:
        counted = Counter(describe_call(call) for turn in inside for call in turn.calls) or counted
    often = [each for each in counted.most_common(MAX_TEXTS) if each[1] > 1]
    return [(shorten(text), n) for text, n in often]


def shorten(text: str) -> str:
    return text if len(text) <= EXCERPT else text[: EXCERPT - 1].rstrip() + "…"


def format_arguments(arguments: Any) -> str:
    """Format arguments with one name and value per line, and code on lines of its own.

    Anything but a JSON object is left as it is.

    >>> print(format_arguments({"path": "a.py", "n": 2, "code": "if x:\\n    y()"}))
    path: a.py
    n: 2
    code:
      if x:
          y()
    """
    named = arguments
    if isinstance(arguments, str):
        try:
            named = json.loads(arguments) if len(arguments) <= MAX_CHARACTERS else None
        except (ValueError, RecursionError):
            return arguments
    if not isinstance(named, dict) or not named:
        return arguments if isinstance(arguments, str) else _json(arguments)
    lines = []
    for name, value in named.items():
        said = value if isinstance(value, str) else _json(value)
        below = "\n" in said
        lines.append(f"{name}:\n{indent(said, '  ')}" if below else f"{name}: {said}")
    return "\n".join(lines)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def fold(text: str, limit: int, *, of_call: bool = False) -> Text:
    """Split a long text into a visible part, a folded part, and the length of the rest.

    >>> fold("short", 5_000)
    ('short', '', 0)
    """
    fold_at, fold_lines = (CALL_FOLD_AT, CALL_FOLD_LINES) if of_call else (FOLD_AT, FOLD_LINES)
    end = min(len(text), fold_at)
    lines = text[:end].split("\n")
    if len(lines) > fold_lines:
        end = len("\n".join(lines[:fold_lines]))
    elif end < len(text):
        # Prefer a break between words.
        space = max(text.rfind(" ", end - 80, end), text.rfind("\n", end - 80, end))
        end = space if space > 0 else end
    # A short remainder is not folded.
    if len(text) - end <= fold_at // 4 and text.count("\n", end) <= fold_lines // 4:
        end = len(text)
    return text[:end], text[end:limit], max(0, len(text) - max(limit, end))


def _repeat(trace: TurnTrace, evidence: Evidence | None) -> tuple[int, float | None, int] | None:
    """The turn named as evidence, or else the more similar of the two turns before."""
    if evidence:
        return evidence.repeats, evidence.similarity, trace.run
    before = ((1, trace.period1, trace.s1), (2, trace.period2, trace.s2))
    found = [(trace.turn - n, s, trace.run) for n, near, s in before if near and s is not None]
    return max(found, key=lambda repeat: repeat[1], default=None)
