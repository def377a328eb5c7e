"""Conversations in memory: lists of messages or turns, and DataFrames.

They have the shapes of logs, so the readers of logs parse them.
"""

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import PurePath
from typing import Any, NoReturn, Protocol, TypeGuard

from chimeralab.core.errors import InputError, LogError
from chimeralab.core.records import Call, Trajectory, Turn
from chimeralab.readers.agents import is_langchain, langchain_message
from chimeralab.readers.chat import ChatMessage, Content, parse_message
from chimeralab.readers.formats import UNKNOWN, Formats
from chimeralab.readers.logs import read_conversations
from chimeralab.readers.seam import Place, Unreadable
from chimeralab.readers.tables import WHOLE, RowPerTurn, cell_value, guess_columns

ACCEPTED = (
    "a list of texts, of messages with role and content, of LangChain messages or of Turns,"
    " a Trajectory, or a DataFrame of pandas or polars"
)
MAX_COLUMNS = 12


class DataFrame(Protocol):
    """A DataFrame of pandas or polars; neither package is imported."""

    @property
    def columns(self) -> Any: ...

    @property
    def shape(self) -> tuple[int, int]: ...


def is_frame(value: Any) -> TypeGuard[DataFrame]:
    return all(hasattr(value, name) for name in ("to_dict", "shape", "columns"))


def parse_conversation(value: Any, name: str = "conversation") -> Trajectory:
    """Parse one conversation; anything else is an `InputError`.

    >>> talk = parse_conversation([{"role": "user", "content": "Hi"}])
    >>> talk.turns[0].text, talk.turns[0].speaker
    ('Hi', 'user')
    """
    if isinstance(value, Trajectory):
        for turn in value.turns:
            check_turn(turn)
        return value
    items = _items(value)
    if all(isinstance(item, str) for item in items):
        return Trajectory(name, tuple(map(Turn, items)))
    if all(isinstance(item, Turn) for item in items):
        return Trajectory(name, tuple(map(check_turn, items)))
    if any(isinstance(item, str) for item in items):
        n = next(n for n, item in enumerate(items) if not isinstance(item, str))
        raise InputError(f"item {n} of the list is {_kind(items[n])}, not a text as others are")
    messages = [_fields(item, n) for n, item in enumerate(items)]
    place = Place("these messages", name, line=1)
    try:
        found = list(islice(read_conversations([(messages, place)], Formats(), place, _raise), 2))
    except LogError as error:
        item, _, reason = error.reason.rpartition(f": {UNKNOWN}: ")
        if item:  # the reader took the list for one of conversations
            number = int(item.rpartition(" ")[2]) - 1
            reason = f"item {number} is not a message in a known format: {reason}"
        raise InputError(f"these messages can't be read: {reason}") from None
    if len(found) != 1:
        raise InputError("this is a list of several conversations; use detect_all")
    return replace(found[0], id=name, source=None)


def list_messages(value: Any) -> Sequence[Any]:
    """List the messages of one conversation that goes on: texts, turns, or messages as dicts.

    Messages of a format that has to be read as a whole become turns, up to the first one whose
    calls wait for their results: a turn that was listed once does not change later.
    """
    if isinstance(value, Trajectory):
        return _cut_unsettled(value.turns)
    if is_frame(value):
        found = list(islice(parse_frame(value), 2))
        if len(found) != 1:
            raise InputError("this DataFrame does not have one conversation; pass one at a time")
        return _cut_unsettled(found[0].turns)
    items = _items(value)
    if any(isinstance(item, Turn) for item in items):
        return _cut_unsettled(items)
    messages = [item if isinstance(item, str) else _fields(item, n) for n, item in enumerate(items)]
    if all(isinstance(m, str) or is_langchain(m) or _has_role(m) for m in messages):
        return messages
    return _cut_unsettled(parse_conversation(messages).turns)


def _has_role(message: Mapping[str, Any]) -> bool:
    """Whether a message can be read without the others; Gemini's, with parts, can't."""
    return isinstance(message.get("role"), str) and "parts" not in message


def _cut_unsettled(turns: Sequence[Any]) -> Sequence[Any]:
    """The turns before the first one whose calls still wait for their results."""
    for n in range(len(turns) - 1, -1, -1):
        turn = turns[n]
        calls = turn.calls if isinstance(turn, Turn) else ()
        if any(call.result is None for call in calls):
            return turns[:n]
        if calls or not isinstance(turn, Turn) or turn.spoken:
            break
    return turns


def parse_frame(frame: DataFrame) -> Iterator[Trajectory]:
    """Parse the conversations of a DataFrame: a conversation, a turn or a text per row."""
    names = list(map(str, frame.columns))
    columns = guess_columns(dict.fromkeys(names))
    value: Any = frame
    of_polars = hasattr(value, "iter_rows")
    cells = value.iter_rows() if of_polars else value.itertuples(index=False, name=None)
    rows = [
        {name: _plain(name, cell) for name, cell in zip(names, row, strict=True)} for row in cells
    ]
    whole = any(isinstance(row.get(n), list) for n in names if n.lower() in WHOLE for row in rows)
    if not whole and "text" not in columns:
        listed = ", ".join(map(repr, names[:MAX_COLUMNS])) or "none"
        raise InputError(
            "no column of this DataFrame is recognised as texts or messages; rename it to 'text' or"
            f" 'messages' (columns: {listed})"
        )
    numbered = columns.get("id", "").lower() == "id"
    if numbered and len({row[columns["id"]] for row in rows}) == len(rows) > 1 and not whole:
        del columns["id"]  # unique per row, so not an id of conversations
    reader = None if whole else type("FrameRows", (RowPerTurn,), {"columns": columns})
    place = Place("frame", "frame")
    values = ((row, place.at(n)) for n, row in enumerate(rows, start=1))
    try:
        for found in read_conversations(values, Formats(reader), place, _raise):
            yield replace(found, source=None)
    except LogError as error:
        raise InputError(f"row {error.line} of the DataFrame: {error.reason}") from None


def parse_any_message(value: Any) -> ChatMessage:
    """Parse one message: a text, a `Turn`, or a message as a dict or object."""
    if isinstance(value, str):
        return ChatMessage(Turn(value), Content(value))
    if isinstance(value, Turn):
        calls = tuple((None, call) for call in check_turn(value).calls)
        return ChatMessage(value, Content(value.text, bool(calls), calls))
    try:
        fields = _fields(value, None)
        return (langchain_message if is_langchain(fields) else parse_message)(fields, "message")
    except Unreadable as error:
        raise InputError(f"this message can't be read: {error}") from None


def check_turn(turn: Turn) -> Turn:
    """Check the types of a turn's fields, which records don't validate."""
    if not isinstance(turn, Turn):
        raise InputError(f"a turn of the Trajectory is {_kind(turn)}, not a Turn")
    if not isinstance(turn.text, str):
        raise InputError(f"the text of a Turn is {type(turn.text).__name__}, not str")
    if not all(isinstance(call, Call) for call in turn.calls):
        raise InputError("the calls of a Turn are not all of the type Call")
    return turn


def _items(value: Any) -> list[Any]:
    """List the items of a list, iterator, column or array; reject anything else."""
    texts = str | bytes | bytearray | memoryview
    to_list = getattr(value, "tolist", None) or getattr(value, "to_list", None)
    if callable(to_list) and not is_frame(value):
        value = to_list()
    is_list = isinstance(value, Sequence) and not isinstance(value, texts)
    is_iterator = isinstance(value, Iterator) and not isinstance(value, io.IOBase)
    if not is_list and not is_iterator:
        _reject(value)
    return list(value)


def _reject(value: Any) -> NoReturn:
    what = _kind(value)
    if isinstance(value, str | PurePath | io.IOBase):
        raise InputError(
            f"{what} is not a conversation; pass a list of texts, or read a log with detect_file"
        )
    if isinstance(value, Mapping):
        inner = next((key for key in WHOLE if isinstance(value.get(key), list)), None)
        hint = f"; pass its {inner!r}" if inner else f"; detect takes {ACCEPTED}"
        raise InputError(f"{what} is not a conversation{hint}")
    if hasattr(value, "collect") and hasattr(type(value), "columns"):
        raise InputError(f"{what} is lazy; call its collect() first")
    raise InputError(f"{what} is not a conversation; detect takes {ACCEPTED}")


def _fields(item: Any, number: int | None) -> dict[str, Any]:
    """Return a message as a dict; LangChain and provider SDKs have objects."""
    if isinstance(item, Mapping):
        return dict(item)
    dump = getattr(item, "model_dump", None)
    if callable(dump) and not isinstance(item, type):
        fields: dict[str, Any] = dump()
        wrapped = {"type": fields.get("type"), "data": fields}
        return wrapped if "content" in fields and is_langchain(wrapped) else fields
    place = "this" if number is None else f"item {number} of the list"
    if isinstance(item, list | tuple | Trajectory) or is_frame(item):
        raise InputError(f"{place} is {_kind(item)}; use detect_all for several conversations")
    raise InputError(
        f"{place} is {_kind(item)}, not a string, a Turn or a message with role and content"
    )


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _plain(name: str, cell: Any) -> Any:
    """Convert a cell to a JSON value: arrays to lists, missing values to None."""
    if isinstance(cell, str):
        return cell_value(name, cell)
    if isinstance(cell, float) and math.isnan(cell):
        return None
    if type(cell).__name__ in ("NAType", "NaTType"):
        return None
    if hasattr(cell, "tolist"):
        cell = cell.tolist()
    if isinstance(cell, list | tuple):
        return [_plain("", each) for each in cell]
    if isinstance(cell, dict):
        return {key: _plain("", each) for key, each in cell.items()}
    return cell


def _raise(reason: str, place: Place) -> NoReturn:
    raise place.error(reason)
