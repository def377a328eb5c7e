"""Trials: one question to a subject and the answer, as a row, and logs of such rows."""

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from chimeralab.core.errors import InputError, LogError
from chimeralab.core.files import parse_json
from chimeralab.core.records import Record
from chimeralab.core.tables import read_rows, remove_guards

Answer = bool | int | float | str
Frame = Literal["neutral", "biased"]
FRAMES = ("neutral", "biased")
ANSWERS = ("response", "truth", "signal")
# The relation that converse and transitive questions are about.
REPORTS_TO = "reports to"

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
MAX_FLOAT = sys.float_info.max
TEXT_TABLES = (".csv", ".tsv")
WORDS_FOR_FLAGS = {"true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True, slots=True)
class Truth(Record):
    """What counts as right: one of several forms, a number within a tolerance, or a pattern.

    The first form is the one displayed. A `pattern` is a regular expression, searched for in the
    answer without regard to case.
    """

    forms: tuple[Answer, ...] = ()
    tolerance: float = 0.0
    pattern: str | None = None

    def __post_init__(self) -> None:
        if not self.forms and self.pattern is None:
            raise InputError("a truth needs a form, a number or a pattern")
        if not (isinstance(self.tolerance, int | float) and self.tolerance >= 0):
            raise InputError(f"the tolerance of a truth is {_quote(self.tolerance)}, not 0 or more")
        for form in self.forms:
            if self.tolerance and (isinstance(form, bool) or parse_number(str(form)) is None):
                raise InputError(f"a truth with a tolerance must be a number, not {_quote(form)}")
        try:
            re.compile(self.pattern or "")
        except (re.error, TypeError) as error:
            raise InputError(f"the pattern of a truth, {_quote(self.pattern)}: {error}") from None

    @property
    def display(self) -> Answer:
        """The truth as tables display it."""
        return self.forms[0] if self.forms else f"/{self.pattern}/"


@dataclass(frozen=True, slots=True)
class Statement(Record):
    """What an answer asserts about one fact."""

    subject: str
    relation: str
    value: str

    @property
    def topic(self) -> tuple[str, str]:
        """What the statement is about, whatever its value."""
        return self.subject, self.relation


@dataclass(frozen=True, slots=True)
class TrialRow(Record):
    """One trial: a line of a trial log, a row of the table `trials`, the input of measures.

    Absent is None, never 0; only ``session`` and ``trial`` are required. ``trial`` orders the rows
    of a session. ``weight`` is how much context the question needs, ``novel`` whether its context
    is new, ``bias`` whether a signal was injected. ``pair`` joins the neutral and the biased
    ``frame`` of one decision; ``signal`` is the answer that a stressor, or false evidence, pushes.
    ``response`` is None if it can't be read.

    The other columns exist only for the trials of a study. ``lag`` is the age, in trials, of the
    oldest fact that the answer needs; ``claim`` names the two people of a question about who
    reports to whom. ``evidence`` about a belief is "true" or "false", where a plan has false
    evidence. ``disturbed`` means that part of the past was removed or altered, ``stands`` that
    what a stressor said about the question can still be read.

    From probes: ``alone`` is the option chosen before the others spoke, ``belief`` the stated
    probability of the lure, ``noticed`` whether the subject can say which answer a false signal
    gave. A recall question about a fact stated ``recall_lag`` trials before has a ``recall_truth``;
    an ``intrusion`` answers it with the value of another fact, and ``gone`` means that the subject
    could no longer read the fact, nor anything that rests on it. Of the ``asked`` replies,
    ``unread`` could not be read.
    """

    session: str
    trial: int | float
    _: KW_ONLY
    item: str | None = None
    kind: str | None = None
    options: int | None = None
    response: Answer | None = None
    truth: Answer | Truth | None = None
    correct: bool | None = None
    confidence: float | None = None
    weight: float | None = None
    novel: bool | None = None
    bias: bool | None = None
    signal: Answer | None = None
    pair: str | None = None
    frame: Frame | None = None
    phase: str | None = None
    round: int = 0
    consensus: str | None = None
    evidence: str | None = None
    needs: tuple[str, ...] = ()
    lag: int | None = None
    disturbed: bool = False
    alone: str | None = None
    belief: float | None = None
    noticed: bool | None = None
    recall_lag: int | None = None
    recall_options: int | None = None
    recall_response: str | None = None
    recall_truth: str | None = None
    recall_correct: bool | None = None
    intrusion: bool | None = None
    states: Statement | None = None
    recall_states: Statement | None = None
    claim: tuple[str, str] | None = None
    asked: int = 0
    unread: int = 0
    stands: bool | None = None
    gone: bool | None = None
    arm: str | None = None
    scenario: str | None = None
    repeat: int | str | None = None
    dose: float | None = None

    def cells(self) -> dict[str, Any]:
        """The row as stored and exported, by column."""
        found = {name: getattr(self, name) for name in COLUMNS}
        for name, (write, _) in _TEXT_FORMS.items():
            if found[name] is not None:
                found[name] = write(found[name])
        return found

    def as_event(self) -> dict[str, Any]:
        """The row as the event `trial_scored` of `run --events`."""
        place = {"talk": self.session, "arm": self.arm, "scenario": self.scenario}
        return {"event": "trial_scored", **place, "turn": self.trial, **self.cells()}

    @classmethod
    def from_cells(cls, cells: Mapping[str, Any], session: str, **place: Any) -> "TrialRow":
        """Rebuild a row from its stored columns (booleans as 0 and 1) and its place."""
        found = {name: cells[name] for name in COLUMNS}
        for name, cell in found.items():
            if cell is not None and name in _TEXT_FORMS:
                found[name] = _TEXT_FORMS[name][1](cell)
            elif cell is not None and COLUMNS[name] is bool:
                found[name] = bool(cell)
        return cls(session, **place, **found)


Trial = TrialRow
REQUIRED = ("session", "trial")

PLACE = ("session", "arm", "scenario", "repeat", "dose")


def _columns() -> Iterator[tuple[str, type]]:
    """Names and cell types; everything but numbers and flags is text."""
    hints = get_type_hints(TrialRow)
    for name in (field.name for field in fields(TrialRow) if field.name not in PLACE):
        known = (hints[name], *get_args(hints[name]))
        numbers = (kind for kind in (bool, int, float) if kind in known and str not in known)
        yield name, next(numbers, str)


# The columns of the table `trials`, in export order.
COLUMNS: dict[str, type] = dict(_columns())


def _join(parts: Sequence[str]) -> str:
    """Join texts with bars, or as a JSON list if that would be ambiguous.

    >>> _join(("Ada", "owns", "a bell")), _join(("Ada", "owns|keeps", "a bell"))
    ('Ada|owns|a bell', '["Ada", "owns|keeps", "a bell"]')
    """
    text = "|".join(parts)
    unclear = text.startswith("[") or any("|" in part for part in parts)
    return json.dumps(list(parts), ensure_ascii=False) if unclear else text


def _split(text: str) -> list[str]:
    found: list[str] = json.loads(text) if text.startswith("[") else text.split("|")
    return found


def _write_statement(each: Statement) -> str:
    return _join((each.subject, each.relation, each.value))


def _read_statement(text: str) -> Statement:
    return Statement(*_split(text))


# How values other than text, numbers and flags are written to a cell and read back.
_TEXT_FORMS: dict[str, tuple[Callable[[Any], str], Callable[[str], Any]]] = {
    "needs": (" ".join, lambda text: tuple(text.split())),
    "claim": (_join, lambda text: tuple(_split(text))),
    "states": (_write_statement, _read_statement),
    "recall_states": (_write_statement, _read_statement),
}


def read_truth(value: Any) -> Truth:
    """Parse a truth: an answer, a list of forms, or an object with the keys of `Truth`.

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
                    f"a truth has the key {_quote(key)}; known: forms, number, tolerance, pattern"
                )
        table = {"forms": [], **value}
        if "number" in table:
            table["forms"] = [_number("number", table.pop("number"))]
    forms = tuple(_answer("truth", form) for form in table.pop("forms"))
    return Truth(forms, **table)


COMPLETE = "completed"
# What the table `trials` of an export calls the place of a trial.
EXPORTED = {"session": "trajectory", "arm": "condition", "scenario": "prompt", "repeat": "repeat"}


class TrialLog:
    """A file of trials: anybody's, or the table `trials` of an export.

    After `read`, `lines` are their line numbers, `unused` the columns that no metric uses, and
    `outcomes` says how each session of an export ended, by arm and name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[int] = []
        self.unused: set[str] = set()
        self.outcomes: dict[tuple[str, str], str | None] = {}

    @cached_property
    def names(self) -> AbstractSet[str]:
        """The columns of its first row."""
        return next((cells.keys() for _, cells in read_rows(self.path)), frozenset())

    @property
    def exported(self) -> bool:
        """Whether it is a table that `chimera export` wrote."""
        return "session" not in self.names and {EXPORTED["session"], "trial"} <= self.names

    def read_complete(self) -> list[TrialRow]:
        """The trials of complete sessions, session by session."""
        rows = list(self.read())
        first: dict[tuple[str, str], int] = {}
        for place, row in enumerate(rows):
            first.setdefault((str(row.arm), row.session), place)
        cut = {session for session, outcome in self.outcomes.items() if outcome != COMPLETE}
        kept = [row for row in rows if (str(row.arm), row.session) not in cut]
        return sorted(kept, key=lambda row: (first[str(row.arm), row.session], row.trial))

    def read(self) -> Iterator[TrialRow]:
        """Parse the trials, in the order of the file."""
        text_only = self.path.suffix.lower() in TEXT_TABLES
        needed = (EXPORTED["session"], "trial") if self.exported else REQUIRED
        for line, cells in read_rows(self.path, needed):
            try:
                if self.exported:
                    row = _parse_exported(remove_guards(cells) if text_only else cells)
                    self.outcomes[str(row.arm), row.session] = cells.get("outcome") or None
                else:
                    self.unused.update(cells.keys() - _CHECKS.keys())
                    row = parse_trial(_with_answers(cells) if text_only else cells)
            except InputError as error:
                raise LogError(str(self.path), str(error), line) from None
            self.lines.append(line)
            yield row


def _parse_exported(row: Mapping[str, Any]) -> TrialRow:
    """Rebuild a trial of a study; its answers are text, even those that look like numbers."""
    by_kind: dict[type, Callable[[str, Any], Any]] = {bool: _flag, int: _number, float: _number}
    cells: dict[str, Any] = dict.fromkeys(COLUMNS)
    for name, kind in COLUMNS.items():
        value = row.get(name)
        if value not in (None, ""):
            check = by_kind.get(kind, _label)
            value = (check if name in ANSWERS else _CHECKS.get(name, check))(name, value)
            cells[name] = int(value) if kind is int else value
    cells["needs"] = cells["needs"] or ""
    place: dict[str, Any] = {name: row.get(column) for name, column in EXPORTED.items()}
    place["repeat"] = int(_number("repeat", place["repeat"]))
    return TrialRow.from_cells(cells, **place)


def _with_answers(cells: Mapping[str, str]) -> dict[str, Any]:
    """Convert answers in a table of text that look like a number or a flag."""
    read: dict[str, Any] = dict(cells)
    for name in ANSWERS:
        text = cells.get(name, "")
        number = parse_number(text)
        read[name] = WORDS_FOR_FLAGS.get(text.strip().lower(), text) if number is None else number
    if (written := cells.get("truth", "").strip())[:1] in ("[", "{"):
        # In a table of text, several forms of the truth are a JSON list.
        with suppress(ValueError):
            read["truth"] = parse_json(written)
    return read


def parse_trial(row: Mapping[str, Any]) -> TrialRow:
    """Validate the cells of a row and build a trial; unknown columns are ignored.

    >>> parse_trial({"session": 7, "trial": "1", "correct": "true", "confidence": 0.9}).correct
    True
    """
    cells: dict[str, Any] = {}
    for name, check in _CHECKS.items():
        value = row.get(name)
        # Empty cells are null, an empty text or NaN.
        nothing = value is None or value == "" or (isinstance(value, float) and math.isnan(value))
        cells[name] = None if nothing else check(name, value)
    for name in REQUIRED:
        if cells[name] is None:
            raise InputError(f"{name} is missing; every row needs a session and a trial")
    return TrialRow(**cells)


def parse_number(text: str) -> float | None:
    """Parse a decimal number; None for anything else, `nan` and `1_000` included.

    >>> parse_number("0.7"), parse_number("nan")
    (0.7, None)
    """
    return float(text) if NUMBER.fullmatch(text.strip()) else None


def _number(name: str, value: Any) -> float:
    number = parse_number(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or abs(number) > MAX_FLOAT:
        raise InputError(f"{name} must be a finite number, not {_quote(value)}")
    return number


def _share(name: str, value: Any) -> float:
    number = _number(name, value)
    if not 0 <= number <= 1:
        raise InputError(f"{name} must be between 0 and 1, not {_quote(value)}")
    return number


def _flag(name: str, value: Any) -> bool:
    if value in (0, 1):
        return bool(value)
    flag = WORDS_FOR_FLAGS.get(value.strip().lower()) if isinstance(value, str) else None
    if flag is None:
        raise InputError(f"{name} must be 0, 1, true or false, not {_quote(value)}")
    return flag


def _label(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > MAX_FLOAT:
        raise InputError(f"{name} must be a name or a number, not {_quote(value)}")
    return str(int(value)) if value == int(value) else str(value)


def _frame(name: str, value: Any) -> str:
    frame = value.strip().lower() if isinstance(value, str) else value
    if frame not in FRAMES:
        raise InputError(f"unknown frame {_quote(value)}; known: {', '.join(FRAMES)}")
    return str(frame)


def _answer(name: str, value: Any) -> Answer:
    if isinstance(value, bool | str):
        return value
    return _number(name, value)


def _truth(name: str, value: Any) -> Answer | Truth:
    return read_truth(value) if isinstance(value, list | Mapping) else _answer(name, value)


def _quote(value: Any) -> str:
    text = (
        "a number of many digits"
        if isinstance(value, int) and abs(value) > MAX_FLOAT
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
