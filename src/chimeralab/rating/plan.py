"""The tables [rubric] and [raters] of a plan, and the rubric of a study."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.parts import Part, PartLoader, read_part, read_record, read_value
from chimeralab.core.records import Record
from chimeralab.rating.gate import HUMAN, Count, Gate
from chimeralab.rating.ratings import SEAM, RaterPart
from chimeralab.rating.rubric import (
    VERSIONS,
    Rubric,
    add_calibration,
    find_rubric,
    load_rubric,
)
from chimeralab.rating.rules import NAME, RulesPart
from chimeralab.study.folder import Study

# Built-in raters. Models of a plan and people can rate too.
RATERS: dict[str, RaterPart] = {NAME: RulesPart()}

# The notes of a study that hold the results of calibrations start with this.
CALIBRATION = "calibration of rubric "

OwnName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]


@dataclass(frozen=True, slots=True)
class RubricTable(Record):
    """[rubric]: a file of your own, or a version that is built in; the lock pins its hash."""

    file: str | None = None
    version: str | None = None
    sha256: str | None = None

    @classmethod
    def read(cls, table: Any, place: str, loader: PartLoader) -> "RubricTable":
        """Read the table and resolve the version and the hash of the file."""
        read = read_record(cls, table, place)
        if read.file is None and read.version not in (None, *VERSIONS):
            raise InputError(
                f"{place} version = '{read.version}': the built-in versions are "
                f"{' and '.join(VERSIONS)}; name the file of another one with file = '...'"
            )
        rubric = read.load(loader.folder)
        for name in ("version", "sha256"):
            asked, present = getattr(read, name), getattr(rubric, name)
            if asked not in (None, present):
                raise InputError(f"{place} {name} = '{asked}', but the rubric's is '{present}'")
        return replace(read, version=rubric.version, sha256=rubric.sha256)

    def load(self, folder: Path) -> Rubric:
        return load_rubric(find_rubric(self.version) if self.file is None else folder / self.file)


@dataclass(frozen=True, slots=True)
class RatersTable(Record):
    """[raters]: how models are asked for a rating, and [raters.NAME]: custom raters."""

    retries: Annotated[int, Field(ge=0)] = 2
    temperature: Annotated[float, Field(ge=0)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.95
    max_tokens: Count = 400
    seed: int = 0
    own: Mapping[str, Part] = field(default_factory=dict)

    @classmethod
    def read(cls, table: Any, place: str, loader: PartLoader) -> "RatersTable":
        named = table if isinstance(table, Mapping) else {}
        own = {name: value for name, value in named.items() if isinstance(value, Mapping)}
        settings = table if not own else {k: v for k, v in named.items() if k not in own}
        parts = {}
        for name, value in own.items():
            at = f"[raters.{name}]"
            read_value(OwnName, name, "[raters] the name")
            use = value.get("use")
            if not isinstance(use, str) or ":" not in use:
                raise InputError(f"{at} needs use = 'module:Class', a custom rater")
            parts[name] = read_part({}, value, at, loader, SEAM)
            if not callable(getattr(parts[name].settings, "open", None)):
                raise InputError(f"use = {use!r} in {at} has no method open(rubric)")
        return replace(read_record(cls, settings, place), own=parts)

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(self.own.values())

    def model_settings(self) -> dict[str, Any]:
        """The settings for models."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "own"}

    def as_dict(self) -> dict[str, Any]:
        """Leave out `own` when empty, to keep the hash of plans that were locked without it."""
        own = {name: part.as_dict() for name, part in self.own.items()}
        return {**self.model_settings(), **({"own": own} if own else {})}


def check_raters(gate: Gate, raters: RatersTable, models: Collection[str]) -> None:
    """Reject unknown raters of a gate, and a custom rater whose name is taken."""
    taken = next((name for name in raters.own if name in RATERS or name in models), None)
    if taken:
        raise InputError(f"[raters.{taken}]: the name '{taken}' is taken by another rater")
    for rater in gate.raters:
        check_rater_name(rater, raters, models, " in [gate] raters")


def check_rater_name(
    name: str, raters: RatersTable, models: Collection[str], place: str = ""
) -> None:
    known = (*RATERS, *raters.own, *models)
    if name not in known and (name == HUMAN or not name.startswith(HUMAN)):
        raise InputError(
            f"unknown rater '{name}'{place}; known: {', '.join(known)}, or {HUMAN}NAME for a person"
        )


def load_study_rubric(study: Study) -> Rubric:
    """Load the rubric of the plan and check that it has not changed since the plan was read.

    A draft that was calibrated in this study is locked in it.
    """
    table = study.plan.extras["rubric"]
    rubric: Rubric = table.load(study.path)
    if rubric.sha256 != table.sha256:
        raise InputError(f"the rubric of {study.path} changed in the meantime; start again")
    if rubric.state == "locked":
        return rubric
    met = next((each for each in load_calibrations(study, rubric) if each["passed"]), None)
    return replace(add_calibration(rubric, met), state="locked") if met else rubric


def describe_draft(study: Study) -> str:
    """Say that no calibration of the rubric is on record, and what that keeps from being decided.

    Empty for a rubric that is locked, and for a study that is not rated.
    """
    if "rubric" not in study.plan.extras or not (warning := load_study_rubric(study).warning):
        return ""
    declared = study.plan.extras["gate"].declared
    return f"{warning}, and before that no gate is decided" if declared else warning


def load_calibrations(study: Study, rubric: Rubric | None = None) -> list[dict[str, Any]]:
    """Load the results of calibrations in the order of time, of one rubric or of all."""
    if not study.store_path.is_file():
        return []
    which = f"{CALIBRATION}{rubric.sha256 if rubric else ''}%"
    with study.archive() as archive:
        rows = archive.rows("SELECT value FROM study WHERE key LIKE ?", which)
        return sorted((json.loads(row["value"]) for row in rows), key=lambda each: each["at"])
