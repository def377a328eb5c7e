"""Verdicts as rows: nested for JSON, flat for tables (a row a turn when there is a trace)."""

from collections.abc import Iterator
from typing import Any

from chimeralab.files import Columns, Row
from chimeralab.records import Detection, Episode, TurnTrace

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


def flat_rows(detection: Detection) -> Iterator[Row]:
    """The verdict as table rows."""
    if detection.trace is None:
        yield _conversation(detection)
    else:
        yield from (_turn(detection, turn) for turn in detection.trace)


def _conversation(detection: Detection) -> Row:
    return {
        **detection.as_dict(),
        "episodes": "; ".join(_span(episode) for episode in detection.episodes),
        "warnings": "; ".join(f"{w.code}={w.count}" for w in detection.warnings),
        "operating_point": detection.detector["operating_point"],
        "precision": detection.encoder["precision"],
    }


def _turn(detection: Detection, turn: TurnTrace) -> Row:
    return {"id": detection.id, **turn.as_dict()}


def _span(episode: Episode) -> str:
    return f"{episode.start}-{episode.end}"
