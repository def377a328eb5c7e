"""What the detectors said of a conversation as its verdict: evidence, caveats, JSON and words."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from chimeralab.core.records import Caveat, Detection, Episode, Evidence, Loop, TurnTrace
from chimeralab.core.text import replace_surrogates
from chimeralab.detection.seam import Detector, Observation, Signal

EXCERPT = 80
# A collapse of a hundred turns is told by its first ones.
MAX_FINDINGS = 3

CAVEATS = {
    "blank_turns": "without a word, judged as they are",
    "truncated_turns": "longer than 256 word pieces, judged by their head alone",
    "repaired_turns": "with broken characters, replaced before judging",
    "longer_cycle": "in a cycle of three or more turns, which this rule does not count",
}
NO_COLLAPSE: Mapping[str, Any] = {
    "at_risk_turns": 0,
    "collapsed": (),
    "collapsed_turns": None,
    "collapse_rate": None,
    "at_risk_rate": None,
    "first_collapse_turn": None,
    "episodes": (),
    "evidence": (),
    "warnings": (),
    "reason": "no collapse verdict: it needs vectors, and none were wanted",
}
"""The fields of a verdict on a conversation that nobody judged for collapse."""


def judge_collapse(
    detector: Detector,
    seen: Sequence[Observation],
    positions: Sequence[int],
    cut: int,
    *,
    trace: bool,
) -> dict[str, Any]:
    """The fields of a verdict that say whether the judged turns collapsed; `cut` were truncated."""
    needs, signals = detector.needs, detector.judge(seen)
    total = len(signals)
    collapsed = tuple(signal.turn for signal in signals if signal.collapsed)
    at_risk = max(0, total - needs.first_turn_at_risk + 1)
    enough = total >= needs.turns
    counts = {
        "blank_turns": sum(each.blank for each in seen),
        "truncated_turns": cut,
        "repaired_turns": sum(
            replace_surrogates(each.turn.text) != each.turn.text for each in seen
        ),
        "longer_cycle": detector.cycles_missed(seen, signals),
    }
    return {
        "at_risk_turns": at_risk if enough else 0,
        "collapsed": collapsed,
        "collapsed_turns": len(collapsed) if enough else None,
        "collapse_rate": len(collapsed) / total if enough else None,
        "at_risk_rate": len(collapsed) / at_risk if enough else None,
        "first_collapse_turn": collapsed[0] if collapsed else None,
        "episodes": tuple(_episodes(collapsed)),
        "evidence": tuple(_evidence(seen, signals)),
        "warnings": tuple(
            Caveat(code, n, f"{n} {'turn' if n == 1 else 'turns'} {CAVEATS[code]}")
            for code, n in counts.items()
            if n
        ),
        "reason": None
        if enough
        else f"no verdict: {total} judged turns, and the rule needs {needs.turns}",
        "trace": tuple(_trace(seen, signals, positions)) if trace else None,
    }


def _episodes(collapsed: Sequence[int]) -> Iterator[Episode]:
    if not collapsed:
        return
    breaks = [(a, b) for a, b in pairwise(collapsed) if b != a + 1]
    starts = [collapsed[0], *(b for _, b in breaks)]
    ends = [*(a for a, _ in breaks), collapsed[-1]]
    yield from (Episode(start, end) for start, end in zip(starts, ends, strict=True))


def _evidence(seen: Sequence[Observation], signals: Sequence[Signal]) -> Iterator[Evidence]:
    for signal, (turn, lags, _) in zip(signals, seen, strict=True):
        if not signal.collapsed or signal.repeats is None:
            continue
        back = signal.turn - signal.repeats
        text = " ".join(turn.text.split())
        yield Evidence(
            turn=signal.turn,
            repeats=signal.repeats,
            similarity=_known(lags[back - 1]) if 0 < back <= len(lags) else None,
            excerpt=text if len(text) <= EXCERPT else text[: EXCERPT - 1] + "…",
        )


def _trace(
    seen: Sequence[Observation], signals: Sequence[Signal], positions: Sequence[int]
) -> Iterator[TurnTrace]:
    last_turn: dict[str | None, int] = {}
    for signal, each, position in zip(signals, seen, positions, strict=True):
        speaker = each.turn.speaker
        back = signal.turn - last_turn.get(speaker, signal.turn)
        last_turn[speaker] = signal.turn
        lags = tuple(map(_known, each.lags))
        yield TurnTrace(
            turn=signal.turn,
            position=position,
            speaker=speaker,
            s1=lags[0] if lags else None,
            s2=lags[1] if lags else None,
            period1=signal.period1,
            period2=signal.period2,
            run=signal.run,
            collapsed=signal.collapsed,
            lags=lags,
            same_speaker=lags[back - 1] if 0 < back <= len(lags) else None,
        )


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def list_looping_turns(detection: Detection) -> set[int]:
    """The judged turns that lie between the ends of a loop with a verdict."""
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
    """The verdict as a JSON object; `trace` only where it was asked for."""
    row = detection.as_dict()
    if detection.trace is None:
        del row["trace"]
    return row


def from_json(row: Mapping[str, Any]) -> Detection:
    """The verdict that `as_json` wrote.

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
    }
    return Detection(**values)


def _loop(row: Mapping[str, Any]) -> Loop:
    echoes = row.get("echoes")  # which older versions did not store
    tuples = None if echoes is None else tuple(map(tuple, echoes))
    return Loop(**{**row, "repeats": tuple(row["repeats"]), "echoes": tuples})


def findings(detection: Detection, most: int = MAX_FINDINGS) -> Iterator[str]:
    """A sentence for each loop with a verdict, and for the first turns that collapsed.

    >>> from chimeralab.detection.judging import detect
    >>> list(findings(detect(["Let me try that again."] * 5, detector=None)))
    ['message 4 repeats messages 2 and 3: “Let me try that again.” (verbatim since message 1)']
    """
    verdicts = [loop for loop in detection.loops if loop.level == "verdict"]
    yield from map(loop_in_words, verdicts[:most])
    yield from map(evidence_in_words, detection.evidence[:most])
    untold = max(0, len(verdicts) - most) + max(0, len(detection.evidence) - most)
    if untold:
        yield f"and {untold:,} more"


def loop_in_words(loop: Loop) -> str:
    until = f", ended with message {loop.ended}" if loop.ended is not None else ""
    since = f"({loop.kind} since message {loop.began}{until})"
    if not loop.repeats:
        return f"message {loop.noticed} says one thing over and over: “{loop.excerpt}” {since}"
    *first, last = map(str, loop.repeats)
    earlier = f"messages {', '.join(first)} and {last}" if first else f"message {last}"
    return f"message {loop.noticed} repeats {earlier}: “{loop.excerpt}” {since}"


def evidence_in_words(evidence: Evidence) -> str:
    """Why a turn counts as collapsed.

    >>> evidence_in_words(Evidence(5, 4, 0.97, "Sounds good!"))
    'turn 5 repeats turn 4: “Sounds good!”'
    """
    return f"turn {evidence.turn} repeats turn {evidence.repeats}: “{evidence.excerpt}”"
