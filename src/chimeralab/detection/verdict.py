"""Verdicts as JSON and as sentences."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
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
    list_verdicts,
    name_kind,
)

COSTS = ("cost", "loop_cost", "after_notice")
MAX_FINDINGS = 3  # the first turns are enough to show a long collapse

CAVEATS = {
    "blank_turns": "without a word, judged as they are",
    "truncated_turns": "longer than 256 word pieces, judged by their head alone",
    "repaired_turns": "with broken characters, replaced before judging",
    "longer_cycle": "in a cycle of three or more turns, which this rule does not count",
}


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
