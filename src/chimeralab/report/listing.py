"""Rows of the table of conversations, shared by `chimera show` and the app."""

from collections.abc import Sequence
from typing import NamedTuple

from chimeralab.core.numbers import percent, short_count
from chimeralab.core.records import Detection, list_verdicts, name_kind
from chimeralab.detection.verdict import findings

COLUMNS = {
    "conversation": "conversation, and what repeats",
    "loop": "loop",
    "since": "since message",
    "share": "where",
    "cost": "tokens lost",
}
# Labels of rows that are not a kind of loop.
NO_LOOP = {
    "collapse": "collapse alone",
    "notice": "perhaps a loop",
    "none": "no loop",
    "unasked": "no collapse",  # loops were not looked for
}
STRIP = 240  # pixels


ColumnHeading = tuple[str, str, str | None, str | None]
"""Name and title of a column, and on a server the sort link and current order."""


class ConversationRow(NamedTuple):
    """One conversation: its kind of loop, where it loops, and what that cost.

    The kind of loops among thoughts is `reasoning`.
    `share` is that of the messages inside a loop, `strip` where they are, as an SVG path, and
    `evidence` says what repeats. `key` identifies the row on a live page.
    """

    href: str
    id: str
    source: str | None
    messages: int
    parent: str | None = None
    kind: str | None = None
    period: int | None = None
    since: int | None = None
    until: int | None = None
    share: float | None = None
    strip: str | None = None
    evidence: str | None = None
    tokens: int | None = None
    estimated: bool = False
    key: int | None = None

    @property
    def file(self) -> str:
        """The end of the source: its file with its folder, and the line.

        >>> ConversationRow("", "", "/home/me/logs/a/talks.jsonl:7", 2).file
        'a/talks.jsonl:7'
        """
        return "/".join((self.source or "").replace("\\", "/").split("/")[-2:])

    @property
    def loop(self) -> str:
        if self.kind is None:
            return "…"
        return NO_LOOP.get(self.kind) or name_kind(self.kind, self.period or 1)

    @property
    def since_text(self) -> str:
        return "" if self.since is None else f"{self.since:,} of {self.messages:,}"

    @property
    def share_text(self) -> str:
        if not self.share:
            return ""
        return percent(self.share, 0) + (" to the end" if self.until is None else "")

    @property
    def cost(self) -> str:
        if not self.tokens:
            return ""
        return f"{'~' if self.estimated else ''}{short_count(self.tokens)}"

    @property
    def look(self) -> str:
        """The CSS class of the row."""
        if self.kind in (None, "none", "unasked"):
            return ""
        return {"collapse": "collapsed", "notice": "noticed"}.get(self.kind, "looping")

    @property
    def rank(self) -> tuple[int, float]:
        """The sort key of an index: loops first, those that cost most first."""
        order = ("looping", "collapsed", "noticed", "")
        return order.index(self.look), -(self.tokens or 0)


def make_row(
    detection: Detection, messages: int, href: str, key: int | None = None
) -> ConversationRow:
    """Make the row of a conversation from its first loop, or else from its strongest finding."""
    kind, period, since = _kind(detection)
    looping = [loop for loop in list_verdicts(detection.loops) if loop.began == since]
    cost = detection.loop_cost
    return ConversationRow(
        href,
        detection.id,
        detection.source,
        messages,
        kind=kind,
        period=period,
        since=since,
        until=looping[0].ended if looping else None,
        share=(detection.looping_messages or 0) / messages if messages else None,
        strip=strip(messages, message_spans(detection, messages)),
        evidence=looping[0].excerpt if looping else next(findings(detection), None),
        tokens=cost.tokens if cost else None,
        estimated=bool(cost and cost.estimated),
        key=key,
    )


def _kind(detection: Detection) -> tuple[str, int | None, int | None]:
    """The kind, period and start of the first loop, or else the strongest finding."""
    for level in ("verdict", "notice"):
        loops = [loop for loop in detection.loops if loop.level == level]
        if loops:
            first = min(loops, key=lambda loop: loop.began)
            kind = "reasoning" if first.stream == "reasoning" else first.kind
            return (kind if level == "verdict" else "notice"), first.period, first.began
        if detection.first_collapse_turn:
            return "collapse", None, detection.positions[detection.first_collapse_turn - 1]
    return ("none" if detection.looping is not None else "unasked"), None, None


def message_spans(detection: Detection, messages: int) -> list[tuple[int, int]]:
    """The stretches of messages between the ends of loops with a verdict, merged."""
    spans = list[tuple[int, int]]()
    verdicts = (loop for loop in detection.loops if loop.level == "verdict")
    for first, last in sorted((loop.began, loop.ended or messages) for loop in verdicts):
        if spans and first <= spans[-1][1] + 1:
            spans[-1] = spans[-1][0], max(last, spans[-1][1])
        else:
            spans.append((first, last))
    return spans


def strip(messages: int, spans: Sequence[tuple[int, int]]) -> str:
    """The SVG path of the stretches of a conversation that loop, 240 wide and 10 high.

    >>> strip(10, [(6, 10)])
    'M120.0 0h120.0v10h-120.0z'
    """
    scale = STRIP / max(1, messages)
    return "".join(
        f"M{(first - 1) * scale:.1f} 0h{(last - first + 1) * scale:.1f}v10"
        f"h-{(last - first + 1) * scale:.1f}z"
        for first, last in spans
    )
