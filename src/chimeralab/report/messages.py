"""Messages of a conversation for a page: collapsible, marked, and with their tool calls.

Some repeated messages are shown next to what they repeat, with the differences marked.
"""

import json
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
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
# Messages are compared up to this length.
MAX_WORDS = 250
MAX_COMPARED = 4_000
MAX_STRETCHES = 4
MAX_PAIRS = 3


Text = tuple[str, str, int]
"""Visible text, folded text, and the number of characters left out."""
ShownCall = tuple[str, Text | None, Text | None, bool]
"""Name, arguments and result of a tool call (None: not in the log), and whether it failed."""
LoopMark = tuple[list[Loop], list[int]]
"""The loops that contain a message (notices only without a verdict), and what it repeats."""
Side = tuple[int, str | None, Markup]
"""Position, speaker and marked words of one of two compared messages."""


class ShownMessage(NamedTuple):
    """One message. `turn` is its number if it is judged.

    `repeat` is the earlier turn that it repeats, their similarity, and the length of the run.
    `answers` are the messages whose calls produced this one, where its text is shown. A `result`
    belongs to a tool call that the page does not show.
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


class Transcript(NamedTuple):
    """Messages in order; a range stands for those left out.

    `links` are the turns on the page, and `places` the anchors of its messages.
    """

    messages: Sequence[ShownMessage | range]
    window: int | None
    kept_in: str
    words: ResultWords = FACT
    links: frozenset[int] = frozenset()
    places: Mapping[int, str] = {}


def list_messages(
    trajectory: Trajectory, detection: Detection, loops: Loops = LOOPS
) -> list[ShownMessage | range]:
    """List the messages in order; very long conversations leave out ranges."""
    shown = positions_shown(len(trajectory.turns), detection)
    calls = sum(min(MAX_CALLS, len(trajectory.turns[n - 1].calls)) for n in shown)
    texts = max(1, len(shown) + 2 * calls)
    limit = min(MAX_CHARACTERS, PAGE_CHARACTERS // texts)
    numbers = {position: turn for turn, position in enumerate(detection.positions, start=1)}
    traces = {trace.position: trace for trace in detection.trace or ()}
    evidence = {each.turn: each for each in detection.evidence}
    marks = loop_marks(trajectory.turns, detection.loops, loops)
    answers = _answers(trajectory.turns)
    items: list[ShownMessage | range] = []
    before = 0
    for position in (*shown, len(trajectory.turns) + 1):
        if position > before + 1:
            items.append(range(before + 1, position))
        before = position
        if position > len(trajectory.turns):
            break
        turn, trace = trajectory.turns[position - 1], traces.get(position)
        result = _is_result(turn)
        items.append(
            ShownMessage(
                position=position,
                turn=numbers.get(position),
                speaker=turn.speaker or turn.role,
                model=turn.model,
                spoken=turn.spoken,
                collapsed=trace.collapsed if trace else False,
                repeat=_repeat(trace, evidence.get(trace.turn)) if trace else None,
                text=fold(turn.text, max(2 * FOLD_AT, limit), of_call=result),
                loop=marks.get(position),
                calls=[_show_call(call, limit) for call in turn.calls[:MAX_CALLS]],
                calls_left_out=max(0, len(turn.calls) - MAX_CALLS),
                result=result,
                answers=answers.get(position, ()),
            )
        )
    return items


def positions_shown(messages: int, detection: Detection) -> list[int]:
    """All positions or, if there are many, the head, the tail and around onsets and ends."""
    if messages <= MAX_MESSAGES:
        return list(range(1, messages + 1))
    shown = {*range(1, HEAD + 1), *range(messages - TAIL + 1, messages + 1)}
    loops, where = detection.loops, detection.positions
    edges_of_loops = [(loop.began, loop.noticed, loop.ended or messages) for loop in loops]
    edges_of_collapse = [(where[e.start - 1], where[e.end - 1]) for e in detection.episodes]
    for edges in (*edges_of_loops, *edges_of_collapse):
        for at in edges:
            shown.update(range(max(1, at - BEFORE_EDGE), min(messages, at + AFTER_EDGE) + 1))
        if len(shown) >= MAX_MESSAGES:
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


def _show_call(call: Call, limit: int) -> ShownCall:
    def fold_optional(text: str | None) -> Text | None:
        return None if text is None else fold(text, max(2 * CALL_FOLD_AT, limit), of_call=True)

    arguments = None if call.arguments is None else format_arguments(call.arguments)
    return call.name, fold_optional(arguments), fold_optional(call.result), has_failed(call)


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


def stretches(
    trajectory: Trajectory, detection: Detection, marks: Mapping[int, LoopMark]
) -> list[tuple[str, list[tuple[Side, Side]]]]:
    """Pair the first round of each loop and the first turn of each collapse with its original.

    Returns titles with pairs of an earlier and a later message; `marks` are those of `loop_marks`.
    """
    found = list[tuple[str, list[tuple[Side, Side]]]]()
    shown = set[tuple[int, int]]()
    for title, pairs in _find_repeats(detection, marks):
        new = [pair for pair in pairs if pair not in shown]
        shown.update(new)
        if new and len(found) < MAX_STRETCHES:
            found.append((title, [side_by_side(trajectory.turns, *pair) for pair in new]))
    return found


def _find_repeats(
    detection: Detection, marks: Mapping[int, LoopMark]
) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Titles with pairs of positions: the original and its repetition."""
    for loop in sorted(detection.loops, key=lambda loop: (loop.began, loop.noticed)):
        if loop.level != "verdict":
            continue
        inside = [n for n in sorted(marks) if n >= loop.noticed and (loop.ended or n) >= n]
        repeating = [(marks[n][1][-1], n) for n in inside if marks[n][1]]
        pairs = repeating[: min(max(1, loop.period), MAX_PAIRS)]
        yield f"Loop since message {loop.began} ({loop.kind})", pairs
    evidence = {each.turn: each for each in detection.evidence}
    for episode in detection.episodes:
        if first := evidence.get(episode.start):
            pair = (detection.positions[first.repeats - 1], detection.positions[first.turn - 1])
            yield f"Turn {first.turn}, which repeats turn {first.repeats}", [pair]


def side_by_side(turns: Sequence[Turn], earlier: int, later: int) -> tuple[Side, Side]:
    """Compare two messages, marking the words that only one of them has.

    >>> side_by_side([Turn("Once more."), Turn("Once <again>.")], 1, 2)[1][2]
    Markup('Once <mark>&lt;again&gt;</mark>.')
    """
    both = [_words_of(turns[position - 1]) for position in (earlier, later)]
    cut = ["…" if len(words) > MAX_WORDS else "" for words in both]
    before, after = (words[:MAX_WORDS] for words in both)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    parts: tuple[list[Markup], list[Markup]] = ([], [])
    for what, a, b, c, d in matcher.get_opcodes():
        mark = Markup("{}") if what == "equal" else Markup("<mark>{}</mark>")
        for side, words in zip(parts, (before[a:b], after[c:d]), strict=True):
            if words:
                side.append(mark.format(neutralize("".join(words))))
    who = [turn.speaker or turn.role for turn in (turns[earlier - 1], turns[later - 1])]
    left, right = (Markup("").join(each) + end for each, end in zip(parts, cut, strict=True))
    return (earlier, who[0], left), (later, who[1], right)


def _words_of(turn: Turn) -> list[str]:
    """Split a message and its tool calls into words.

    >>> _words_of(Turn("Once more, please."))
    ['Once', ' ', 'more', ',', ' ', 'please', '.']
    """
    calls = [
        f"calls {call.name}\n{format_arguments(call.arguments)}\n→ {call.result}"
        for call in turn.calls
    ]
    text = "\n".join([*([turn.text] if turn.text else []), *calls])
    return re.findall(r"\w+|\s+|[^\w\s]", text[:MAX_COMPARED])
