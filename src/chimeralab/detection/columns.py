"""Verdicts as rows: nested for JSON, flat for tables (a row a turn when there is a trace)."""

from collections.abc import Iterator, Mapping
from typing import Any

from chimeralab.core.records import Caveat, Detection, Episode, Evidence, TurnTrace
from chimeralab.core.tables import Columns

CONVERSATION_COLUMNS: Columns = {
    "id": str,
    "source": str,
    "judged": str,
    "turns": int,
    "at_risk_turns": int,
    "collapsed_turns": int,
    "collapse_rate": float,
    "at_risk_rate": float,
    "first_collapse_turn": int,
    "episodes": str,
    "warnings": str,
    "reason": str,
    "operating_point": str,
    "precision": str,
    "metadata": str,
}
TURN_COLUMNS: Columns = {
    "id": str,
    "turn": int,
    "position": int,
    "speaker": str,
    "s1": float,
    "s2": float,
    "period1": bool,
    "period2": bool,
    "run": int,
    "collapsed": bool,
    "lags": str,
    "same_speaker": float,
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
    >>> from chimeralab.detection import detect
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
    }
    return Detection(**values)


def flat_rows(detection: Detection) -> Iterator[Mapping[str, Any]]:
    """The verdict as table rows."""
    if detection.trace is None:
        yield _conversation(detection)
    else:
        yield from (_turn(detection, turn) for turn in detection.trace)


def _conversation(detection: Detection) -> Mapping[str, Any]:
    return {
        **detection.as_dict(),
        "episodes": "; ".join(_span(episode) for episode in detection.episodes),
        "warnings": "; ".join(f"{w.code}={w.count}" for w in detection.warnings),
        "operating_point": detection.detector["operating_point"],
        "precision": detection.encoder["precision"],
    }


def _turn(detection: Detection, turn: TurnTrace) -> Mapping[str, Any]:
    return {"id": detection.id, **turn.as_dict()}


def _span(episode: Episode) -> str:
    return f"{episode.start}-{episode.end}"
