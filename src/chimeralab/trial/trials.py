"""A trial: one question put to a subject, and what came back; its row, and logs of such rows.

Absent is None, never 0.
"""

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from chimeralab.core.errors import InputError, LogError
from chimeralab.core.records import Record
from chimeralab.core.tables import read_rows

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
            if self.tolerance and (isinstance(form, bool) or parse_number(str(form)) is None):
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
class Statement(Record):
    """What an answer says of one fact."""

    subject: str
    relation: str
    value: str

    @property
    def topic(self) -> tuple[str, str]:
        """What it is about, whatever it says."""
        return self.subject, self.relation


@dataclass(frozen=True, slots=True)
class TrialRow(Record):
    """One trial: a line of a trial log, a row of the table `trials`, and what measures read.

    ``trial`` orders the rows of a session. ``weight`` says how much context the question needs,
    ``novel`` that its context was never met before, ``bias`` that a signal was injected. ``pair``
    joins the neutral and the biased ``frame`` of one decision; ``signal`` is the answer that a
    stressor, or false evidence, would push here. A ``response`` that can't be read is None.
    Everything but ``session`` and ``trial`` may be absent.

    The rest is known of the trials of a study only. ``lag`` is how long ago the oldest fact was
    told that the answer needs, and ``claim`` names the two people of a question about who reports
    to whom. ``evidence`` says whether that about a belief is "true" or "false", where a plan has
    false evidence. ``disturbed`` says that part of the past was gone or altered, and ``stands``
    that what a stressor has said about the question can still be read.

    In forks, ``alone`` is the option chosen before the others were heard, ``belief`` the stated
    chance of the lure, and ``noticed`` whether the subject can say which answer a false signal
    gave. A question about an earlier fact, told ``recall_lag`` trials before, has a
    ``recall_truth``; an ``intrusion`` answers it with what was told of another, and ``gone`` says
    that the subject could not read the fact any more, nor anything that rests on it. ``asked``
    replies were wanted and ``unread`` of them could not be read.
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

    # Measures and stressors of your own may say `row.correct`, as the docs once did.
    posed = pressed = answered = confided = property(lambda row: row)

    def cells(self) -> dict[str, Any]:
        """The row as it is stored and exported, by column."""
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
        """The row behind its columns, and where it belongs; SQLite keeps yes and no as 1 and 0."""
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
    """Names and what their cells hold; what is more than a number or a flag is written as text."""
    hints = get_type_hints(TrialRow)
    for name in (field.name for field in fields(TrialRow) if field.name not in PLACE):
        known = (hints[name], *get_args(hints[name]))
        numbers = (kind for kind in (bool, int, float) if kind in known and str not in known)
        yield name, next(numbers, str)


# The columns of the table `trials`, in the order in which they are exported.
COLUMNS: dict[str, type] = dict(_columns())


def _join(parts: Sequence[str]) -> str:
    """Several texts as one; as a JSON list where a bar between them would be ambiguous.

    >>> _join(("Ada", "owns", "a bell")), _join(("Ada", "owns|keeps", "a bell"))
    ('Ada|owns|a bell', '["Ada", "owns|keeps", "a bell"]')
    """
    text = "|".join(parts)
    unclear = text.startswith("[") or any("|" in part for part in parts)
    return json.dumps(list(parts), ensure_ascii=False) if unclear else text


def _split(text: str) -> list[str]:
    found: list[str] = json.loads(text) if text.startswith("[") else text.split("|")
    return found


def _write_statement(said: Statement) -> str:
    return _join((said.subject, said.relation, said.value))


def _read_statement(text: str) -> Statement:
    return Statement(*_split(text))


# How what is more than a text, a number or a flag is written into its cell, and read again.
_TEXT_FORMS: dict[str, tuple[Callable[[Any], str], Callable[[str], Any]]] = {
    "needs": (" ".join, lambda text: tuple(text.split())),
    "claim": (_join, lambda text: tuple(_split(text))),
    "states": (_write_statement, _read_statement),
    "recall_states": (_write_statement, _read_statement),
}


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


class TrialLog:
    """A file of trials. Once read, `lines` has the line of each, and `unused` names the columns
    that no metric knows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[int] = []
        self.unused: set[str] = set()

    def read(self) -> Iterator[TrialRow]:
        """Every trial, in the order of the file."""
        text_only = self.path.suffix.lower() in TEXT_TABLES
        for line, cells in read_rows(self.path, REQUIRED):
            self.unused.update(cells.keys() - _CHECKS.keys())
            try:
                row = parse_trial(_with_answers(cells) if text_only else cells)
            except InputError as error:
                raise LogError(str(self.path), str(error), line) from None
            self.lines.append(line)
            yield row


def _with_answers(cells: Mapping[str, str]) -> dict[str, Any]:
    """Where all cells are text, an answer that reads like a number or a flag is taken for one."""
    read: dict[str, Any] = dict(cells)
    for name in ANSWERS:
        text = cells.get(name, "")
        number = parse_number(text)
        read[name] = WORDS_FOR_FLAGS.get(text.strip().lower(), text) if number is None else number
    if (written := cells.get("truth", "").strip())[:1] in ("[", "{"):
        # In a table of text, several forms of the truth are a list in JSON.
        with suppress(ValueError):
            read["truth"] = json.loads(written)
    return read


def parse_trial(row: Mapping[str, Any]) -> TrialRow:
    """Check the cells of a row and make a trial of them; other columns are left alone.

    >>> parse_trial({"session": 7, "trial": "1", "correct": "true", "confidence": 0.9}).correct
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
    return TrialRow(**cells)


def parse_number(text: str) -> float | None:
    """The number that a text spells, or None; neither `nan` nor `1_000` is one.

    >>> parse_number("0.7"), parse_number("nan")
    (0.7, None)
    """
    return float(text) if NUMBER.fullmatch(text.strip()) else None


def _number(name: str, value: Any) -> float:
    number = parse_number(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or abs(number) > MAX_FLOAT:
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
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > MAX_FLOAT:
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
