"""Reading a model rater's answer: strict where it counts, and every repair is written down."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, get_args

from chimeralab.core.errors import ChimeraError
from chimeralab.rating.ratings import Item
from chimeralab.rating.rubric import Label, Rubric, StepName

NUMBER = re.compile(r"[Tt]?(?:urn )?(\d+)")


class Unreadable(ChimeraError):
    """An answer that can't be used, and why."""


class Answer(NamedTuple):
    """What a model rater said, and what had to be mended to read it."""

    label: Label
    turns: tuple[int, ...]
    step: StepName | None
    reason: str
    repairs: tuple[str, ...]


def read_answer(text: str, item: Item, mark: str, rubric: Rubric) -> Answer:
    """Take the one answer out of a text; raises `Unreadable` when there is none to trust."""
    repairs: list[str] = []
    values = _chosen(text, item, mark, repairs)
    label = _label(values.get("label"), repairs)
    turns = _turns(values.get("turns"), item, repairs)
    reason = values.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        raise Unreadable("no reason is given")
    if label == 1 and not _is_stretch(turns, rubric.adjacent_turns):
        raise Unreadable(f"a 1 must name {rubric.adjacent_turns} adjacent turns or more")
    step = _step(values.get("step"), repairs)
    return Answer(label, turns, step, " ".join(reason.split()), tuple(repairs))


def _chosen(text: str, item: Item, mark: str, repairs: list[str]) -> dict[str, Any]:
    """The answer that carries the mark; one without a mark only when it is the model's own."""
    found = list(_objects(text))
    marked = [values for values, _ in found if values.get("mark") == mark]
    own = [
        values
        for values, source in found
        if "mark" not in values
        and "label" in values
        and not any(source in turn for turn in item.texts)
    ]
    chosen = marked or own
    if not chosen:
        raise Unreadable("no JSON object that carries the mark")
    if len({json.dumps(values.get("label")) for values in chosen}) > 1:
        raise Unreadable("two answers that differ")
    if not marked:
        repairs.append("the mark is missing")
    if text.strip() != found[0][1]:
        repairs.append("other text around the object")
    return chosen[-1]


def _objects(text: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Every outermost JSON object in a text, with its source."""
    decoder, at = json.JSONDecoder(), text.find("{")
    while at >= 0:
        try:
            values, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            yield values, text[at:end]
        at = text.find("{", end)


def _label(value: Any, repairs: list[str]) -> Label:
    if isinstance(value, int) and not isinstance(value, bool) and value in (0, 1):
        return 1 if value else 0
    if isinstance(value, bool) or value in ("0", "1", 0.0, 1.0):
        repairs.append("the label is not a plain 0 or 1")
        return 1 if value in (True, "1", 1.0) else 0
    raise Unreadable("the label is neither 0 nor 1")


def _turns(value: Any, item: Item, repairs: list[str]) -> tuple[int, ...]:
    numbers = [_turn(entry, repairs) for entry in value] if isinstance(value, list) else []
    if value is not None and not isinstance(value, list):
        raise Unreadable("turns is not a list")
    outside = next((n for n in numbers if not 1 <= n <= len(item.texts)), None)
    if outside is not None:
        raise Unreadable(f"turn {outside} does not exist")
    turns = sorted(set(numbers))
    if len(numbers) == 2 and len(turns) == 2 and turns[1] > turns[0] + 1:
        repairs.append("first and last turn instead of all")
        turns = list(range(turns[0], turns[1] + 1))
    return tuple(turns)


def _turn(entry: Any, repairs: list[str]) -> int:
    if isinstance(entry, int) and not isinstance(entry, bool):
        return entry
    found = NUMBER.fullmatch(entry.strip()) if isinstance(entry, str) else None
    if found is None:
        raise Unreadable("a turn is not a number")
    repairs.append("a turn is written as text")
    return int(found[1])


def _step(value: Any, repairs: list[str]) -> StepName | None:
    if value in get_args(StepName):
        named: StepName = value
        return named
    repairs.append("the step is missing or unknown")
    return None


def _is_stretch(turns: tuple[int, ...], enough: int) -> bool:
    return len(turns) >= enough and all(later == turn + 1 for turn, later in pairwise(turns))
