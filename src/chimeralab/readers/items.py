"""A log as a stream of JSON values: one per line, or spread over several."""

import codecs
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import BinaryIO, NamedTuple

from chimeralab.readers.expect import Unreadable
from chimeralab.readers.json_text import Item, value_of, values_of
from chimeralab.readers.opening import read_whole
from chimeralab.readers.places import Place, Report

MAX_LINE = 64 << 20


class _Line(NamedTuple):
    raw: bytes
    number: int


def items_of(stream: BinaryIO, place: Place, bad: Report) -> Iterator[Item]:
    """Every value of a log. JSON Lines stream; a value over several lines is loaded whole."""
    lines = _lines(stream, place, bad)
    first, second = next(lines, None), next(lines, None)
    if first and second and _goes_on(first, second):
        blank_lines = b"\n" * (second.number - first.number - 1)
        whole = first.raw + blank_lines + second.raw + read_whole(stream)
        return _over_lines(_Line(whole, first.number), place, bad)
    return _one_per_line(chain(filter(None, [first, second]), lines), place, bad)


def _lines(stream: BinaryIO, place: Place, bad: Report) -> Iterator[_Line]:
    number = 1
    while raw := _next_line(stream, place.at(number), bad):
        if len(raw) > MAX_LINE:
            while raw and not raw.endswith(b"\n"):
                raw = _next_line(stream, place.at(number), bad)
            reason = f"the line is longer than {MAX_LINE >> 20} MB; put less on one line"
            bad(reason, place.at(number))
        elif not raw.isspace():
            yield _Line(raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw, number)
        number += 1


def _next_line(stream: BinaryIO, place: Place, bad: Report) -> bytes:
    try:
        return stream.readline(MAX_LINE + 1)
    except (OSError, Unreadable) as problem:
        bad(str(problem), place)
        return b""


def _goes_on(first: _Line, second: _Line) -> bool:
    """Whether a value goes on from one line to the next: no complete value ends or starts so."""
    ends_open = first.raw.rstrip().endswith((b"[", b"{", b",", b":"))
    return ends_open or second.raw.lstrip().startswith((b",", b"]", b"}"))


def _one_per_line(lines: Iterable[_Line], place: Place, bad: Report) -> Iterator[Item]:
    for line in lines:
        try:
            item = Item(value_of(line.raw), line.number)
        except Unreadable as problem:
            bad(str(problem), place.at(line.number))
        else:
            yield item


def _over_lines(whole: _Line, place: Place, bad: Report) -> Iterator[Item]:
    above = whole.number - 1
    try:
        for item in values_of(whole.raw):
            yield Item(item.value, item.line + above)
    except Unreadable as problem:
        bad(str(problem), place.at(problem.line + above))
