"""Rows of the table of conversations, shared by `chimera show` and the app."""

from typing import NamedTuple

from chimeralab.core.numbers import percent
from chimeralab.core.records import Detection
from chimeralab.detection.verdict import findings, list_looping_turns

COLUMNS = {
    "conversation": "conversation",
    "messages": "messages",
    "judged": "judged",
    "loop": "loop",
    "since": "since message",
    "share": "share of turns",
}
# Labels of rows that are not a kind of loop.
NO_LOOP = {
    "collapse": "collapse alone",
    "notice": "perhaps a loop",
    "none": "no loop",
    "unasked": "no collapse",  # loops were not looked for
}
BARS = 48


ColumnHeading = tuple[str, str, str | None, str | None]
"""Name and title of a column, and on a server the sort link and current order."""


class ConversationRow(NamedTuple):
    """One conversation: the kind of loop, the message it began with, the share of turns.

    `strip` encodes the similarities as letters, and `evidence` says what repeats. `key` identifies
    the row on a live page.
    """

    href: str
    id: str
    source: str | None
    messages: int
    judged: str | None = None
    kind: str | None = None
    since: int | None = None
    share: float | None = None
    strip: str | None = None
    evidence: str | None = None
    key: int | None = None

    @property
    def who(self) -> str:
        """Whose turns were judged."""
        return (self.judged or "").split(" (", maxsplit=1)[0]

    @property
    def loop(self) -> str:
        return "…" if self.kind is None else NO_LOOP.get(self.kind, self.kind)

    @property
    def share_text(self) -> str:
        return "" if self.share is None else percent(self.share, 0)

    @property
    def look(self) -> str:
        """The CSS class of the row."""
        if self.kind in (None, "none", "unasked"):
            return ""
        return {"collapse": "collapsed", "notice": "noticed"}.get(self.kind, "looping")

    @property
    def rank(self) -> tuple[int, float]:
        """The sort key of an index: loops first, the longest share first."""
        order = ("looping", "collapsed", "noticed", "")
        return order.index(self.look), -(self.share or 0.0)

    def bars(self, *, looping: bool) -> str:
        """The SVG path of the bars of the strip, 24 pixels high.

        >>> ConversationRow("", "", None, 2, strip="aZ").bars(looping=True)
        'M5 24V0h4V24z'
        """
        return "".join(
            f"M{5 * place} 24V{24 - round(24 * (ord(letter.lower()) - ord('a')) / 25)}h4V24z"
            for place, letter in enumerate(self.strip or "")
            if letter.isupper() == looping
        )


def make_row(
    detection: Detection, messages: int, href: str, key: int | None = None
) -> ConversationRow:
    """Make the row of a conversation from its strongest finding."""
    kind, since = _kind(detection)
    stuck = list_looping_turns(detection) | set(detection.collapsed)
    return ConversationRow(
        href,
        detection.id,
        detection.source,
        messages,
        judged=detection.judged,
        kind=kind,
        since=since,
        share=len(stuck) / detection.turns if detection.turns else None,
        strip=_strip(detection, stuck),
        evidence=next(findings(detection), None),
        key=key,
    )


def _kind(detection: Detection) -> tuple[str, int | None]:
    for level in ("verdict", "notice"):
        loops = [loop for loop in detection.loops if loop.level == level]
        if loops:
            first = min(loops, key=lambda loop: loop.began)
            return (first.kind if level == "verdict" else "notice"), first.began
        if detection.first_collapse_turn:
            return "collapse", detection.positions[detection.first_collapse_turn - 1]
    return ("none" if detection.looping is not None else "unasked"), None


def _strip(detection: Detection, stuck: set[int]) -> str | None:
    """Encode similarities as letters, one per bar, upper case in a loop; None without vectors.

    A bar is the highest similarity of its turns, from `a` (0) to `z` (1).
    """
    trace = detection.trace
    if not trace or not trace[0].lags:
        return None
    bars = min(BARS, len(trace))
    letters = []
    for bar in range(bars):
        part = trace[bar * len(trace) // bars : (bar + 1) * len(trace) // bars]
        known = [s for row in part for s in (row.s1, row.s2) if s is not None]
        letter = chr(ord("a") + round(25 * min(1.0, max(0.0, *known, 0.0))))
        letters.append(letter.upper() if any(row.turn in stuck for row in part) else letter)
    return "".join(letters)
