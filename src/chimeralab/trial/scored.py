"""One trial of a session as it was measured, as a few records and as one row of columns."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chimeralab.core.records import Record
from chimeralab.trial.trials import Frame, Trial


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
class Posed(Record):
    """What was asked. `lag` is how long ago the oldest fact was told that the answer needs, and
    `claim` names the two people of a question about who reports to whom. `evidence` says whether
    that about a belief is "true" or "false", where a plan has false evidence."""

    item: str
    kind: str
    options: int
    truth: str
    weight: float | None
    novel: bool | None
    pair: str | None
    frame: Frame | None
    phase: str | None
    round: int
    consensus: str | None
    needs: tuple[str, ...]
    lag: int | None
    claim: tuple[str, str] | None
    evidence: str | None = None


@dataclass(frozen=True, slots=True)
class Pressed(Record):
    """What was done to the subject. `signal` is the answer that a stressor, or false evidence,
    would push here, `bias` whether one did; `disturbed` says that part of the past was gone or
    altered.

    `stands` says that what a stressor has said about the question can still be read. It follows
    from the plan, and is not stored.
    """

    signal: str | None
    bias: bool
    disturbed: bool
    stands: bool | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Answered(Record):
    """What was answered; None stands for a reply that can't be read."""

    response: str | None
    correct: bool | None
    states: Statement | None


@dataclass(frozen=True, slots=True)
class Confided(Record):
    """What was said in forks. `alone` is the option chosen before the others were heard, `belief`
    the stated chance of the lure, `noticed` whether the subject can say which answer a false signal
    gave."""

    alone: str | None
    confidence: float | None
    belief: float | None
    noticed: bool | None


@dataclass(frozen=True, slots=True)
class Recalled(Record):
    """The answer to a question about an earlier fact, told `lag` trials before; an `intrusion`
    answers it with what was told of another.

    `gone` says that the subject could not read the fact any more, nor anything that rests on it.
    It follows from the plan, and is not stored.
    """

    lag: int | None
    options: int
    response: str | None
    truth: str
    correct: bool | None
    intrusion: bool | None
    states: Statement | None
    gone: bool | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Scored(Record):
    """One trial with everything that was measured at it.

    `recalled` is None where no earlier fact was asked for. `asked` replies were wanted and `unread`
    of them could not be read.
    """

    trial: int
    posed: Posed
    pressed: Pressed
    answered: Answered
    confided: Confided
    recalled: Recalled | None
    asked: int
    unread: int

    def cells(self) -> dict[str, Any]:
        """The row as it is stored and exported, by column."""
        cells = {}
        for name, column in COLUMNS.items():
            part = getattr(self, column.part) if column.part else self
            value = None if part is None else getattr(part, column.field)
            cells[name] = value if value is None or not column.text else column.text.write(value)
        return cells

    @classmethod
    def from_cells(cls, cells: Mapping[str, Any]) -> "Scored":
        """The row behind its columns; SQLite keeps yes and no as 1 and 0."""
        found: dict[str, dict[str, Any]] = {part: {} for part in ("", *_PARTS)}
        for name, column in COLUMNS.items():
            cell = cells.get(name)  # a store that nobody has written to since lacks later columns
            if cell is not None and (column.text or column.kind is bool):
                cell = column.text.read(cell) if column.text else bool(cell)
            found[column.part][column.field] = cell
        parts = {name: record(**found[name]) for name, record in _PARTS.items()}
        if parts["recalled"].truth is None:
            parts["recalled"] = None
        return cls(**found[""], **parts)


_PARTS: dict[str, Any] = {
    "posed": Posed,
    "pressed": Pressed,
    "answered": Answered,
    "confided": Confided,
    "recalled": Recalled,
}


class TextForm(NamedTuple):
    """How a value that is more than a text stands in a cell."""

    write: Callable[[Any], str]
    read: Callable[[str], Any]


class Column(NamedTuple):
    """Where the cells of a column come from, and what they hold."""

    part: str
    field: str
    kind: type = str
    text: TextForm | None = None


def _joined(parts: Sequence[str]) -> str:
    """Several texts as one; as a JSON list where a bar between them would be ambiguous.

    >>> _joined(("Ada", "owns", "a bell")), _joined(("Ada", "owns|keeps", "a bell"))
    ('Ada|owns|a bell', '["Ada", "owns|keeps", "a bell"]')
    """
    text = "|".join(parts)
    unclear = text.startswith("[") or any("|" in part for part in parts)
    return json.dumps(list(parts), ensure_ascii=False) if unclear else text


def _split(text: str, number: int) -> tuple[str, ...]:
    """So many texts behind a cell; a bar that early versions stored belongs to the last."""
    if text.startswith("["):
        try:
            listed = json.loads(text)
        except ValueError:
            listed = ()
        if len(listed) == number and all(isinstance(part, str) for part in listed):
            return tuple(listed)
    return tuple(text.split("|", number - 1))


_NEEDS = TextForm(" ".join, lambda text: tuple(text.split()))
_CLAIM = TextForm(_joined, lambda text: _split(text, 2))
_STATEMENT = TextForm(
    lambda said: _joined((said.subject, said.relation, said.value)),
    lambda text: Statement(*_split(text, 3)),
)

# The columns of the table `trials`, in the order in which they are exported.
COLUMNS: dict[str, Column] = {
    "trial": Column("", "trial", int),
    "item": Column("posed", "item"),
    "kind": Column("posed", "kind"),
    "options": Column("posed", "options", int),
    "response": Column("answered", "response"),
    "truth": Column("posed", "truth"),
    "correct": Column("answered", "correct", bool),
    "confidence": Column("confided", "confidence", float),
    "weight": Column("posed", "weight", float),
    "novel": Column("posed", "novel", bool),
    "bias": Column("pressed", "bias", bool),
    "signal": Column("pressed", "signal"),
    "pair": Column("posed", "pair"),
    "frame": Column("posed", "frame"),
    "phase": Column("posed", "phase"),
    "round": Column("posed", "round", int),
    "consensus": Column("posed", "consensus"),
    "evidence": Column("posed", "evidence"),
    "needs": Column("posed", "needs", text=_NEEDS),
    "lag": Column("posed", "lag", int),
    "disturbed": Column("pressed", "disturbed", bool),
    "alone": Column("confided", "alone"),
    "belief": Column("confided", "belief", float),
    "noticed": Column("confided", "noticed", bool),
    "recall_lag": Column("recalled", "lag", int),
    "recall_options": Column("recalled", "options", int),
    "recall_response": Column("recalled", "response"),
    "recall_truth": Column("recalled", "truth"),
    "recall_correct": Column("recalled", "correct", bool),
    "intrusion": Column("recalled", "intrusion", bool),
    "states": Column("answered", "states", text=_STATEMENT),
    "recall_states": Column("recalled", "states", text=_STATEMENT),
    "claim": Column("posed", "claim", text=_CLAIM),
    "asked": Column("", "asked", int),
    "unread": Column("", "unread", int),
}


@dataclass(frozen=True, slots=True)
class SessionPlace(Record):
    """Where a scored trial belongs."""

    session: str
    arm: str
    scenario: str
    repeat: int
    dose: float | None = None


class PlacedTrial(NamedTuple):
    """A scored trial and where it belongs."""

    place: SessionPlace
    row: Scored


def trials_of(rows: Sequence[Scored], place: SessionPlace) -> Iterator[Trial]:
    """The rows as the metrics read them: where others were heard, the answer alone comes first."""
    common: dict[str, Any] = {
        "session": place.session,
        "arm": place.arm,
        "scenario": place.scenario,
        "repeat": str(place.repeat),
        "dose": place.dose,
    }
    for row in rows:
        about: dict[str, Any] = {"truth": row.posed.truth, "pair": row.posed.pair}
        alone = row.confided.alone
        if alone is not None:
            yield Trial(**common, **about, trial=row.trial - 0.5, response=alone, frame="neutral")
        yield Trial(
            **common,
            **about,
            trial=row.trial,
            # A free answer that is right is the truth in other words.
            response=row.posed.truth
            if row.answered.correct and not row.posed.options
            else row.answered.response,
            correct=row.answered.correct,
            confidence=row.confided.confidence,
            weight=row.posed.weight,
            novel=row.posed.novel,
            bias=row.pressed.bias,
            frame=row.posed.frame,
            signal=row.pressed.signal,
        )
