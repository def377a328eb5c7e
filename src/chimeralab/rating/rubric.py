"""The rubric: what raters look for, as one versioned file that can't change once it is locked."""

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
    """One question of the decision procedure; the last one has no kind."""

    id: StepName
    question: str
    kind: KindName | None = None


@dataclass(frozen=True, slots=True)
class Distinction(Record):
    """A borderline that raters get wrong without help."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Example(Record):
    """A worked example: turns with their label, the decisive step and the reason."""

    title: str
    label: Label
    step: StepName
    first_turn: int
    turns: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Version(Record):
    """One version of the rules, and the reliability that raters reached with it."""

    version: str
    change: str
    kappa: float | None = None
    items: int | None = None
    why_unmeasured: str | None = None


@dataclass(frozen=True, slots=True)
class Rubric(Record):
    """Rules, steps, distinctions, examples and history under one version and one state."""

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
    """Read a rubric; a locked one must be what was locked, to the byte."""
    rubric = parse_rubric(_read(path), str(path))
    lock = lock_path(path)
    if not lock.exists():
        if rubric.state == "locked":
            raise InputError(
                f"{path} calls itself locked and has no {lock.name} beside it; "
                'set its state to "calibrated" and run `chimera rubric lock`'
            )
        return rubric
    try:
        locked = json.loads(_read(lock))
    except ValueError:
        raise InputError(f"{lock} is damaged; restore it from a copy") from None
    if locked != _lock_entry(rubric):
        raise InputError(
            f"{path} is not the rubric that was locked: its hash is {rubric.sha256[:12]}, not "
            f"the one in {lock.name}. Undo the change, or make it a new version in a file of its "
            'own with state = "draft"'
        )
    return rubric


def parse_rubric(content: bytes, source: str) -> Rubric:
    """Make a rubric of a file's bytes."""
    try:
        table = tomllib.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{source} is not a TOML file: {error}") from None
    values = _on_one_line(table) | {"sha256": hashlib.sha256(content).hexdigest()}
    rubric = read_record(Rubric, values, source)
    entries = [entry for entry in rubric.history if entry.version == rubric.version]
    if len(entries) != 1:
        raise InputError(f"{source}: the history needs one entry for version {rubric.version}")
    if rubric.state != "draft" and entries[0].kappa is None and not entries[0].why_unmeasured:
        raise InputError(
            f"{source} is {rubric.state}: its history must give the kappa that version "
            f"{rubric.version} reached, or say under why_unmeasured why there is none"
        )
    return rubric


def lock_rubric(path: Path) -> Rubric:
    """Take a calibrated rubric to its last state and write the lock beside it."""
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
    """Where the lock of a rubric lies."""
    return path.with_suffix(".lock")


def rubric_text(rubric: Rubric) -> str:
    """The rubric in Markdown, for people and model raters: all work by the same words."""
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
    """One line per version, with the reliability it reached or why none is known."""

    def reached(entry: Version) -> str:
        if entry.kappa is None:
            return f"(kappa not measured: {entry.why_unmeasured or 'still a draft'})"
        items = f" on {entry.items} items" if entry.items else ""
        return f"(kappa {entry.kappa:.3f}{items})"

    return [f"- {entry.version}: {entry.change} {reached(entry)}" for entry in rubric.history]


def _lock_entry(rubric: Rubric) -> dict[str, str]:
    return {"name": rubric.name, "version": rubric.version, "sha256": rubric.sha256}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} can't be read ({error.strerror})") from None


def _on_one_line(value: Any) -> Any:
    """The same values with each text on one line: the file breaks lines for its readers only."""
    if isinstance(value, Mapping):
        return {key: _on_one_line(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_on_one_line(item) for item in value]
    return " ".join(value.split()) if isinstance(value, str) else value
