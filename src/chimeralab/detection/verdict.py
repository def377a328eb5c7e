"""Verdicts as JSON and as sentences."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chimeralab.core.records import (
    Cause,
    Caveat,
    Cost,
    Detection,
    Episode,
    Evidence,
    Loop,
    TurnTrace,
)

COSTS = ("cost", "loop_cost", "after_notice")
MAX_FINDINGS = 3  # the first turns are enough to show a long collapse

CAVEATS = {
    "blank_turns": "without a word, judged as they are",
    "truncated_turns": "longer than 256 word pieces, judged by their head alone",
    "repaired_turns": "with broken characters, replaced before judging",
    "longer_cycle": "in a cycle of three or more turns, which this rule does not count",
}
KIND_NAMES = {
    "verbatim": "same text again",
    "alternating": "two texts in turn",
    "cycle": "a cycle of texts",
    "template": "one template",
    "paraphrase": "same in other words",
    "farewell": "endless goodbye",
    "ending": "nothing new to say",
    "within-turn": "inside one message",
    "silence": "empty messages",
    "tool": "same call",
    "failure": "same failure",
    "no-news": "same answer",
    "waiting": "waiting",
    "test-fix": "same failing check",
    "undo": "edit and undo",
    "reread": "the same read again",
    "handover": "handed round",
}
"""The kinds of loops as people read them, in terminals and on pages; JSON keeps identifiers."""


def name_kind(kind: str, period: int = 1, stream: str = "all") -> str:
    """The plain name of a kind of loop; one that is not in the table keeps its identifier.

    >>> name_kind("cycle", 3), name_kind("verbatim", stream="reasoning"), name_kind("new")
    ('a cycle of 3', 'same thoughts again', 'new')
    """
    if stream == "reasoning":
        return "same thoughts again"
    return f"a cycle of {period}" if kind == "cycle" and period > 1 else KIND_NAMES.get(kind, kind)


def list_verdicts(loops: Sequence[Loop]) -> list[Loop]:
    """The loops with a verdict, in order, without those that another one explains.

    A failure that is also put into the same words is one loop: of two streams that begin within a
    message of each other, the one that lasts longer counts, and of equals the one of calls.
    """
    found = list[Loop]()
    verdicts = [loop for loop in loops if loop.level == "verdict"]
    longest = sorted(verdicts, key=lambda each: (-(each.ended or math.inf), each.stream != "calls"))
    for loop in longest:
        twins = (abs(loop.began - each.began) <= 1 and loop.stream != each.stream for each in found)
        if not any(twins):
            found.append(loop)
    return sorted(found, key=lambda loop: (loop.began, loop.noticed))


def list_looping_turns(detection: Detection) -> set[int]:
    """The judged turns inside a loop with a verdict."""
    return {
        turn
        for loop in detection.loops
        if loop.level == "verdict"
        for turn in range(
            bisect_left(detection.positions, loop.began) + 1,
            bisect_right(detection.positions, loop.ended or math.inf) + 1,
        )
    }


def as_json(detection: Detection) -> dict[str, Any]:
    """A verdict as a JSON object, with `trace` only if there is one."""
    row = detection.as_dict()
    if detection.trace is None:
        del row["trace"]
    return row


def from_json(row: Mapping[str, Any]) -> Detection:
    """Load a verdict that `as_json` wrote.

    >>> import json
    >>> from chimeralab.detection.judging import detect
    >>> found = detect(["Once more."] * 6, trace=True)
    >>> from_json(json.loads(json.dumps(as_json(found)))) == found
    True
    """
    trace = row.get("trace")
    values = {
        **row,
        "collapsed": tuple(row["collapsed"]),
        "positions": tuple(row["positions"]),
        "episodes": tuple(Episode(**e) for e in row["episodes"]),
        "evidence": tuple(Evidence(**e) for e in row["evidence"]),
        "warnings": tuple(Caveat(**w) for w in row["warnings"]),
        "trace": trace and tuple(TurnTrace(**{**t, "lags": tuple(t["lags"])}) for t in trace),
        "loops": tuple(map(_loop, row.get("loops", ()))),
        **{name: Cost(**row[name]) for name in COSTS if row.get(name)},
    }
    return Detection(**values)


def _loop(row: Mapping[str, Any]) -> Loop:
    # Early studies have neither echoes nor frames.
    lists = {name: row[name] for name in ("echoes", "fillings") if row.get(name) is not None}
    known: dict[str, Any] = {name: tuple(map(tuple, rows)) for name, rows in lists.items()}
    known["frame"] = None if row.get("frame") is None else tuple(row["frame"])
    cost, cause = row.get("cost"), row.get("cause")
    known["cost"] = Cost(**cost) if cost else None
    known["cause"] = Cause(**{**cause, "messages": tuple(cause["messages"])}) if cause else None
    return Loop(**{**row, "repeats": tuple(row["repeats"]), **known})


def findings(detection: Detection, limit: int = MAX_FINDINGS) -> Iterator[str]:
    """Yield a sentence for each loop with a verdict and each collapsed turn, up to `limit` each.

    >>> from chimeralab.detection.judging import detect
    >>> list(findings(detect(["Let me try again."] * 5, detector=None)))
    ['message 4 repeats messages 2 and 3: “Let me try again.” (same text again since message 1)']
    """
    verdicts = list_verdicts(detection.loops)
    yield from map(describe_loop, verdicts[:limit])
    yield from map(describe_evidence, detection.evidence[:limit])
    more = max(0, len(verdicts) - limit) + max(0, len(detection.evidence) - limit)
    if more:
        yield f"and {more:,} more"


def describe_loop(loop: Loop) -> str:
    until = f", ended with message {loop.ended}" if loop.ended is not None else ""
    kind = name_kind(loop.kind, loop.period, loop.stream)
    since = f"({kind} since message {loop.began}{until})"
    if not loop.repeats:
        return f"message {loop.noticed} says one thing over and over: “{loop.excerpt}” {since}"
    *first, last = map(str, loop.repeats)
    earlier = f"messages {', '.join(first)} and {last}" if first else f"message {last}"
    return f"message {loop.noticed} repeats {earlier}: “{loop.excerpt}” {since}"


def describe_evidence(evidence: Evidence) -> str:
    """Say which turn a collapsed turn repeats.

    >>> describe_evidence(Evidence(5, 4, 0.97, "Sounds good!"))
    'turn 5 repeats turn 4: “Sounds good!”'
    """
    return f"turn {evidence.turn} repeats turn {evidence.repeats}: “{evidence.excerpt}”"
