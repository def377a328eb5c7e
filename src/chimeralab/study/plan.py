"""The plan of a study: read from TOML, checked completely, every default written out."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.files import read_text
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
from chimeralab.study.database import StoreError
from chimeralab.study.kind import Design, Kind, MissingSourceError, read_kind

# More than this in one prompt or plan is a file picked by mistake.
LARGEST_PLAN = 10_000_000
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True)
class About(Record):
    """[study]: what is asked."""

    name: Annotated[str, Field(min_length=1)]
    question: str = ""
    kind: str = "selfplay"


@dataclass(frozen=True, slots=True)
class SamplingChange(Record):
    """[sampling], wherever it stands: what is not named stays as it was further out."""

    temperature: Annotated[float, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: Count | None = None

    def on(self, base: Sampling) -> Sampling:
        changes = {key: value for key, value in self.as_dict().items() if value is not None}
        return replace(base, **changes)


@dataclass(frozen=True, slots=True)
class Declared(Record):
    """The keys of [models.NAME] that every kind of model has.

    A revision is what the plan's author declares; no server lets us check it.
    """

    revision: str | None = None
    price: Price | None = None
    sampling: SamplingChange = field(default_factory=SamplingChange)


@dataclass(frozen=True, slots=True)
class RunTable(Record):
    """[run]: how the work is done. Each run may set other limits on the command line."""

    seed: int = 0
    concurrency: Count = 8
    interleave: bool = True
    max_cost: Annotated[float, Field(ge=0)] | None = None
    max_hours: Annotated[float, Field(gt=0)] | None = None
    retry_wait: Annotated[float, Field(ge=0)] = 1.0


@dataclass(frozen=True, slots=True)
class Subject(Record):
    """A model of the plan: which part, as which revision it is declared, at what price."""

    part: Part
    revision: str | None = None
    price: Price | None = None


@dataclass(frozen=True, slots=True)
class Condition(Record):
    """Who speaks, fully resolved, and what is done on collapse."""

    speakers: tuple[Speaker, ...]
    countermeasure: Part | None = None


@dataclass(frozen=True, slots=True)
class Plan(Record):
    """A whole study as it was declared; `own` is what only studies of its kind have.

    `detector` judges what was said; `live` acts while it is said, where that is another one.
    `code` has the files of parts that are not ours, by the `use` that names them, and
    `outside_parts` what there is to know of these parts without running them. Without `consent`
    none of that code is run.
    """

    study: About
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
        """The plan as a lock holds it; what it says of outside code stands there by itself."""
        values = Record.as_dict(self)
        own = values.pop("own")
        for name in ("code", PARTS, "consent", "kind"):
            del values[name]
        # Every lock has the key `trial`, as one of the first version had.
        return {**values, "trial": None, **({self.kind.name: own} if own is not None else {})}

    @property
    def acting(self) -> Part:
        """The detector that `stop_early` and countermeasures listen to."""
        return self.live or self.detector

    @property
    def needs_guard(self) -> bool:
        """Whether the course of a conversation depends on the detector."""
        measures = any(condition.countermeasure for condition in self.conditions.values())
        return measures or self.conversation.stop_early


def read_plan(path: Path, loader: PartLoader, locked: Mapping[str, Any] | None = None) -> Plan:
    """Read a plan file. Whatever is wrong with it is said in one sentence, without any key."""
    try:
        text = read_text(path, "a plan", max_bytes=LARGEST_PLAN)
        return make_plan(tomllib.loads(text), loader, locked)
    except tomllib.TOMLDecodeError as error:
        raise InputError(redact(f"{path.name}: not valid TOML: {error}")) from error
    except StoreError:
        raise  # the store was asked what code its plan names; what is wrong is not in the plan
    except InputError as error:
        kind = MissingSourceError if isinstance(error, MissingSourceError) else InputError
        raise kind(redact(f"{path.name}: {error}")) from None


def make_plan(
    tables: Mapping[str, Any], loader: PartLoader, locked: Mapping[str, Any] | None = None
) -> Plan:
    """Resolve the tables of a plan. Files and code that it names are looked for beside it.

    `locked` is the resolved plan, for what can't be made again from the files.
    """
    part = read_kind(tables, loader)
    kind: Kind = part.settings
    if not isinstance(kind, StandIn):
        _check_tables(tables, kind)
    _refuse_secrets(tables)
    about = read_record(About, tables.get("study"), "[study]")
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
        run=read_record(RunTable, tables.get("run", {}), "[run]"),
        code=dict(loader.code),
        outside_parts=tuple(loader.parts),
        consent=loader.consent,
    )
    _check_together(plan)
    return plan


def refuse_unpriced(plan: Plan) -> None:
    """Raise when the cost of a reply could not be known."""
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
            raise InputError(f"there is no table [{name}]; a plan needs {', '.join(kind.required)}")


def _design_as_locked(kind: Kind, tables: Mapping[str, Any], loader: PartLoader) -> Design:
    """What a kind whose code may not run has read before: its lock has every word of it."""
    kept = loader.locked()
    conditions: dict[str, Condition] = {}
    for name, condition in kept["conditions"].items():
        speakers = read_value(tuple[Speaker, ...], condition["speakers"], f"plan.lock {name}")
        conditions[name] = Condition(speakers)
    return Design(
        models=read_models(tables, loader, MODELS),
        conditions=conditions,
        conversation=read_record(Rules, kept["conversation"], "plan.lock [conversation]"),
        prompts=read_value(tuple[Prompt, ...], kept["prompts"], "plan.lock [prompts]"),
        extras=kind.read_extras({}, loader),
    )


def _refuse_secrets(tables: Mapping[str, Any]) -> None:
    text = str(tables)
    for name, value in secrets(*re.findall(r"'key_env': '(\w+)'", text)).items():
        if value in text:
            raise InputError(
                f"the plan holds the value of the environment variable {name}; "
                "take it out: keys are read from the environment and belong in no file"
            )


def read_models(
    tables: Mapping[str, Any], loader: PartLoader, known: Mapping[str, type], *, needed: bool = True
) -> dict[str, Subject]:
    """[models.NAME]: which part each model is, and what the plan declares of it."""
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
    """A table that names a model or an agent, with the keys that all of them have."""
    table = dict(table) if isinstance(table, Mapping) else {}
    common = {key: table.pop(key) for key in ("revision", "price", "sampling") if key in table}
    declared = read_record(Declared, common, place)
    part = read_part(known, table, place, loader, seam)
    return Subject(part, declared.revision, declared.price)


def _detector(table: Any, place: str, loader: PartLoader) -> Part:
    """[detector]: what decides which turns are collapsed: `locked`, `loops` or one of your own.

    The same one ends conversations under `stop_early` and triggers countermeasures, unless there
    is one for that in [live].
    """
    named = {"use": "locked", **table} if isinstance(table, Mapping) else table
    part = read_part(DETECTORS, named, place, loader, judging.SEAM)
    check_detector(part.settings, f"use = {part.use!r} in {place}")
    return part


def read_named_tables(
    tables: Mapping[str, Any], key: str, *, needed: bool = False
) -> Mapping[str, Any]:
    """The tables [KEY.NAME] of a plan, under names that can stand in a file name."""
    named = tables.get(key, {})
    if not isinstance(named, Mapping) or (needed and not named):
        raise InputError(
            f"[{key}] takes tables [{key}.NAME]" + (", one at least" if needed else "")
        )
    for name in named:
        read_value(Name, name, f"[{key}] the name")
    return named


def merge_sampling(*changes: SamplingChange) -> Sampling:
    """How replies are drawn once every change is made, the last one winning."""
    sampling = Sampling()
    for change in changes:
        sampling = change.on(sampling)
    return sampling


def _check_together(plan: Plan) -> None:
    """What no table can know of the others."""
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
            "[live] names a detector, but neither stop_early nor a countermeasure does "
            "anything when it fires; add one of them, or leave [live] out"
        )
