"""The rubric: what raters look for, as one versioned file that can't change once it is locked."""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from chimeralab.core.errors import InputError
from chimeralab.core.files import replacing
from chimeralab.core.records import Record

BUILT_IN = Path(__file__).with_name("rubric.toml")

Label = Literal[0, 1]
State = Literal["draft", "calibrated", "locked"]
StepName = Literal["verbatim", "template", "short_form", "default"]
KindName = Literal["A", "B", "C"]


class RubricError(InputError):
    """A rubric is not well formed, or not the one that was locked."""


@dataclass(frozen=True, slots=True)
class RubricPart(Record):
    """A part of the file; a key that it does not know is an error."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class Kind(RubricPart):
    """One way in which turns can be functionally the same."""

    id: KindName
    name: str
    rule: str


@dataclass(frozen=True, slots=True)
class Step(RubricPart):
    """One question of the decision procedure; the last one has no kind."""

    id: StepName
    question: str
    kind: KindName | None = None


@dataclass(frozen=True, slots=True)
class Distinction(RubricPart):
    """A borderline that raters get wrong without help."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Example(RubricPart):
    """A worked example: turns with their label, the decisive step and the reason."""

    title: str
    label: Label
    step: StepName
    first_turn: int
    turns: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Version(RubricPart):
    """One version of the rules, and the reliability that raters reached with it."""

    version: str
    change: str
    kappa: float | None = None
    items: int | None = None
    why_unmeasured: str | None = None


@dataclass(frozen=True, slots=True)
class Rubric(RubricPart):
    """Rules, steps, distinctions, examples and history under one version and one state."""

    name: str
    version: str
    state: State
    task: str
    adjacent_turns: int
    short_words: int
    label_one: str
    label_zero: str
    kinds: tuple[Kind, ...]
    steps: tuple[Step, ...]
    distinctions: tuple[Distinction, ...]
    dos: tuple[str, ...]
    donts: tuple[str, ...]
    examples: tuple[Example, ...]
    history: tuple[Version, ...]
    sha256: str

    @property
    def reliability(self) -> Version:
        """The entry of the present version in the history."""
        return next(entry for entry in self.history if entry.version == self.version)


def load_rubric(path: Path = BUILT_IN) -> Rubric:
    """Read a rubric; a locked one must be what was locked, to the byte."""
    content = _read(path)
    rubric = parse_rubric(content, str(path))
    _check_lock(rubric, path)
    return rubric


def parse_rubric(content: bytes, source: str) -> Rubric:
    """Make a rubric of a file's bytes."""
    try:
        table = tomllib.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RubricError(f"{source} is not a TOML file: {error}") from None
    values = _stripped(table) | {"sha256": hashlib.sha256(content).hexdigest()}
    try:
        rubric = TypeAdapter(Rubric).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise RubricError(f"{source}: {place}: {first['msg']}") from None
    _check_history(rubric, source)
    return rubric


def lock_rubric(path: Path) -> Rubric:
    """Take a calibrated rubric to its last state and write the lock beside it."""
    content = _read(path)
    rubric = parse_rubric(content, str(path))
    if rubric.state != "calibrated" or lock_of(path).exists():
        raise RubricError(
            f"{path} is {rubric.state}; only a calibrated rubric without a lock can be locked"
        )
    locked = content.replace(b'state = "calibrated"', b'state = "locked"', 1)
    rubric = parse_rubric(locked, str(path))
    if rubric.state != "locked":
        raise RubricError(f'{path}: write its state as the line `state = "calibrated"`')
    with replacing(path) as part:
        part.write_bytes(locked)
    with replacing(lock_of(path)) as part:
        part.write_text(json.dumps(_lock_entry(rubric), indent=1) + "\n", encoding="utf-8")
    return rubric


def lock_of(path: Path) -> Path:
    """Where the lock of a rubric lies."""
    return path.with_suffix(".lock")


def _check_lock(rubric: Rubric, path: Path) -> None:
    lock = lock_of(path)
    if not lock.exists():
        if rubric.state == "locked":
            raise RubricError(
                f"{path} calls itself locked and has no {lock.name} beside it; "
                'set its state to "calibrated" and run `chimera rubric lock`'
            )
        return
    if _read_lock(lock) != _lock_entry(rubric):
        raise RubricError(
            f"{path} is not the rubric that was locked: its hash is {rubric.sha256[:12]}, not "
            f"the one in {lock.name}. Undo the change, or make it a new version in a file of its "
            'own with state = "draft"'
        )


def _read_lock(lock: Path) -> Any:
    try:
        return json.loads(_read(lock))
    except ValueError:
        raise RubricError(f"{lock} is damaged; take it from a copy") from None


def _lock_entry(rubric: Rubric) -> dict[str, str]:
    return {"name": rubric.name, "version": rubric.version, "sha256": rubric.sha256}


def _check_history(rubric: Rubric, source: str) -> None:
    entries = [entry for entry in rubric.history if entry.version == rubric.version]
    if len(entries) != 1:
        raise RubricError(f"{source}: the history needs one entry for version {rubric.version}")
    entry = entries[0]
    if rubric.state != "draft" and entry.kappa is None and not entry.why_unmeasured:
        raise RubricError(
            f"{source} is {rubric.state}: its history must give the kappa that version "
            f"{rubric.version} reached, or say under why_unmeasured why there is none"
        )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RubricError(f"{path} can't be read ({error.strerror})") from None


def _stripped(value: Any) -> Any:
    """The same values with each text on one line, as the file breaks its lines for readers only."""
    if isinstance(value, Mapping):
        return {key: _stripped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_stripped(item) for item in value]
    return " ".join(value.split()) if isinstance(value, str) else value
