"""The plan of a study: read from TOML, validated, with every default filled in."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.files import parse_toml, read_text
from chimeralab.core.parts import (
    PARTS,
    CodeFile,
    Consent,
    Part,
    PartLoader,
    Seam,
    StandIn,
    choose,
    read_part,
    read_record,
    read_value,
)
from chimeralab.core.records import Record
from chimeralab.core.text import redact, secrets
from chimeralab.detection import judging
from chimeralab.detection.judging import DETECTORS
from chimeralab.detection.seam import check_detector
from chimeralab.models import seam as models
from chimeralab.models.catalogue import MODELS
from chimeralab.models.seam import Sampling
from chimeralab.runner import Price, Prompt, Rules, Speaker
from chimeralab.runner.interventions import Schedule
from chimeralab.study.database import StoreError
from chimeralab.study.kind import Design, Kind, MissingSourceError, read_kind

# A larger plan is a file picked by mistake.
MAX_PLAN_BYTES = 10_000_000
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True)
class StudyTable(Record):
    """[study]: the name and the question."""

    name: Annotated[str, Field(min_length=1)]
    question: str = ""
    kind: str = "selfplay"


@dataclass(frozen=True, slots=True)
class SamplingChange(Record):
    """[sampling] at any level; keys that are absent keep the value of the outer level."""

    temperature: Annotated[float, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: Count | None = None

    def on(self, base: Sampling) -> Sampling:
        changes = {key: value for key, value in self.as_dict().items() if value is not None}
        return replace(base, **changes)


@dataclass(frozen=True, slots=True)
class RunTable(Record):
    """[run]: order, concurrency and limits, which the command line may override for one run."""

    seed: int = 0
    concurrency: Count = 8
    interleave: bool = True
    max_cost: Annotated[float, Field(ge=0)] | None = None
    max_hours: Annotated[float, Field(gt=0)] | None = None
    retry_wait: Annotated[float, Field(ge=0)] = 1.0


@dataclass(frozen=True, slots=True)
class Subject(Record):
    """A model of the plan; its declared `revision` is compared with what its server tells."""

    part: Part
    revision: str | None = None
    price: Price | None = None


@dataclass(frozen=True, slots=True)
class Condition(Record):
    """The speakers of a condition, fully resolved, and its countermeasure.

    With a schedule, it is an arm of another condition, and the countermeasure is its treatment.
    """

    speakers: tuple[Speaker, ...]
    countermeasure: Part | None = None
    schedule: Schedule | None = None

    @property
    def is_watched(self) -> bool:
        """Whether the live detector decides when, or with which words, it is treated."""
        if self.countermeasure is None or self.schedule is None:
            return self.countermeasure is not None
        part = self.countermeasure.settings
        return self.schedule.after_onset is not None or bool(getattr(part, "watches", False))


@dataclass(frozen=True, slots=True)
class Plan(Record):
    """A whole study as declared; `own` has what only studies of its kind have.

    `detector` judges conversations afterwards; `live`, if given, while they run. `code` has the
    files of outside parts by the `use` that names them, and `outside_parts` describes these parts
    without running them. Without `consent`, none of that code is run.
    """

    study: StudyTable
    models: Mapping[str, Subject]
    conditions: Mapping[str, Condition]
    conversation: Rules
    prompts: tuple[Prompt, ...]
    detector: Part
    run: RunTable
    extras: Mapping[str, Any] = field(default_factory=dict)
    kind: Kind = field(default_factory=Kind)
    own: Any = None
    live: Part | None = None
    code: Mapping[str, CodeFile] = field(default_factory=dict)
    outside_parts: tuple[Mapping[str, Any], ...] = ()
    consent: Consent | None = None

    def as_dict(self) -> dict[str, Any]:
        """The plan as the lock stores it, without outside code, which has its own keys there."""
        values = Record.as_dict(self)
        own = values.pop("own")
        for name in ("code", PARTS, "consent", "kind"):
            del values[name]
        # Every lock has the key `trial`; removing it would change all hashes.
        return {**values, "trial": None, **({self.kind.name: own} if own is not None else {})}

    @property
    def acting(self) -> Part:
        """The detector that triggers `stop_early` and countermeasures."""
        return self.live or self.detector

    @property
    def needs_guard(self) -> bool:
        """Whether the detector can change a conversation while it runs."""
        measures = any(condition.is_watched for condition in self.conditions.values())
        return measures or self.conversation.stop_early


def read_plan(path: Path, loader: PartLoader, locked: Mapping[str, Any] | None = None) -> Plan:
    """Read a plan file; errors name the file, and keys are redacted from them."""
    try:
        text = read_text(path, "a plan", max_bytes=MAX_PLAN_BYTES)
        try:
            tables = parse_toml(text)
        except ValueError as error:
            raise InputError(f"not valid TOML: {error}") from None
        return make_plan(tables, loader, locked)
    except StoreError:
        raise  # reading outside parts consults the store; its errors are not the plan's
    except InputError as error:
        kind = MissingSourceError if isinstance(error, MissingSourceError) else InputError
        raise kind(redact(f"{path.name}: {error}")) from None


def make_plan(
    tables: Mapping[str, Any], loader: PartLoader, locked: Mapping[str, Any] | None = None
) -> Plan:
    """Resolve the tables of a plan.

    `locked` is the resolved plan, for what can't be rebuilt from the files.
    """
    part = read_kind(tables, loader)
    kind: Kind = part.settings
    if not isinstance(kind, StandIn):
        _check_tables(tables, kind)
    _refuse_secrets(tables)
    about = read_record(StudyTable, tables.get("study"), "[study]")
    run = read_record(RunTable, tables.get("run", {}), "[run]")  # whose seed a design may use
    if isinstance(kind, StandIn):
        design = _design_as_locked(kind, tables, loader)
    else:
        design = kind.read(tables, loader, locked)
    plan = Plan(
        study=replace(about, kind=part.use),
        **design._asdict(),
        kind=kind,
        detector=_detector(tables.get("detector", {}), "[detector]", loader),
        live=_detector(tables["live"], "[live]", loader) if "live" in tables else None,
        run=run,
        code=dict(loader.code),
        outside_parts=tuple(loader.parts),
        consent=loader.consent,
    )
    _check_together(plan)
    return plan


def refuse_unpriced(plan: Plan) -> None:
    """Raise if some model has no price."""
    unpriced = [name for name, subject in plan.models.items() if subject.price is None]
    if unpriced:
        raise InputError(
            f"max_cost can't be enforced without a price for {', '.join(unpriced)}; "
            f"set [models.{unpriced[0]}] price = {{ input = …, output = … }} (0 where it is free)"
        )


def _check_tables(tables: Mapping[str, Any], kind: Kind) -> None:
    for name in tables:
        choose(name, (*kind.tables, "kind"), f"table [{name}]")
    for name in kind.required:
        if name not in tables:
            raise InputError(f"there is no table [{name}]; required: {', '.join(kind.required)}")


def _design_as_locked(kind: Kind, tables: Mapping[str, Any], loader: PartLoader) -> Design:
    """Take the design of a kind whose code may not run from its lock."""
    locked = loader.locked()
    conditions: dict[str, Condition] = {}
    for name, condition in locked["conditions"].items():
        speakers = read_value(tuple[Speaker, ...], condition["speakers"], f"plan.lock {name}")
        conditions[name] = Condition(speakers)
    return Design(
        models=read_models(tables, loader, MODELS),
        conditions=conditions,
        conversation=read_record(Rules, locked["conversation"], "plan.lock [conversation]"),
        prompts=read_value(tuple[Prompt, ...], locked["prompts"], "plan.lock [prompts]"),
        extras=kind.read_extras({}, loader),
    )


def _refuse_secrets(tables: Mapping[str, Any]) -> None:
    text = str(tables)
    for name, value in secrets(*re.findall(r"'key_env': '(\w+)'", text)).items():
        if value in text:
            raise InputError(
                f"the plan contains the value of the environment variable {name}; "
                "remove it: keys are read from the environment"
            )


def read_models(
    tables: Mapping[str, Any], loader: PartLoader, known: Mapping[str, type], *, needed: bool = True
) -> dict[str, Subject]:
    """Read [models.NAME]."""
    found = {}
    for name, table in read_named_tables(tables, "models", needed=needed).items():
        place = f"[models.{name}]"
        found[name] = read_subject(known, table, place, loader, models.SEAM)
        if not callable(getattr(found[name].part.settings, "open", None)):
            use = found[name].part.use
            raise InputError(f"use = {use!r} in {place} is not a model; it needs a method open()")
    return found


def read_subject(
    known: Mapping[str, type], table: Any, place: str, loader: PartLoader, seam: Seam
) -> Subject:
    """Read a table that names a model or an agent, with the keys common to all of them."""
    table = dict(table) if isinstance(table, Mapping) else {}
    revision = read_value(str | None, table.pop("revision", None), f"{place} revision")
    price = read_value(Price | None, table.pop("price", None), f"{place} price")
    read_record(SamplingChange, table.pop("sampling", {}), f"{place} sampling")
    return Subject(read_part(known, table, place, loader, seam), revision, price)


def _detector(table: Any, place: str, loader: PartLoader) -> Part:
    """Read [detector] or [live]: `locked`, `loops` or one of your own."""
    named = {"use": "locked", **table} if isinstance(table, Mapping) else table
    part = read_part(DETECTORS, named, place, loader, judging.SEAM)
    check_detector(part.settings, f"use = {part.use!r} in {place}")
    return part


def read_named_tables(
    tables: Mapping[str, Any], key: str, *, needed: bool = False
) -> Mapping[str, Any]:
    """Read the tables [KEY.NAME], whose names must be valid in a file name."""
    named = tables.get(key, {})
    if not isinstance(named, Mapping) or (needed and not named):
        raise InputError(
            f"[{key}] takes tables [{key}.NAME]" + (", at least one" if needed else "")
        )
    for name in named:
        read_value(Name, name, f"[{key}] the name")
    return named


def merge_sampling(*changes: SamplingChange) -> Sampling:
    """Apply sampling tables from the outermost to the innermost."""
    sampling = Sampling()
    for change in changes:
        sampling = change.on(sampling)
    return sampling


def _check_together(plan: Plan) -> None:
    """Check constraints between tables."""
    if plan.run.max_cost is not None:
        refuse_unpriced(plan)
    why_not = plan.acting.settings.needs.why_not_live
    if plan.needs_guard and why_not:
        raise InputError(
            f"[{'live' if plan.live else 'detector'}] can't judge live, and stop_early or a "
            f"countermeasure depends on it: {why_not}"
        )
    if plan.live and not plan.needs_guard:
        raise InputError(
            "[live] names a detector, but neither stop_early nor a countermeasure uses it; "
            "add one of them, or leave [live] out"
        )
