"""The rubric: a versioned file of rules for raters, unchangeable once it is locked.

It is a draft until raters have been compared on it: a calibration comes before the lock. The rubric
also says how turns are labelled where raters see or cite them, from T0 or from 1; everywhere else
turns are counted from 1.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from chimeralab.core.errors import InputError
from chimeralab.core.files import atomic_file, parse_json, parse_toml, read_regular, write_text
from chimeralab.core.parts import read_record
from chimeralab.core.records import Record

BUILT_IN = Path(__file__).with_name("rubric.toml")
# The rubrics that come with the package; the first is the default.
VERSIONS = {"3.0": BUILT_IN, "4.0": BUILT_IN.with_name("rubric-4.toml")}

# A rubric has the hash of its locked form, so that locking it changes nothing for a study.
STATE = re.compile(rb'^state = "(draft|calibrated|locked)"$', re.MULTILINE)

Label = Literal[0, 1]
State = Literal["draft", "calibrated", "locked"]
FirstTurn = Literal["T0", "1"]
StepName = Literal["verbatim", "template", "short_form", "default"]
KindName = Literal["A", "B", "C"]


@dataclass(frozen=True, slots=True)
class LoopKind(Record):
    """One way in which turns can be functionally the same."""

    id: KindName
    name: str
    rule: str


@dataclass(frozen=True, slots=True)
class DecisionStep(Record):
    """A question of the decision procedure; the last one has no kind."""

    id: StepName
    question: str
    kind: KindName | None = None


@dataclass(frozen=True, slots=True)
class Distinction(Record):
    """Guidance on a borderline case."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Example(Record):
    """A worked example: turns, their label, the decisive step and the reason."""

    title: str
    label: Label
    step: StepName
    first_turn: int
    turns: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Version(Record):
    """A version of the rules, and the reliability that raters reached with it."""

    version: str
    change: str
    date: str | None = None
    kappa: float | None = None
    items: int | None = None
    why_unmeasured: str | None = None


@dataclass(frozen=True, slots=True)
class Rubric(Record):
    """A version of the rules, with its decision steps, examples and history."""

    name: str
    version: str
    state: State
    first_turn: FirstTurn
    task: str
    adjacent_turns: int
    short_words: int
    label_one: str
    label_zero: str
    kinds: tuple[LoopKind, ...]
    steps: tuple[DecisionStep, ...]
    distinctions: tuple[Distinction, ...]
    dos: tuple[str, ...]
    donts: tuple[str, ...]
    examples: tuple[Example, ...]
    history: tuple[Version, ...]
    sha256: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}" + (" (not calibrated)" if self.warning else "")

    @property
    def warning(self) -> str:
        """Says that no calibration is on record, if so."""
        if self.state != "draft":
            return ""
        return (
            f"the rubric {self.name} {self.version} is not calibrated: no agreement of raters on "
            "it is on record; `chimera calibrate` compares them"
        )

    def label_turns(self, turns: Iterable[int]) -> str:
        """Label turns, which are counted from 1, as raters see them: 'T3-T5, T8'."""
        prefix, first = self.first_turn[:-1], int(self.first_turn[-1])
        spans: list[list[int]] = []
        for turn in sorted({turn - 1 + first for turn in turns}):
            if spans and spans[-1][1] == turn - 1:
                spans[-1][1] = turn
            else:
                spans.append([turn, turn])
        labels = ([f"{prefix}{turn}" for turn in dict.fromkeys(span)] for span in spans)
        return ", ".join(map("-".join, labels))

    def read_turns(self, written: str, last: int) -> tuple[int, ...] | None:
        """Read turns as raters write them ('T3-T5', '3-5'), counted from 1; None if invalid."""
        shift, turns = 1 - int(self.first_turn[-1]), list[int]()
        for part in filter(None, re.split(r"[,;\s]+", re.sub(r"\s*[-–]\s*", "-", written))):
            found = re.fullmatch(r"[Tt]?(\d+)(?:-[Tt]?(\d+))?", part)
            if found is None or (self.first_turn == "1" and not part[0].isdigit()):
                return None
            start, end = int(found[1]) + shift, int(found[2] or found[1]) + shift
            if not 1 <= start <= end <= last:
                return None
            turns.extend(range(start, end + 1))
        return tuple(dict.fromkeys(turns))


def find_rubric(name: str | None, folder: Path = Path()) -> Path:
    """The file of a rubric: that of a version in VERSIONS, or one relative to `folder`."""
    if name in (None, "built-in"):
        return BUILT_IN
    return VERSIONS.get(str(name)) or folder / str(name)


def load_rubric(path: Path = BUILT_IN) -> Rubric:
    """Load a rubric and compare a locked one with its lock, which may bring its calibration."""
    content, lock = _read(path), lock_path(path)
    if not lock.exists():
        if (state := STATE.search(content)) and state[1] == b"locked":
            raise InputError(
                f"{path} has the state locked, but {lock.name} is missing; restore it, or set the "
                'state to "calibrated" and run `chimera rubric lock`'
            )
        return parse_rubric(content, str(path))
    try:
        locked = parse_json(_read(lock))
        calibration = locked.get("calibration")
        rubric = parse_rubric(content, str(path), calibration)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{lock} is damaged; restore it from a copy") from None
    if rubric.state != "locked" or locked != _lock_entry(rubric, calibration):
        raise InputError(
            f"{path} was changed after it was locked: its hash is {rubric.sha256[:12]}, not the "
            f"one in {lock.name}. Undo the change, or make a new version in another file with "
            'state = "draft"'
        )
    return rubric


def parse_rubric(
    content: bytes, source: str, calibration: Mapping[str, Any] | None = None
) -> Rubric:
    """Parse the bytes of a rubric file; a `calibration` gives the kappa of its version."""
    try:
        table = parse_toml(content.decode("utf-8"))
    except ValueError as error:
        raise InputError(f"{source} is not a TOML file: {error}") from None
    locked = STATE.sub(b'state = "locked"', content, count=1)
    values = _unwrap(table) | {"sha256": hashlib.sha256(locked).hexdigest()}
    rubric = add_calibration(read_record(Rubric, values, source), calibration)
    entries = [entry for entry in rubric.history if entry.version == rubric.version]
    if len(entries) != 1:
        raise InputError(
            f"{source}: the history needs exactly one entry for version {rubric.version}"
        )
    if rubric.state != "draft" and entries[0].kappa is None:
        raise InputError(
            f"{source} is {rubric.state}: its history must give the kappa that raters reached on "
            f'version {rubric.version}; set its state to "draft" and run `chimera calibrate`'
        )
    return rubric


def add_calibration(rubric: Rubric, found: Mapping[str, Any] | None) -> Rubric:
    """Enter a calibration into the history of a rubric."""
    if not found:
        return rubric
    entries = (
        replace(each, kappa=found["kappa"], items=found["items"], why_unmeasured=None)
        if each.version == rubric.version
        else each
        for each in rubric.history
    )
    return replace(rubric, history=tuple(entries))


def lock_rubric(path: Path, calibration: Mapping[str, Any] | None = None) -> Rubric:
    """Write the lock file of a calibrated rubric, and set its state to locked.

    In this order, so that a command that was killed in between can be run again. A rubric is
    calibrated if it says so, with a kappa in its history, or by a `calibration` on record, which
    then stands in the lock.
    """
    content, lock = _read(path), lock_path(path)
    needed = "draft" if calibration else "calibrated"
    rubric = parse_rubric(content, str(path))
    entry = json.dumps(_lock_entry(rubric, calibration), indent=1) + "\n"
    if rubric.state != needed or (lock.exists() and _read(lock) != entry.encode()):
        raise InputError(
            f"{path} is {rubric.state}; only a calibrated rubric without a lock can be locked: "
            "run `chimera calibrate` and name the study with --study"
        )
    locked = STATE.sub(b'state = "locked"', content, count=1)
    rubric = parse_rubric(locked, str(path), calibration)
    if rubric.state != "locked":
        raise InputError(f'{path}: write its state as the line `state = "{needed}"`')
    write_text(lock, entry)
    with atomic_file(path) as part:
        part.write_bytes(locked)
    return rubric


def lock_path(path: Path) -> Path:
    return path.with_suffix(".lock")


def rubric_text(rubric: Rubric) -> str:
    """Render the rubric in Markdown, the same for people and models."""
    lines = [
        *("## Task", "", rubric.task, ""),
        *("## Labels", "", f"**1** {rubric.label_one}", ""),
        *(f"- ({kind.id}) {kind.name}: {kind.rule}" for kind in rubric.kinds),
        *("", f"**0** {rubric.label_zero}", ""),
        *("## Steps, in this order; the first yes decides", ""),
        *(f"{n}. {step.id}: {step.question}" for n, step in enumerate(rubric.steps, 1)),
        *("", "## Distinctions", ""),
        *(f"- {point.title}. {point.text}" for point in rubric.distinctions),
        *("", "## Do", "", *(f"- {text}" for text in rubric.dos)),
        *("", "## Do not", "", *(f"- {text}" for text in rubric.donts)),
        *("", "## Worked examples"),
    ]
    for number, example in enumerate(rubric.examples, 1):
        lines += ["", f"### Example {number}: {example.title}", ""]
        numbered = enumerate(example.turns, example.first_turn)
        lines += [f"    {rubric.first_turn[:-1]}{n}: {text}" for n, text in numbered]
        lines += ["", f"Label {example.label} (step: {example.step}). {example.reason}"]
    return "\n".join(lines)


def history_lines(rubric: Rubric) -> list[str]:
    """List the versions, each with its kappa or why it was not measured."""

    def format_kappa(entry: Version) -> str:
        if entry.kappa is None:
            return f"(kappa not measured: {entry.why_unmeasured or 'still a draft'})"
        items = f" on {entry.items} items" if entry.items else ""
        return f"(kappa {entry.kappa:.3f}{items})"

    return [
        f"- {entry.version}{f' ({entry.date})' if entry.date else ''}: {entry.change} "
        f"{format_kappa(entry)}"
        for entry in rubric.history
    ]


def _lock_entry(rubric: Rubric, calibration: Mapping[str, Any] | None) -> dict[str, Any]:
    entry = {"name": rubric.name, "version": rubric.version, "sha256": rubric.sha256}
    return {**entry, "calibration": calibration} if calibration else entry


def _read(path: Path) -> bytes:
    try:
        return read_regular(path)
    except OSError as error:
        raise InputError(f"{path} can't be read ({error.strerror})") from None


def _unwrap(value: Any) -> Any:
    """Unwrap the lines of all texts."""
    if isinstance(value, Mapping):
        return {key: _unwrap(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unwrap(item) for item in value]
    return " ".join(value.split()) if isinstance(value, str) else value
