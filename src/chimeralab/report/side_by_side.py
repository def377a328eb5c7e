"""Repeated messages beside what they repeat, with the words marked in which they differ."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from chimeralab.core.records import Detection, Trajectory, Turn
from chimeralab.report.messages import LoopMark, arguments_in_lines

# What is longer is compared as far as this, which is more than one reads at a glance.
MOST_WORDS = 250
MOST_CHARACTERS = 4_000
MOST_STRETCHES = 4
LONGEST_STRETCH = 3
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


Pair = tuple[int, int]


class Words(NamedTuple):
    """Words in a row that both messages have, or that only this one has."""

    text: str
    same: bool


class Side(NamedTuple):
    """One of two messages: where it stands, who said it, and its words."""

    position: int
    speaker: str | None
    words: Sequence[Words]
    cut: bool


class Pairing(NamedTuple):
    """A message beside the earlier one that it repeats."""

    earlier: Side
    later: Side

    @property
    def is_copy(self) -> bool:
        return all(part.same for side in self for part in side.words)


class RepeatedStretch(NamedTuple):
    """Messages in a row, each beside what it repeats."""

    title: str
    pairings: Sequence[Pairing]


class SideBySide(NamedTuple):
    """The stretches of a conversation; `places` are the anchors of its messages."""

    stretches: Sequence[RepeatedStretch]
    places: Mapping[int, str]


def stretches(
    trajectory: Trajectory, detection: Detection, marks: Mapping[int, LoopMark]
) -> list[RepeatedStretch]:
    """The first round of each loop, and the first turn of each collapse, beside what was repeated.

    `marks` say which messages lie in loops, and what each repeats.
    """
    found, shown = list[RepeatedStretch](), set[Pair]()
    for title, pairs in (*_loops(detection, marks), *_collapses(detection)):
        new = [pair for pair in pairs if pair not in shown]
        shown.update(new)
        if new and len(found) < MOST_STRETCHES:
            found.append(
                RepeatedStretch(title, [_pairing(trajectory.turns, *pair) for pair in new])
            )
    return found


def _loops(detection: Detection, marks: Mapping[int, LoopMark]) -> Iterator[tuple[str, list[Pair]]]:
    for loop in sorted(detection.loops, key=lambda loop: (loop.began, loop.noticed)):
        if loop.level != "verdict":
            continue
        inside = [n for n in sorted(marks) if n >= loop.noticed and (loop.ended or n) >= n]
        repeating = [(marks[n].repeats[-1], n) for n in inside if marks[n].repeats]
        pairs = repeating[: min(max(1, loop.period), LONGEST_STRETCH)]
        yield f"Loop since message {loop.began} ({loop.kind})", pairs


def _collapses(detection: Detection) -> Iterator[tuple[str, list[Pair]]]:
    evidence = {each.turn: each for each in detection.evidence}
    for episode in detection.episodes:
        if first := evidence.get(episode.start):
            pair = (detection.positions[first.repeats - 1], detection.positions[first.turn - 1])
            yield f"Turn {first.turn}, which repeats turn {first.repeats}", [pair]


def _pairing(turns: Sequence[Turn], earlier: int, later: int) -> Pairing:
    before, after = _split(turns[earlier - 1]), _split(turns[later - 1])
    cut = [len(words) > MOST_WORDS for words in (before, after)]
    before, after = before[:MOST_WORDS], after[:MOST_WORDS]
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    ours, theirs = list[Words](), list[Words]()
    for what, a, b, c, d in matcher.get_opcodes():
        for words, part in ((ours, before[a:b]), (theirs, after[c:d])):
            if part:
                words.append(Words("".join(part), what == "equal"))
    return Pairing(
        Side(earlier, _who(turns[earlier - 1]), ours, cut[0]),
        Side(later, _who(turns[later - 1]), theirs, cut[1]),
    )


def _split(turn: Turn) -> list[str]:
    """The message word by word, with the tools that it called.

    >>> _split(Turn("Once more, please."))
    ['Once', ' ', 'more', ',', ' ', 'please', '.']
    """
    calls = [
        f"calls {call.name}\n{arguments_in_lines(call.arguments)}\n→ {call.result}"
        for call in turn.calls
    ]
    text = "\n".join([*([turn.text] if turn.text else []), *calls])
    return _WORDS.findall(text[:MOST_CHARACTERS])


def _who(turn: Turn) -> str | None:
    return turn.speaker or turn.role
