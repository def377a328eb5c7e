"""JSON text to values, with a plain reason for whatever can't be read."""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from chimeralab.readers.expect import Unreadable


class Item(NamedTuple):
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
    try:
        return _DECODER.decode(raw.decode())
    except (ValueError, RecursionError) as error:
        raise _explained(error) from None


def values_of(raw: bytes) -> Iterator[Item]:
    """JSON values that follow one another, each over any number of lines.

    >>> list(values_of(b'{"id":\\n 1}\\n[2]'))
    [Item(value={'id': 1}, line=1), Item(value=[2], line=3)]
    """
    try:
        text = raw.decode()
        line, end = 1, 0
        while (start := _skip_blanks(text, end)) < len(text):
            line += text.count("\n", end, start)
            value, after = _DECODER.raw_decode(text, start)
            yield Item(value, line)
            line += text.count("\n", start, after)
            end = after
    except (ValueError, RecursionError) as error:
        raise _explained(error) from None


def _skip_blanks(text: str, start: int) -> int:
    blanks = _BLANKS.match(text, start)
    return blanks.end() if blanks else start


def _explained(error: ValueError | RecursionError) -> Unreadable:
    match error:
        case RecursionError():
            return Unreadable("the JSON is nested too deeply")
        case UnicodeDecodeError():
            byte = error.object[error.start]
            return Unreadable(f"not UTF-8 text (byte 0x{byte:02x} at offset {error.start})")
        case json.JSONDecodeError():
            return Unreadable(_syntax(error), error.lineno)
        case _:
            return Unreadable("holds a whole number with too many digits to read")


def _syntax(error: json.JSONDecodeError) -> str:
    if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated"):
        return f"the JSON breaks off at column {error.colno} ({error.msg})"
    return f"not valid JSON at column {error.colno} ({error.msg})"
