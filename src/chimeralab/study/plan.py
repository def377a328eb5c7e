"""The plan of a study: read from TOML, checked completely, every default written out."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chimeralab.core.code import CodeFile, Consent
from chimeralab.core.errors import InputError
from chimeralab.core.files import read_text
from chimeralab.core.parts import (
    PARTS,
    Beside,
    OutsidePart,
    Part,
    Seam,
    choose,
    read_part,
    read_record,
)
from chimeralab.core.records import Record
from chimeralab.core.secrets import redact, secrets
from chimeralab.detection import detectors
from chimeralab.detection.detectors import DETECTORS, check_detector
from chimeralab.models import seam as models
from chimeralab.models.catalogue import MODELS
from chimeralab.rating.plan import check_raters
from chimeralab.runner import Price, Prompt, Rules, Speaker, interventions
from chimeralab.runner.interventions import COUNTERMEASURES, check_countermeasure, models_of
from chimeralab.study.database import StoreError
from chimeralab.study.sections import (
    EXTRA_TABLES,
    About,
    ConditionTable,
    Declared,
    PromptTable,
    RunTable,
    SamplingChange,
    cast,
    named_tables,
    read_prompts,
)
from chimeralab.trial import plan as trial_plan
from chimeralab.trial.agents import AGENTS, abilities_of
from chimeralab.trial.agents import seam as agents
from chimeralab.trial.course import Course
from chimeralab.trial.phantoms import SUBJECTS
from chimeralab.trial.plan import TrialPlan, read_trial
from chimeralab.trial.scenarios.public_sets import SetIsGone

REQUIRED = ("study", "models", "conditions", "prompts")
TABLES = (*REQUIRED, "sampling", "conversation", "detector", "live", "run")
# More than this in one prompt or plan is a file picked by mistake.
LARGEST_PLAN = 10_000_000


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
    """A whole study as it was declared; `trial` is what a study of that kind has beside it.

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
    trial: TrialPlan | None = None
    live: Part | None = None
    code: Mapping[str, CodeFile] = field(default_factory=dict)
    outside_parts: tuple[OutsidePart, ...] = ()
    consent: Consent | None = None

    def as_dict(self) -> dict[str, Any]:
        """The plan as a lock holds it; what it says of outside code stands there by itself."""
        values = Record.as_dict(self)
        return {k: v for k, v in values.items() if k not in ("code", PARTS, "consent")}

    @property
    def acting(self) -> Part:
        """The detector that `stop_early` and countermeasures listen to."""
        return self.live or self.detector

    @property
    def needs_guard(self) -> bool:
        """Whether the course of a conversation depends on the detector."""
        measures = any(condition.countermeasure for condition in self.conditions.values())
        return measures or self.conversation.stop_early


def read_plan(path: Path, beside: Beside, locked: tuple[Course, ...] = ()) -> Plan:
    """Read a plan file. Whatever is wrong with it is said in one sentence, without any key."""
    try:
        text = read_text(path, "a plan", most_bytes=LARGEST_PLAN)
        return make_plan(tomllib.loads(text), beside, locked)
    except tomllib.TOMLDecodeError as error:
        raise InputError(redact(f"{path.name}: not valid TOML: {error}")) from error
    except StoreError:
        raise  # the store was asked what code its plan names; what is wrong is not in the plan
    except InputError as error:
        kind = SetIsGone if isinstance(error, SetIsGone) else InputError
        raise kind(redact(f"{path.name}: {error}")) from None


def make_plan(tables: Mapping[str, Any], beside: Beside, locked: tuple[Course, ...] = ()) -> Plan:
    """Resolve the tables of a plan. Files and code that it names are looked for beside it.

    The scenarios of a trial are taken from `locked` where there are any; what an early version
    locked keeps the meaning that it had then.
    """
    study = tables.get("study")
    of_trial = isinstance(study, Mapping) and study.get("kind") == "trial"
    _check_tables(tables, of_trial)
    _refuse_secrets(tables)
    extras = {}
    for name, cls in EXTRA_TABLES.items():
        # A table that names files or code reads itself, as it is told in which folder they lie.
        read: Any = getattr(cls, "read", None)
        # A trial has its own outcomes, and nobody rates it.
        given, place = {} if of_trial else tables.get(name, {}), f"[{name}]"
        extras[name] = read(given, place, beside) if read else read_record(cls, given, place)
    subjects = _subjects(tables, beside)
    plan = Plan(
        study=read_record(About, study, "[study]"),
        models=subjects,
        **(_trial(tables, beside, subjects, locked) if of_trial else _selfplay(tables, beside)),
        detector=_detector(tables.get("detector", {}), "[detector]", beside),
        live=_detector(tables["live"], "[live]", beside) if "live" in tables else None,
        run=read_record(RunTable, tables.get("run", {}), "[run]"),
        extras=extras,
        code=dict(beside.code),
        outside_parts=tuple(beside.parts),
        consent=beside.consent,
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


def _check_tables(tables: Mapping[str, Any], of_trial: bool) -> None:
    required = trial_plan.REQUIRED if of_trial else REQUIRED
    known = trial_plan.TABLES if of_trial else (*TABLES, *EXTRA_TABLES)
    for name in tables:
        choose(name, known, f"table [{name}]")
    for name in required:
        if name not in tables:
            raise InputError(f"there is no table [{name}]; a plan needs {', '.join(required)}")


def _refuse_secrets(tables: Mapping[str, Any]) -> None:
    text = str(tables)
    for name, value in secrets(*re.findall(r"'key_env': '(\w+)'", text)).items():
        if value in text:
            raise InputError(
                f"the plan holds the value of the environment variable {name}; "
                "take it out: keys are read from the environment and belong in no file"
            )


def _subjects(tables: Mapping[str, Any], beside: Beside) -> dict[str, Subject]:
    """[models.NAME], and [agents.NAME] where there are any."""
    named = named_tables(tables, "agents")
    found = {
        name: _subject(name, table, beside)
        for name, table in named_tables(tables, "models", needed=not named).items()
    }
    for name, table in named.items():
        place = f"[agents.{name}]"
        if name in found:
            raise InputError(f"{place} is a model already; give one of them another name")
        subject = _read_subject(AGENTS, table, place, beside, agents.SEAM)
        if not any(hasattr(subject.part.settings, each) for each in ("start", "open", "within")):
            raise InputError(
                f"use = {subject.part.use!r} in {place} is not an agent; it needs a method "
                "start(session)"
            )
        found[name] = subject
    return found


def _subject(name: str, table: Any, beside: Beside) -> Subject:
    place = f"[models.{name}]"
    subject = _read_subject(MODELS | SUBJECTS, table, place, beside, models.SEAM)
    if not callable(getattr(subject.part.settings, "open", None)):
        use = subject.part.use
        raise InputError(f"use = {use!r} in {place} is not a model; it needs a method open()")
    return subject


def _read_subject(
    known: Mapping[str, type], table: Any, place: str, beside: Beside, seam: Seam
) -> Subject:
    table = dict(table) if isinstance(table, Mapping) else {}
    common = {key: table.pop(key) for key in ("revision", "price", "sampling") if key in table}
    declared = read_record(Declared, common, place)
    part = read_part(known, table, place, beside, seam)
    return Subject(part, declared.revision, declared.price)


def _detector(table: Any, place: str, beside: Beside) -> Part:
    """[detector]: what decides which turns are collapsed: `locked`, `loops` or one of your own.

    The same one ends conversations under `stop_early` and triggers countermeasures, unless there
    is one for that in [live].
    """
    named = {"use": "locked", **table} if isinstance(table, Mapping) else table
    part = read_part(DETECTORS, named, place, beside, detectors.SEAM)
    check_detector(part.settings, f"use = {part.use!r} in {place}")
    return part


def _trial(
    tables: Mapping[str, Any],
    beside: Beside,
    subjects: Mapping[str, Subject],
    locked: tuple[Course, ...],
) -> dict[str, Any]:
    """Who is tested with what: an arm is a condition, and a scenario a prompt."""
    able = {
        name: _abilities(name, subjects[name].part.settings, beside)
        for name in tables.get("agents", {})
    }
    found = read_trial(tables, beside, able, locked)
    return {
        "conditions": {name: Condition(speakers) for name, speakers in found.speakers.items()},
        "conversation": found.rules,
        "prompts": found.prompts,
        "trial": found.plan,
    }


def _abilities(name: str, settings: Any, beside: Beside) -> tuple[str, ...]:
    """What an agent can do. One that was locked is not asked: a finished study needs no code."""
    for words, file in settings.code(beside.folder).items() if _names_code(settings) else ():
        beside.take(words, file)
    known = (beside.locked().get("trial") or {}).get("agents", {})
    place = f"[agents.{name}]"
    if name in known:
        return tuple(known[name])
    if beside.consent is None and not hasattr(settings, "can"):
        raise InputError(
            f"{place} is code, which this command does not run, and no lock or run describes it; "
            "`chimera lock STUDY --allow-code` does"
        )
    return abilities_of(settings, beside.folder, place)


def _names_code(settings: Any) -> bool:
    """Whether a part of ours runs code that the plan names."""
    return callable(getattr(settings, "code", None))


def _selfplay(tables: Mapping[str, Any], beside: Beside) -> dict[str, Any]:
    """Who speaks about what in conversations between models."""
    sampling = read_record(SamplingChange, tables.get("sampling", {}), "[sampling]")
    by_model = {
        name: read_record(SamplingChange, table.get("sampling", {}), f"[models.{name}.sampling]")
        for name, table in tables["models"].items()
    }
    conditions = {}
    for name, table in named_tables(tables, "conditions", needed=True).items():
        place = f"[conditions.{name}]"
        read = read_record(ConditionTable, table, place)
        speakers = cast(read, sampling, by_model, place)
        conditions[name] = Condition(speakers, _countermeasure(read, by_model, place, beside))
    prompts = read_record(PromptTable, tables["prompts"], "[prompts]")
    return {
        "conditions": conditions,
        "conversation": read_record(Rules, tables.get("conversation", {}), "[conversation]"),
        "prompts": read_prompts(prompts, beside.folder),
    }


def _countermeasure(
    table: ConditionTable, known: Mapping[str, Any], place: str, beside: Beside
) -> Part | None:
    if table.countermeasure is None:
        return None
    place = f"{place} countermeasure"
    part = read_part(COUNTERMEASURES, table.countermeasure, place, beside, interventions.SEAM)
    check_countermeasure(part.settings, f"use = {part.use!r} in {place}")
    for model in models_of(part.settings):
        choose(model, known, f"model {model!r} in {place}")
    return part


def _check_together(plan: Plan) -> None:
    """What no table can know of the others."""
    buckets = {prompt.bucket for prompt in plan.prompts}
    plan.extras["outcomes"].check(plan.conditions, buckets)
    check_raters(plan.extras["gate"], plan.extras["raters"], plan.models)
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
