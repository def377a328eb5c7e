"""A log as a stream of JSON values, one per line or over several, and why one can't be read."""

import codecs
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, BinaryIO

from chimeralab.readers.opening import read_whole
from chimeralab.readers.seam import Place, Report, Unreadable

MAX_LINE = 64 << 20
MOST_MEMORY = 4 << 30
BYTES_OF_A_VALUE = 72  # of a short list, object, text or number, with its place in what holds it


# NaN and infinities are not JSON, and what is not a number is absent.
_DECODER = json.JSONDecoder(
    parse_constant=lambda name: None,
    parse_float=lambda digits: number if math.isfinite(number := float(digits)) else None,
)
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


def values_of(raw: bytes) -> Iterator[tuple[Any, int]]:
    """JSON values that follow one another over any number of lines, each with its first line.

    >>> list(values_of(b'{"id":\\n 1}\\n[2]'))
    [({'id': 1}, 1), ([2], 3)]
    """
    _refuse_to_fill_memory(raw)
    try:
        text = raw.decode()
        line, end = 1, 0
        while (blanks := _BLANKS.match(text, end)) and (start := blanks.end()) < len(text):
            line += text.count("\n", end, start)
            value, after = _DECODER.raw_decode(text, start)
            yield value, line
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


def items_of(stream: BinaryIO, place: Place, bad: Report) -> Iterator[tuple[Any, Place]]:
    """Every value of a log. JSON Lines stream; a value over several lines is loaded whole."""
    lines = lines_of(stream, place, bad)
    start = list(islice(lines, 2))
    if not goes_on(start):
        yield from values_on(chain(start, lines), place, bad)
        return
    (first, number), (second, behind) = start
    blank_lines = b"\n" * (behind - number - 1)
    try:
        for value, line in values_of(first + blank_lines + second + read_whole(stream)):
            yield value, place.at(line + number - 1)
    except Unreadable as problem:
        bad(str(problem), place.at(problem.line + number - 1))


def goes_on(lines: Sequence[tuple[bytes, int]]) -> bool:
    """Whether a value goes on from one line to the next: no complete one ends or starts so."""
    if len(lines) < 2:
        return False
    (first, _), (second, _) = lines
    ends_open = first.rstrip().endswith((b"[", b"{", b",", b":"))
    return ends_open or second.lstrip().startswith((b",", b"]", b"}"))


def values_on(
    lines: Iterable[tuple[bytes, int]], place: Place, bad: Report
) -> Iterator[tuple[Any, Place]]:
    """The values of lines that hold one each."""
    for raw, number in lines:
        try:
            value = value_of(raw)
        except Unreadable as problem:
            bad(str(problem), place.at(number))
        else:
            yield value, place.at(number)


def lines_of(
    stream: BinaryIO, place: Place, bad: Report, number: int = 1
) -> Iterator[tuple[bytes, int]]:
    """The lines that are not blank, counted from `number`."""
    try:
        while raw := stream.readline(MAX_LINE + 1):
            if len(raw) > MAX_LINE:
                while raw and not raw.endswith(b"\n"):
                    raw = stream.readline(MAX_LINE + 1)
                reason = f"the line is longer than {MAX_LINE >> 20} MB; put less on one line"
                bad(reason, place.at(number))
            elif not raw.isspace():
                yield raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw, number
            else:
                number += _skip_blank_lines(stream)
            number += 1
    except (OSError, Unreadable) as problem:
        bad(str(problem), place.at(number))


def _skip_blank_lines(stream: BinaryIO) -> int:
    """Pass over empty lines by the buffer, since there may be millions; says how many."""
    skipped = 0
    while isinstance(stream, io.BufferedReader) and (ahead := stream.peek()):
        blanks = len(ahead) - len(ahead.lstrip())
        end = ahead.rfind(b"\n", 0, blanks) + 1
        skipped += stream.read(end).count(b"\n")
        if end < len(ahead):
            break
    return skipped
