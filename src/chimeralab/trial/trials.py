"""A trial: one question put to a subject, and what came back; and logs of trials.

Absent is None, never 0.
"""

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from chimeralab.core.errors import InputError, LogError
from chimeralab.core.records import Record
from chimeralab.core.tables import read_rows

Answer = bool | int | float | str
Frame = Literal["neutral", "biased"]
FRAMES = ("neutral", "biased")
ANSWERS = ("response", "truth", "signal")

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
LARGEST = sys.float_info.max
TEXT_TABLES = (".csv", ".tsv")
WORDS_FOR_FLAGS = {"true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True, slots=True)
class Truth(Record):
    """What counts as right: any of some forms, a number within a tolerance, or a pattern.

    The first form is the one that is shown. A `pattern` is a regular expression that the answer has
    to hold somewhere, in whatever case.
    """

    forms: tuple[Answer, ...] = ()
    tolerance: float = 0.0
    pattern: str | None = None

    def __post_init__(self) -> None:
        if not self.forms and self.pattern is None:
            raise InputError("a truth needs a form, a number or a pattern")
        if not (isinstance(self.tolerance, int | float) and self.tolerance >= 0):
            raise InputError(f"the tolerance of a truth is {_shown(self.tolerance)}, not 0 or more")
        for form in self.forms:
            if self.tolerance and (isinstance(form, bool) or number_in(str(form)) is None):
                raise InputError(
                    f"a truth with a tolerance is a number, and {_shown(form)} is none"
                )
        try:
            re.compile(self.pattern or "")
        except (re.error, TypeError) as error:
            raise InputError(f"the pattern of a truth, {_shown(self.pattern)}: {error}") from None

    @property
    def shown(self) -> Answer:
        """What stands for it in tables."""
        return self.forms[0] if self.forms else f"/{self.pattern}/"


@dataclass(frozen=True, slots=True)
class Trial(Record):
    """One row of a trial log.

    ``trial`` orders the rows of a session. ``weight`` says how much context the question needs,
    ``novel`` that its context was never met before, ``bias`` that a signal was injected. ``pair``
    joins the neutral and the biased ``frame`` of one decision; ``signal`` is the answer that the
    injected signal pushes towards. Everything but ``session`` and ``trial`` may be absent.
    """

    session: str
    trial: float
    correct: bool | None = None
    confidence: float | None = None
    weight: float | None = None
    novel: bool | None = None
    bias: bool | None = None
    response: Answer | None = None
    truth: Answer | Truth | None = None
    pair: str | None = None
    frame: Frame | None = None
    scenario: str | None = None
    arm: str | None = None
    signal: Answer | None = None
    dose: float | None = None
    repeat: str | None = None


COLUMNS = tuple(field.name for field in fields(Trial))
REQUIRED = ("session", "trial")


def read_truth(value: Any) -> Truth:
    """A truth as files write it: an answer, a list of forms, or an object with its keys.

    >>> read_truth(["Paris", "Lutetia"]).forms, read_truth({"number": 3, "tolerance": 1}).tolerance
    (('Paris', 'Lutetia'), 1)
    """
    if isinstance(value, Truth):
        return value
    table: dict[str, Any] = {"forms": value if isinstance(value, list | tuple) else [value]}
    if isinstance(value, Mapping):
        for key in value:
            if key not in ("forms", "number", "tolerance", "pattern"):
                raise InputError(
                    f"a truth has the key {_shown(key)}; known: forms, number, tolerance, pattern"
                )
        table = {"forms": [], **value}
        if "number" in table:
            table["forms"] = [_number("number", table.pop("number"))]
    forms = tuple(_answer("truth", form) for form in table.pop("forms"))
    return Truth(forms, **table)


class Numbered(NamedTuple):
    """A trial, and the line it stands on."""

    line: int
    trial: Trial


class TrialLog:
    """A file of trials. Once read, `unused` names its columns that no metric knows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unused: set[str] = set()

    def read(self) -> Iterator[Numbered]:
        """Every trial, in the order of the file."""
        text_only = self.path.suffix.lower() in TEXT_TABLES
        for line, cells in read_rows(self.path, REQUIRED):
            self.unused.update(cells.keys() - COLUMNS)
            try:
                yield Numbered(line, trial_of(_with_answers(cells) if text_only else cells))
            except InputError as error:
                raise LogError(str(self.path), str(error), line) from None


def _with_answers(cells: Mapping[str, str]) -> dict[str, Any]:
    """Where all cells are text, an answer that reads like a number or a flag is taken for one."""
    read: dict[str, Any] = dict(cells)
    for name in ANSWERS:
        text = cells.get(name, "")
        number = number_in(text)
        read[name] = WORDS_FOR_FLAGS.get(text.strip().lower(), text) if number is None else number
    if (written := cells.get("truth", "").strip())[:1] in ("[", "{"):
        # In a table of text, several forms of the truth are a list in JSON.
        with suppress(ValueError):
            read["truth"] = json.loads(written)
    return read


def trial_of(row: Mapping[str, Any]) -> Trial:
    """Check the cells of a row and make a trial of them; other columns are left alone.

    >>> trial_of({"session": 7, "trial": "1", "correct": "true", "confidence": 0.9}).correct
    True
    """
    cells: dict[str, Any] = {}
    for name, check in _CHECKS.items():
        value = row.get(name)
        # Tables write null, an empty text or NaN for a cell that holds nothing.
        nothing = value is None or value == "" or (isinstance(value, float) and math.isnan(value))
        cells[name] = None if nothing else check(name, value)
    for name in REQUIRED:
        if cells[name] is None:
            raise InputError(f"{name} is missing; every row needs a session and a trial")
    return Trial(**cells)


def number_in(text: str) -> float | None:
    """The number that a text spells, or None; neither `nan` nor `1_000` is one.

    >>> number_in("0.7"), number_in("nan")
    (0.7, None)
    """
    return float(text) if NUMBER.fullmatch(text.strip()) else None


def _number(name: str, value: Any) -> float:
    number = number_in(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or abs(number) > LARGEST:
        raise InputError(f"{name} is {_shown(value)}; it must be a finite number")
    return number


def _share(name: str, value: Any) -> float:
    number = _number(name, value)
    if not 0 <= number <= 1:
        raise InputError(f"{name} is {_shown(value)}; it must lie between 0 and 1")
    return number


def _flag(name: str, value: Any) -> bool:
    if value in (0, 1):
        return bool(value)
    flag = WORDS_FOR_FLAGS.get(value.strip().lower()) if isinstance(value, str) else None
    if flag is None:
        raise InputError(f"{name} is {_shown(value)}; it must be 0, 1, true or false")
    return flag


def _label(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > LARGEST:
        raise InputError(f"{name} is {_shown(value)}; it must be a name or a number")
    return str(int(value)) if value == int(value) else str(value)


def _frame(name: str, value: Any) -> str:
    frame = value.strip().lower() if isinstance(value, str) else value
    if frame not in FRAMES:
        raise InputError(f"unknown frame {_shown(value)}; known: {', '.join(FRAMES)}")
    return str(frame)


def _answer(name: str, value: Any) -> Answer:
    if isinstance(value, bool | str):
        return value
    return _number(name, value)


def _truth(name: str, value: Any) -> Answer | Truth:
    return read_truth(value) if isinstance(value, list | Mapping) else _answer(name, value)


def _shown(value: Any) -> str:
    text = (
        "a number of many digits"
        if isinstance(value, int) and abs(value) > LARGEST
        else repr(value)
    )
    return text if len(text) <= 40 else text[:39] + "…"


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "session": _label,
    "trial": _number,
    "correct": _flag,
    "confidence": _share,
    "weight": _share,
    "novel": _flag,
    "bias": _flag,
    "response": _answer,
    "truth": _truth,
    "pair": _label,
    "frame": _frame,
    "scenario": _label,
    "arm": _label,
    "signal": _answer,
    "dose": _number,
    "repeat": _label,
}
