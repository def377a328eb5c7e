"""A log as a stream of JSON values, one per line or over several, and why one can't be read."""

import codecs
import io
import json
import math
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, BinaryIO, NamedTuple

from chimeralab.readers.fields import Unreadable
from chimeralab.readers.opening import read_whole
from chimeralab.readers.seam import Place, Report

MAX_LINE = 64 << 20
MOST_MEMORY = 4 << 30
BYTES_OF_A_VALUE = 72  # of a short list, object, text or number, with its place in what holds it


class JsonValue(NamedTuple):
    """A JSON value and the line on which it starts, counted from 1."""

    value: Any
    line: int


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


# NaN and infinities are not JSON, and what is not a number is absent.
_DECODER = json.JSONDecoder(parse_constant=lambda name: None, parse_float=_finite)
_BLANKS = re.compile(r"[ \t\r\n]*")


def value_of(raw: bytes) -> Any:
    """The one JSON value that the text holds.

    >>> value_of(b'{"turns": ["Hi"], "score": NaN}')
    {'turns': ['Hi'], 'score': None}
    """
    _refuse_to_fill_memory(raw)
    try:
        return _DECODER.decode(raw.decode())
    except (ValueError, RecursionError) as error:
        raise _explained(error) from None


def values_of(raw: bytes) -> Iterator[JsonValue]:
    """JSON values that follow one another, each over any number of lines.

    >>> list(values_of(b'{"id":\\n 1}\\n[2]'))
    [JsonValue(value={'id': 1}, line=1), JsonValue(value=[2], line=3)]
    """
    _refuse_to_fill_memory(raw)
    try:
        text = raw.decode()
        line, end = 1, 0
        while (blanks := _BLANKS.match(text, end)) and (start := blanks.end()) < len(text):
            line += text.count("\n", end, start)
            value, after = _DECODER.raw_decode(text, start)
            yield JsonValue(value, line)
            line += text.count("\n", start, after)
            end = after
    except (ValueError, RecursionError) as error:
        raise _explained(error) from None


def _refuse_to_fill_memory(raw: bytes) -> None:
    """Raise where JSON, empty lists at worst, would take many times its size as values."""
    values = sum(raw.count(mark) for mark in (b"[", b"{", b",", b":"))
    if 3 * len(raw) + BYTES_OF_A_VALUE * values > MOST_MEMORY:
        raise Unreadable(
            f"would take more than {MOST_MEMORY >> 30} GB of memory; write one conversation "
            "per line"
        )


def _explained(error: ValueError | RecursionError) -> Unreadable:
    match error:
        case RecursionError():
            return Unreadable("the JSON is nested too deeply")
        case UnicodeDecodeError():
            byte = error.object[error.start]
            return Unreadable(f"not UTF-8 text (byte 0x{byte:02x} at offset {error.start})")
        case json.JSONDecodeError():
            ends = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated")
            what = "the JSON breaks off" if ends else "not valid JSON"
            return Unreadable(f"{what} at column {error.colno} ({error.msg})", error.lineno)
        case _:
            return Unreadable("holds a whole number with too many digits to read")


class RawLine(NamedTuple):
    raw: bytes
    number: int


def items_of(stream: BinaryIO, place: Place, bad: Report) -> Iterator[JsonValue]:
    """Every value of a log. JSON Lines stream; a value over several lines is loaded whole."""
    lines = lines_of(stream, place, bad)
    first, second = next(lines, None), next(lines, None)
    if first and second and goes_on(first, second):
        above = first.number - 1
        blank_lines = b"\n" * (second.number - first.number - 1)
        try:
            for item in values_of(first.raw + blank_lines + second.raw + read_whole(stream)):
                yield JsonValue(item.value, item.line + above)
        except Unreadable as problem:
            bad(str(problem), place.at(problem.line + above))
        return
    yield from values_on(chain(filter(None, [first, second]), lines), place, bad)


def goes_on(first: RawLine, second: RawLine) -> bool:
    """Whether a value goes on from one line to the next: no complete one ends or starts so."""
    ends_open = first.raw.rstrip().endswith((b"[", b"{", b",", b":"))
    return ends_open or second.raw.lstrip().startswith((b",", b"]", b"}"))


def values_on(lines: Iterable[RawLine], place: Place, bad: Report) -> Iterator[JsonValue]:
    """The values of lines that hold one each."""
    for line in lines:
        try:
            item = JsonValue(value_of(line.raw), line.number)
        except Unreadable as problem:
            bad(str(problem), place.at(line.number))
        else:
            yield item


def lines_of(stream: BinaryIO, place: Place, bad: Report, number: int = 1) -> Iterator[RawLine]:
    """The lines that are not blank, counted from `number`."""
    while raw := _next_line(stream, place.at(number), bad):
        if len(raw) > MAX_LINE:
            while raw and not raw.endswith(b"\n"):
                raw = _next_line(stream, place.at(number), bad)
            reason = f"the line is longer than {MAX_LINE >> 20} MB; put less on one line"
            bad(reason, place.at(number))
        elif not raw.isspace():
            yield RawLine(raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw, number)
        else:
            number += _skip_blank_lines(stream, place.at(number), bad)
        number += 1


def _next_line(stream: BinaryIO, place: Place, bad: Report) -> bytes:
    try:
        return stream.readline(MAX_LINE + 1)
    except (OSError, Unreadable) as problem:
        bad(str(problem), place)
        return b""


def _skip_blank_lines(stream: BinaryIO, place: Place, bad: Report) -> int:
    """Pass over empty lines by the buffer, since there may be millions; says how many."""
    skipped = 0
    if not isinstance(stream, io.BufferedReader):
        return skipped
    try:
        while ahead := stream.peek():
            blanks = len(ahead) - len(ahead.lstrip())
            end = ahead.rfind(b"\n", 0, blanks) + 1
            skipped += stream.read(end).count(b"\n")
            if end < len(ahead):
                break
    except (OSError, Unreadable) as problem:
        bad(str(problem), place)
    return skipped
