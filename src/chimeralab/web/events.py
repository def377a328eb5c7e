"""What happens in a study, a line each: turns, failed attempts, what was done to a conversation."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from chimeralab.core.text import inert
from chimeralab.study.store import Archive

MOST_LINES = 40
LONGEST = 300
FAILED = """
    SELECT id, trajectory, turn, outcome, reason, ended FROM attempts
    WHERE outcome IS NOT NULL AND outcome != 'answered'
"""
DONE = "SELECT id, trajectory, turn, kind, detail, at FROM events"

Line = dict[str, str]
"""A line of a list: its anchor `id`, what it is about (`head`), and its `text`."""


def newest_failures(archive: Archive) -> list[Line]:
    """The newest failed attempts, the last one first."""
    return _lines(archive, f"{FAILED} ORDER BY id DESC LIMIT ?", failure_line, MOST_LINES)


def newest_events(archive: Archive) -> list[Line]:
    """What was done to conversations last, the last first."""
    return _lines(archive, f"{DONE} ORDER BY id DESC LIMIT ?", event_line, MOST_LINES)


def events_of(archive: Archive, talk: str) -> list[Line]:
    """All that was done to a conversation, the last first."""
    found = _lines(archive, f"{DONE} WHERE trajectory = ? ORDER BY id DESC", event_line, talk)
    return [{**line, "head": line["head"].removeprefix(f"{inert(talk)}, ")} for line in found]


def _lines(
    archive: Archive, query: str, line: Callable[[Mapping[str, Any]], Line], value: object
) -> list[Line]:
    return [line(row) for row in archive.rows(query, value)]


def turn_line(row: Mapping[str, Any]) -> Line:
    head = f"{row['turn']} {row['speaker']}"
    return {"id": f"turn-{row['turn']}", "head": inert(head), "text": inert(row["text"])}


def failure_line(row: Mapping[str, Any]) -> Line:
    where = f"{row['trajectory']}, turn {row['turn']}"
    text = f"{row['outcome']}: {row['reason']}" if row["reason"] else row["outcome"]
    return {"id": f"failure-{row['id']}", "head": inert(where), "text": inert(text)}


def event_line(row: Mapping[str, Any]) -> Line:
    where = f"{row['trajectory']}, turn {row['turn']}: {row['kind']}"
    return {"id": f"event-{row['id']}", "head": inert(where), "text": inert(_told(row["detail"]))}


def _told(detail: str) -> str:
    """The detail of an event in a line: what a stressor put in or took out, or its fields."""
    found = json.loads(detail)
    injections: Iterable[Mapping[str, Any]] = found.get("injections", ())
    said = [
        f"{each['action']} ({each['kind']}): {each['text']}"
        + (f" → {each['instead']}" if each.get("instead") else "")
        for each in injections
    ]
    rest = [f"{name} {value}" for name, value in found.items() if name != "injections"]
    text = "; ".join([*said, *rest])
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
