"""The rubric: a versioned file of rules for raters, unchangeable once it is locked."""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from chimeralab.core.errors import InputError
from chimeralab.core.files import atomic_file, write_text
from chimeralab.core.parts import read_record
from chimeralab.core.records import Record

BUILT_IN = Path(__file__).with_name("rubric.toml")

Label = Literal[0, 1]
State = Literal["draft", "calibrated", "locked"]
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
    kappa: float | None = None
    items: int | None = None
    why_unmeasured: str | None = None


@dataclass(frozen=True, slots=True)
class Rubric(Record):
    """A version of the rules, with its decision steps, examples and history."""

    name: str
    version: str
    state: State
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


def load_rubric(path: Path = BUILT_IN) -> Rubric:
    """Load a rubric and compare a locked one with its lock."""
    rubric = parse_rubric(_read(path), str(path))
    lock = lock_path(path)
    if not lock.exists():
        if rubric.state == "locked":
            raise InputError(
                f"{path} has the state locked, but {lock.name} is missing; "
                'set its state to "calibrated" and run `chimera rubric lock`'
            )
        return rubric
    try:
        locked = json.loads(_read(lock))
    except ValueError:
        raise InputError(f"{lock} is damaged; restore it from a copy") from None
    if locked != _lock_entry(rubric):
        raise InputError(
            f"{path} was changed after it was locked: its hash is {rubric.sha256[:12]}, not the "
            f"one in {lock.name}. Undo the change, or make a new version in another file with "
            'state = "draft"'
        )
    return rubric


def parse_rubric(content: bytes, source: str) -> Rubric:
    """Parse the bytes of a rubric file."""
    try:
        table = tomllib.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{source} is not a TOML file: {error}") from None
    values = _unwrap(table) | {"sha256": hashlib.sha256(content).hexdigest()}
    rubric = read_record(Rubric, values, source)
    entries = [entry for entry in rubric.history if entry.version == rubric.version]
    if len(entries) != 1:
        raise InputError(
            f"{source}: the history needs exactly one entry for version {rubric.version}"
        )
    if rubric.state != "draft" and entries[0].kappa is None and not entries[0].why_unmeasured:
        raise InputError(
            f"{source} is {rubric.state}: its history must give the kappa that version "
            f"{rubric.version} reached, or say under why_unmeasured why there is none"
        )
    return rubric


def lock_rubric(path: Path) -> Rubric:
    """Set the state of a calibrated rubric to locked, and write its lock file."""
    content = _read(path)
    rubric = parse_rubric(content, str(path))
    if rubric.state != "calibrated" or lock_path(path).exists():
        raise InputError(
            f"{path} is {rubric.state}; only a calibrated rubric without a lock can be locked"
        )
    locked = content.replace(b'state = "calibrated"', b'state = "locked"', 1)
    rubric = parse_rubric(locked, str(path))
    if rubric.state != "locked":
        raise InputError(f'{path}: write its state as the line `state = "calibrated"`')
    with atomic_file(path) as part:
        part.write_bytes(locked)
    write_text(lock_path(path), json.dumps(_lock_entry(rubric), indent=1) + "\n")
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
        lines += [f"    {n}: {text}" for n, text in enumerate(example.turns, example.first_turn)]
        lines += ["", f"Label {example.label} (step: {example.step}). {example.reason}"]
    return "\n".join(lines)


def history_lines(rubric: Rubric) -> list[str]:
    """List the versions, each with its kappa or why it was not measured."""

    def format_kappa(entry: Version) -> str:
        if entry.kappa is None:
            return f"(kappa not measured: {entry.why_unmeasured or 'still a draft'})"
        items = f" on {entry.items} items" if entry.items else ""
        return f"(kappa {entry.kappa:.3f}{items})"

    return [f"- {entry.version}: {entry.change} {format_kappa(entry)}" for entry in rubric.history]


def _lock_entry(rubric: Rubric) -> dict[str, str]:
    return {"name": rubric.name, "version": rubric.version, "sha256": rubric.sha256}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} can't be read ({error.strerror})") from None


def _unwrap(value: Any) -> Any:
    """Unwrap the lines of all texts."""
    if isinstance(value, Mapping):
        return {key: _unwrap(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unwrap(item) for item in value]
    return " ".join(value.split()) if isinstance(value, str) else value
