"""Logs that are not JSON: tables with a row per turn, and transcripts of `Name: text` lines.

Rows with a whole conversation, say in a column `messages`, are read by that format's reader.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from operator import itemgetter
from typing import Any, BinaryIO, ClassVar

from chimeralab.core.errors import InputError
from chimeralab.core.extras import require_extra
from chimeralab.core.records import ROLES, SILENT_ROLES, Trajectory, Turn, normalize_role
from chimeralab.readers.chat import ChatMessage, Content, annotate, join_turns, parse_message
from chimeralab.readers.seam import (
    NO_OBJECTS,
    VAGUE,
    Place,
    Reader,
    Report,
    Text,
    Unreadable,
    as_object,
    get_id,
    json_type,
    other_scalars,
    try_json,
)
from chimeralab.readers.streams import FREE_EXPANSION, MAX_LINE, check_expansion

USUAL = {
    "id": (
        "conversation_id", "conversation", "conv_id", "conversation_hash", "dialogue_id",
        "dialog_id", "session_id", "session", "thread_id", "chat_id", "talk_id", "trajectory_id",
        "episode_id", "id",
    ),
    "speaker": ("speaker", "role", "author", "sender", "from", "participant", "agent"),
    "text": ("text", "content", "message", "utterance", "body", "msg", "value"),
    "order": ("turn", "turn_id", "turn_index", "turn_number", "index", "position", "step"),
}  # fmt: skip
"""Usual column names, most specific first."""

WHOLE = ("messages", "conversation", "conversations", "turns", "chosen", "traj")
"""Columns whose cells are whole conversations."""

NAMED = "name the columns with --columns id=…,speaker=…,text=…"
HEADER = re.compile(r"[\w .()/#-]{1,64}")
ROWS_AT_ONCE = 256


class RowPerTurn(Reader):
    """A row per turn, grouped by conversation id; without ids, a file is one conversation."""

    name = "rows"
    recognised = "rows (JSON Lines, CSV, Parquet) with a speaker or role and a text or content"
    turns = "a row; rows are grouped by conversation_id, in order of turn or of the file"
    left_out = "columns that change from row to row"
    whole = False
    max_sureness = VAGUE

    columns: ClassVar[Mapping[str, str]] = {}
    """The columns that the user named."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Mapping[str, Any]]] = {}

    def matches(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        found = self.columns or guess_columns(value)
        if self.columns:
            return found["text"] in value
        text = value.get(found.get("text", ""))
        return "speaker" in found and "text" in found and isinstance(text, str | list | None)

    def sureness(self, value: Any) -> float:
        return VAGUE if self.matches(value) else 0.0

    def is_note(self, value: Any) -> bool:
        # Such as a title among the messages of a session.
        typed = isinstance(value, dict) and isinstance(value.get("type", value.get("kind")), str)
        return typed and "text" not in guess_columns(value)

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        row = as_object(value, "the row")
        found = self.columns or guess_columns(row)
        for name in self.columns.values():
            if name not in row:
                known = ", ".join(map(repr, list(row)[:12]))
                raise Unreadable(f"there is no column {name!r}; its columns: {known}")
        if "text" not in found:
            raise Unreadable(f"no column is recognised as the text; {NAMED}")
        _row_message(row, found)
        named = get_id(row, found["id"]) if "id" in found else place.stem
        self._rows.setdefault(named or place.stem, []).append(row)
        return iter(())

    def finish(self, place: Place) -> Iterator[Trajectory]:
        for name, rows in self._rows.items():
            pairs = [(row, self.columns or guess_columns(row)) for row in rows]
            about = other_scalars(rows[0], exclude=set(pairs[0][1].values()))
            orders = [_number(row.get(found.get("order", ""))) for row, found in pairs]
            if None not in orders:
                ordered = sorted(zip(orders, pairs, strict=True), key=itemgetter(0))
                pairs = [pair for _, pair in ordered]
            turns = join_turns(_row_message(row, found) for row, found in pairs)
            kept = {k: v for k, v in about.items() if all(row.get(k) == v for row in rows)}
            yield Trajectory(name, turns, kept, str(place))


def guess_columns(row: Mapping[str, Any]) -> dict[str, str]:
    """Recognise the columns of a row by their usual names.

    >>> guess_columns({"conversation_id": 1, "Role": "user", "text": "Hi"})
    {'id': 'conversation_id', 'speaker': 'Role', 'text': 'text'}
    """
    folded = {str(name).strip().lower(): name for name in row}
    known = {part: [name for name in names if name in folded] for part, names in USUAL.items()}
    return {part: folded[names[0]] for part, names in known.items() if names}


def _row_message(row: Mapping[str, Any], found: Mapping[str, str]) -> ChatMessage:
    speaker, text = row.get(found.get("speaker", "")), row.get(found["text"])
    if found.get("speaker") == "role" and found["text"] == "content":
        return parse_message(row, "the row")
    if not isinstance(speaker, str | int | None):
        raise Unreadable(f"{found['speaker']} is {json_type(speaker)}, not a name")
    if not isinstance(text, str | None):
        raise Unreadable(f"{found['text']} is {json_type(text)}, not text")
    name = None if speaker is None else str(speaker)
    aloud = normalize_role(name or "") not in SILENT_ROLES
    message = ChatMessage(Turn(text or "", name, spoken=aloud), Content(text or ""))
    return annotate(message, {key: row[key] for key in row if key not in found.values()})


def _number(value: Any) -> float | None:
    try:
        return float(value) if isinstance(value, str | int | float) else None
    except (ValueError, OverflowError):
        return None


def rows_with(asked: str) -> type[RowPerTurn]:
    """Make a reader of rows with named columns: `id=chat,speaker=who,text=said`."""
    given = [part.partition("=") for part in asked.split(",") if part.strip()]
    columns = {key.strip(): name.strip() for key, _, name in given}
    unknown = next((key for key in columns if key not in USUAL), None)
    if unknown is not None or not all(columns.values()):
        wrong = repr(unknown) if unknown is not None else "a column without a name"
        raise InputError(f"--columns has {wrong}; expected id=…,speaker=…,text=… (and order=…)")
    if "text" not in columns:
        raise InputError("--columns must name the text column: text=…")
    return type("NamedRows", (RowPerTurn,), {"columns": columns})


def find_separator(line: str) -> str | None:
    """Find the separator of a table by its first line; None if that is not a header."""
    separator = max(",;\t", key=line.count)
    try:
        cells = next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return None
    names = [cell.strip() for cell in cells]
    is_header = all(map(HEADER.fullmatch, names)) and len(set(names)) == len(names)
    alone = len(names) == 1 and names[0].lower() not in (*USUAL["text"], *WHOLE)
    return separator if names and is_header and not alone else None


def is_header(line: str, separator: str) -> bool:
    """Whether a line names a column of texts, or of whole conversations."""
    names = [name.strip().lower() for name in next(csv.reader([line], delimiter=separator), [])]
    return "text" in guess_columns(dict.fromkeys(names)) or not set(WHOLE).isdisjoint(names)


def csv_rows(
    stream: BinaryIO, separator: str, place: Place, report: Report, *, sure: bool
) -> Iterator[tuple[Any, Place]]:
    """Yield the rows of a CSV table; cells that are JSON are parsed."""
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE))
    raw_lines = iter(lambda: stream.readline(MAX_LINE + 1), b"")
    text = (line.decode().removeprefix("\ufeff") for line in raw_lines)
    reader = csv.reader(text, delimiter=separator, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        known = guess_columns(dict.fromkeys(header))
        if not (sure or "text" in known or any(name.lower() in WHOLE for name in header)):
            columns = ", ".join(map(repr, header[:12]))
            raise Unreadable(f"looks like a table with the columns {columns}; {NAMED}")
        for cells in reader:
            here = place.at(reader.line_num)
            if len(cells) > len(header):
                report(f"{len(cells)} cells under {len(header)} column names", here)
            elif cells:
                row = zip_longest(header, cells, fillvalue="")
                yield {name: cell_value(name, cell) for name, cell in row}, here
    except UnicodeDecodeError as error:
        report(f"looks like a table, but is not UTF-8 text ({error.reason})", place)
    except csv.Error as error:
        report(f"not valid CSV ({error})", place.at(reader.line_num))


def cell_value(column: str, cell: str) -> Any:
    """Return the text of a cell, or its JSON if the column is one of messages."""
    inner = try_json(cell) if column.lower() in (*WHOLE, "rejected", "tool_calls") else None
    return cell if inner is None else inner


def parquet_rows(
    stream: BinaryIO,
    place: Place,
    report: Report,
    groups: Iterable[int] | None = None,
    first: int = 1,
) -> Iterator[tuple[Any, Place]]:
    """Stream the rows of a Parquet file, or of some of its row groups."""
    require_extra("parquet")
    import pyarrow as pa  # noqa: PLC0415 - large, and only Parquet needs it
    import pyarrow.parquet as pq  # noqa: PLC0415

    size, seen, number = stream.seek(0, io.SEEK_END), 0, first
    stream.seek(0)
    try:
        with pq.ParquetFile(stream) as table:
            read = range(table.num_row_groups) if groups is None else groups
            parts = [table.metadata.row_group(n) for n in read]
            check_expansion(size, sum(part.total_byte_size for part in parts))
            # A text that many rows share is in the file once, and is no longer than its row group.
            # (Of a damaged file, the metadata of a column would end the process.)
            longest = max((part.total_byte_size for part in parts), default=0)
            rows = max(1, min(ROWS_AT_ONCE, 4 * FREE_EXPANSION // max(1, longest)))
            has_dictionaries = "dictionary<" in str(table.schema_arrow)
            for batch in table.iter_batches(rows, read):
                columns = batch.columns if has_dictionaries else [batch]
                seen += sum(map(_measure_text, columns))
                check_expansion(size, seen)
                for row in batch.to_pylist():
                    yield row, place.at(number)
                    number += 1
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        if isinstance(error, Unreadable):
            raise
        reason = str(error).partition("\n")[0]
        report(f"can't be read as Parquet ({reason})", place)


def _measure_text(data: Any) -> int:
    """The bytes of Arrow data, with each text counted as often as it occurs."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    kind = getattr(data, "type", None)
    if kind is not None and pa.types.is_dictionary(kind):
        lengths = pc.binary_length(data.dictionary.cast(pa.large_binary()))
        return pc.sum(lengths.take(data.indices)).as_py() or 0
    if kind is not None and pa.types.is_struct(kind):
        return sum(map(_measure_text, data.flatten()))
    if kind is not None and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return _measure_text(data.flatten())
    return int(data.nbytes)


LABEL = re.compile(
    r"[ \t]{0,3}(?:[-*>#]{1,6}[ \t]+)?(?:[\[(][^\])\n]{1,40}[\])][ \t]{0,3})?"
    r"(?:\*\*|__)?([^\W\d_][\w .'-]{0,39})(?:\*\*|__)?:(?:\*\*|__)?(?:[ \t]+|$)"
)
# Words before a colon that start lines of other kinds of files.
NOT_NAMES = {"info", "warning", "error", "debug", "note", "notes", "todo", "http", "https", "warn"}


def parse_transcript(text: str) -> tuple[Turn, ...] | None:
    """Parse a transcript; None unless its lines start with names that recur.

    >>> turns = parse_transcript("Ann: Hi.\\nBo: Hello!\\nHow are you?\\nAnn: Fine.\\nBo: Good.")
    >>> turns[1].speaker, turns[1].text
    ('Bo', 'Hello!\\nHow are you?')
    """
    lines = text.splitlines()
    labels = [LABEL.match(line) for line in lines]
    counted = Counter(label[1].strip() for label in labels if label)
    names = {
        name
        for name, count in counted.items()
        if name.lower() not in NOT_NAMES and (count > 1 or name.lower() in ROLES)
    }
    turns: list[tuple[str, list[str]]] = []
    for line, label in zip(lines, labels, strict=True):
        if label and label[1].strip() in names:
            turns.append((label[1].strip(), [line[label.end() :]]))
        elif turns:
            turns[-1][1].append(line)
        elif line.strip() and not line.startswith("#"):
            return None  # it starts with something else
    if len(turns) < 2 or len(names) < 2:
        return None
    return tuple(
        Turn("\n".join(text).strip(), name, spoken=normalize_role(name) not in SILENT_ROLES)
        for name, text in turns
    )


class NameAndText(Reader):
    """A text of lines that start with a name and a colon."""

    name = "transcript"
    recognised = "a text that starts with a name and a colon, with at least two recurring names"
    turns = "a line with a name, and the lines up to the next; a recurring name is a speaker"
    left_out = "headings before the first turn, times in brackets before a name"

    keys = NO_OBJECTS
    max_sureness = VAGUE

    def matches(self, value: Any) -> bool:
        return isinstance(value, Text) and parse_transcript(value) is not None

    def sureness(self, value: Any) -> float:
        return VAGUE if self.matches(value) else 0.0

    def read(self, value: Any, place: Place) -> Iterator[Trajectory]:
        turns = parse_transcript(value) if isinstance(value, Text) else None
        if turns is None:
            raise Unreadable("not a text of 'Name: text' lines")
        yield Trajectory(place.stem, turns, {}, str(place))
