"""Verdicts as table rows and pandas DataFrames: one row each, or one per turn with a trace."""

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from chimeralab.core.extras import require_extra
from chimeralab.core.records import describe_span, list_verdicts, name_kind
from chimeralab.core.tables import Columns

if TYPE_CHECKING:
    from chimeralab.core.records import Detection

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
    "steps": int,
    "looping": bool,
    "loop_score": float,
    "loops": str,
    "messages": int,
    "looping_messages": int,
    "tokens": int,
    "loop_tokens": int,
    "tokens_after_notice": int,
    "tokens_estimated": bool,
    "loop_seconds": float,
    "loop_money": float,
    "episodes": str,
    "warnings": str,
    "reason": str,
    "detector": str,
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
# Pandas dtypes of columns with missing values.
DTYPES = {int: "Int64", bool: "boolean", float: "float64"}


def verdict_rows(detection: "Detection") -> Iterator[Mapping[str, Any]]:
    """Yield the table rows of a verdict."""
    if detection.trace is not None:
        yield from ({"id": detection.id, **turn.as_dict()} for turn in detection.trace)
        return
    yield {
        **detection.as_dict(),
        "episodes": "; ".join(f"{span.start}-{span.end}" for span in detection.episodes),
        "loops": "; ".join(
            f"{loop.level} {loop.kind} {loop.began}-{loop.ended or ''}" for loop in detection.loops
        ),
        **_cost_cells(detection),
        "warnings": "; ".join(f"{w.code}={w.count}" for w in detection.warnings),
        "detector": detection.detector["name"],
        "operating_point": detection.detector["operating_point"],
        "precision": detection.encoder["precision"],
    }


def _cost_cells(detection: "Detection") -> Mapping[str, Any]:
    whole, looping, late = detection.cost, detection.loop_cost, detection.after_notice
    return {
        "tokens": whole and whole.tokens,
        "tokens_estimated": whole and whole.estimated,
        "loop_tokens": looping and looping.tokens,
        "loop_seconds": looping and looping.seconds,
        "loop_money": looping and looping.money,
        "tokens_after_notice": late and late.tokens,
    }


def verdict_html(detections: Iterable["Detection"]) -> str:
    """A table for notebooks: a row for each loop, or for a conversation without one."""
    rows = [["conversation", "messages", "loop", "since–to", "tokens", "what repeats", "collapsed"]]
    for each in detections:
        collapsed = "" if each.collapsed_turns is None else f"{each.collapsed_turns} turns"
        head = [each.id, str(each.messages or each.turns)]
        loops = [
            [
                name_kind(loop.kind, loop.period, loop.stream),
                describe_span(loop.began, loop.ended),
                "~" * loop.cost.estimated + f"{loop.cost.tokens:,}" if loop.cost else "",
                loop.excerpt,
            ]
            for loop in list_verdicts(each.loops)
        ]
        none = ["" if each.looping is None else "no", "", "", ""]
        rows += [[*head, *cells, collapsed] for cells in loops or [none]]
    lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def verdict_frame(detections: Iterable["Detection"]) -> Any:
    """Build a pandas DataFrame, with a column for each metadata field of the log."""
    require_extra("pandas")
    import pandas as pd  # noqa: PLC0415 - large, and optional

    found = list(detections)
    traced = any(detection.trace is not None for detection in found)
    columns = dict(TURN_COLUMNS if traced else CONVERSATION_COLUMNS)
    columns.pop("metadata", None)  # its fields have their own columns
    fields = dict.fromkeys(name for each in found for name in each.metadata if name not in columns)
    rows = [{**each.metadata, **row} for each in found for row in verdict_rows(each)]
    frame = pd.DataFrame(rows, columns=[*columns, *fields])
    return frame.astype({name: DTYPES[kind] for name, kind in columns.items() if kind in DTYPES})
