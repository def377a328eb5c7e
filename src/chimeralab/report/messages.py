"""The messages of a conversation as a page lists them: which are shown, and how much of each."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from chimeralab.core.records import Detection, Evidence, Trajectory, Turn, TurnTrace

# A conversation with more messages than this is shown in parts.
MOST_MESSAGES = 2_000
HEAD, TAIL = 100, 20
BEFORE_EDGE, AFTER_EDGE = 6, 10

# What is longer is folded, and what is far longer is cut, so that any page can be opened.
FOLD_AT = 1_200
FOLD_LINES = 24
MOST_CHARACTERS = 20_000
PAGE_CHARACTERS = 4_000_000


class Text(NamedTuple):
    """A message's words: what is open to see, what is folded away, how much is left out."""

    head: str
    folded: str
    left_out: int


class Repeat(NamedTuple):
    """Which earlier turn a turn repeats or nearly repeats."""

    turn: int
    similarity: float | None
    run: int


class Message(NamedTuple):
    """One message in its place. `turn` is its number if it is judged."""

    position: int
    turn: int | None
    speaker: str | None
    model: str | None
    spoken: bool
    collapsed: bool
    repeat: Repeat | None
    text: Text


class Gap(NamedTuple):
    """Messages that the page leaves out, both ends included."""

    first: int
    last: int

    @property
    def messages(self) -> int:
        return self.last - self.first + 1


def list_messages(trajectory: Trajectory, detection: Detection) -> list[Message | Gap]:
    """The messages in order, with gaps where a very long conversation is not shown."""
    shown = positions_shown(len(trajectory.turns), detection)
    most = max(2 * FOLD_AT, min(MOST_CHARACTERS, PAGE_CHARACTERS // max(1, len(shown))))
    traces = {trace.position: trace for trace in detection.trace or ()}
    evidence = {each.turn: each for each in detection.evidence}
    items: list[Message | Gap] = []
    before = 0
    for position in shown:
        items.extend(_gap(before, position))
        turn = trajectory.turns[position - 1]
        items.append(
            _message(turn, position, traces.get(position), evidence, fold(turn.text, most))
        )
        before = position
    items.extend(_gap(before, len(trajectory.turns) + 1))
    return items


def positions_shown(messages: int, detection: Detection) -> list[int]:
    """All of them, or the head, the tail and the surroundings of the collapsed spans."""
    if messages <= MOST_MESSAGES:
        return list(range(1, messages + 1))
    shown = {*range(1, HEAD + 1), *range(messages - TAIL + 1, messages + 1)}
    for episode in detection.episodes:
        for edge in (episode.start, episode.end):
            at = detection.positions[edge - 1]
            shown.update(range(max(1, at - BEFORE_EDGE), min(messages, at + AFTER_EDGE) + 1))
        if len(shown) >= MOST_MESSAGES:
            break
    return sorted(shown)


def fold(text: str, most: int) -> Text:
    """Cut a long text into what is open to see, what is folded, and what is left out.

    >>> fold("short", 5_000)
    Text(head='short', folded='', left_out=0)
    """
    end = _head_end(text)
    # Nobody wants to unfold a last half line.
    if len(text) - end <= FOLD_AT // 4 and text.count("\n", end) <= FOLD_LINES // 4:
        end = len(text)
    return Text(text[:end], text[end:most], max(0, len(text) - max(most, end)))


def _head_end(text: str) -> int:
    end = min(len(text), FOLD_AT)
    lines = text[:end].split("\n")
    if len(lines) > FOLD_LINES:
        return len("\n".join(lines[:FOLD_LINES]))
    if end == len(text):
        return end
    # Cut between two words if there is one near.
    space = max(text.rfind(" ", end - 80, end), text.rfind("\n", end - 80, end))
    return space if space > 0 else end


def _gap(before: int, after: int) -> Iterator[Gap]:
    if after > before + 1:
        yield Gap(before + 1, after - 1)


def _message(
    turn: Turn,
    position: int,
    trace: TurnTrace | None,
    evidence: Mapping[int, Evidence],
    text: Text,
) -> Message:
    return Message(
        position=position,
        turn=trace.turn if trace else None,
        speaker=turn.speaker or turn.role,
        model=turn.model,
        spoken=turn.spoken,
        collapsed=trace.collapsed if trace else False,
        repeat=_repeat(trace, evidence.get(trace.turn)) if trace else None,
        text=text,
    )


def _repeat(trace: TurnTrace, evidence: Evidence | None) -> Repeat | None:
    """The turn that the evidence names; else the closer of the two before, of equals the nearer."""
    if evidence:
        return Repeat(evidence.repeats, evidence.similarity, trace.run)
    found = []
    if trace.period1 and trace.s1 is not None:
        found.append(Repeat(trace.turn - 1, trace.s1, trace.run))
    if trace.period2 and trace.s2 is not None:
        found.append(Repeat(trace.turn - 2, trace.s2, trace.run))
    return max(found, key=lambda repeat: repeat.similarity or 0.0, default=None)
