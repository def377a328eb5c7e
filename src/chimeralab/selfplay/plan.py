"""The tables of a self-play plan: conditions with their speakers, prompts, raters and gate."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.files import parse_json, read_text
from chimeralab.core.parts import Part, PartLoader, choose, read_part, read_record, read_value
from chimeralab.core.records import Record
from chimeralab.rating.gate import Gate
from chimeralab.rating.plan import RatersTable, RubricTable
from chimeralab.runner import Prompt, Rules, Speaker, interventions
from chimeralab.runner.interventions import (
    COUNTERMEASURES,
    Count,
    Mark,
    Schedule,
    Sham,
    check_countermeasure,
    models_of,
)
from chimeralab.selfplay.outcomes import Outcomes
from chimeralab.study.plan import Condition, Name, SamplingChange, merge_sampling, read_named_tables

# Tables that later steps read, as `plan.extras["gate"]`; they are part of the lock.
EXTRA_TABLES: dict[str, type] = {
    "outcomes": Outcomes,
    "rubric": RubricTable,
    "raters": RatersTable,
    "gate": Gate,
}
# Names that would make readers take a log for a chat, in which only the assistant is judged.
ROLES = frozenset({"user", "assistant", "system", "tool"})


@dataclass(frozen=True, slots=True)
class SpeakerTable(Record):
    """A speaker with more than the name of a model."""

    model: str
    name: Name | None = None
    system: str | None = None
    sampling: SamplingChange = field(default_factory=SamplingChange)


@dataclass(frozen=True, slots=True)
class ConditionTable(Record):
    """[conditions.NAME]: who speaks, in turn, and the countermeasure on collapse.

    The [detector] of the plan defines collapse.
    """

    speakers: tuple[str | SpeakerTable, ...]
    system: str | None = None
    sampling: SamplingChange = field(default_factory=SamplingChange)
    countermeasure: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class PerturbationTable(Record):
    """[perturbations.NAME], without the keys of its `use`: when, and in which conditions.

    One of `at_turns`, `at_shares` of the length and `after_onset` says when; `sham` and `none` take
    it from the treatment that they are compared with, `of`. The dose is how many `times` it is
    given, `every` n turns.
    """

    at_turns: tuple[Count, ...] | None = None
    at_shares: tuple[Annotated[float, Field(gt=0, lt=1)], ...] | None = None
    after_onset: Annotated[int, Field(ge=0)] | None = None
    times: Count = 1
    every: Count = 1
    conditions: tuple[str, ...] | None = None
    of: str | None = None


@dataclass(frozen=True, slots=True)
class PromptTable(Record):
    """[prompts]: the seed prompts, in a file or inline."""

    file: str | None = None
    items: tuple[dict[str, Any], ...] | None = None


def read_speakers(
    table: ConditionTable,
    sampling: SamplingChange,
    by_model: Mapping[str, SamplingChange],
    place: str,
) -> tuple[Speaker, ...]:
    """Read the speakers of a condition, in the order in which they take turns."""
    if len(table.speakers) < 2:
        raise InputError(
            f"{place} needs at least two speakers; name a model twice to let it talk to itself"
        )
    rows = [row if isinstance(row, SpeakerTable) else SpeakerTable(row) for row in table.speakers]
    for row in rows:
        choose(row.model, by_model, f"model {row.model!r} among the speakers of {place}")
    names = _names(rows, place)
    return tuple(
        Speaker(
            name=name,
            model=row.model,
            sampling=merge_sampling(sampling, by_model[row.model], table.sampling, row.sampling),
            system=table.system if row.system is None else row.system,
        )
        for name, row in zip(names, rows, strict=True)
    )


def _names(rows: list[SpeakerTable], place: str) -> list[str]:
    """Name speakers without a name after their models, numbered if a model speaks twice.

    >>> _names([SpeakerTable("a"), SpeakerTable("b"), SpeakerTable("a")], "here")
    ['a-1', 'b', 'a-2']
    """
    count = Counter(row.model for row in rows if row.name is None)
    seen: Counter[str] = Counter()
    names = []
    for row in rows:
        seen[row.model] += row.name is None
        numbered = f"{row.model}-{seen[row.model]}" if count[row.model] > 1 else row.model
        names.append(row.name or numbered)
    for name in ROLES.intersection(names):
        raise InputError(f"{place} has a speaker called {name!r}, which is a role of chat logs")
    if len(set(names)) < len(names):
        raise InputError(f"{place} has two speakers with the same name: {', '.join(names)}")
    return names


def read_prompts(table: PromptTable, folder: Path) -> tuple[Prompt, ...]:
    """Read the seed prompts in order, from a file or from the plan; ids are unique."""
    if (table.file is None) == (table.items is None):
        raise InputError("[prompts] needs either a file or a list of items, not both")
    items = enumerate(table.items or (), start=1)
    entries: Iterable[tuple[str, Any]] = ((f"[prompts] items[{n}]", item) for n, item in items)
    if table.file is not None:
        entries = _prompt_lines(folder / table.file)
    prompts: dict[str, Prompt] = {}
    for place, value in entries:
        prompt = read_record(Prompt, value, place)
        read_value(Name, prompt.id, f"{place} id")
        if not prompt.text.strip():
            raise InputError(f"{place}: prompt {prompt.id!r} has no text")
        if prompt.id in prompts:
            raise InputError(f"{place}: two prompts have the id {prompt.id!r}")
        prompts[prompt.id] = prompt
    if not prompts:
        raise InputError("[prompts] is empty; a study needs at least one prompt")
    return tuple(prompts.values())


def _prompt_lines(path: Path) -> Iterable[tuple[str, Any]]:
    """Parse the lines of a prompt file; a text may contain line breaks other than \\n."""
    for number, line in enumerate(read_text(path, "one prompt per line").split("\n"), start=1):
        place = f"{path.name}, line {number}"
        if not line.strip():
            continue
        try:
            yield place, parse_json(line)
        except ValueError as error:
            reason = getattr(error, "msg", error)
            raise InputError(f"{place}: not valid JSON ({reason})") from error


def read_countermeasure(
    table: ConditionTable, known: Mapping[str, Any], place: str, loader: PartLoader
) -> Part | None:
    """Read the countermeasure on collapse, if any; the models it uses must be in the plan."""
    if table.countermeasure is None:
        return None
    return _read_acting(table.countermeasure, known, f"{place} countermeasure", loader)


def _read_acting(table: Any, known: Mapping[str, Any], place: str, loader: PartLoader) -> Part:
    part = read_part(COUNTERMEASURES, table, place, loader, interventions.SEAM)
    check_countermeasure(part.settings, f"use = {part.use!r} in {place}")
    for model in models_of(part.settings):
        choose(model, known, f"model {model!r} in {place}")
    return part


# Perturbations that are only compared with a treatment.
COMPARED = (Sham.name, Mark.name)


def cross_perturbations(
    tables: Mapping[str, Any],
    conditions: Mapping[str, Condition],
    rules: Rules,
    models: Mapping[str, Any],
    loader: PartLoader,
) -> dict[str, Condition]:
    """The conditions, each crossed with the perturbations that apply to it, as CONDITION.NAME."""
    named = read_named_tables(tables, "perturbations")
    when = {f.name for f in fields(PerturbationTable)}
    read: dict[str, PerturbationTable] = {}
    for name, table in named.items():
        own = {key: value for key, value in dict(table).items() if key in when}
        read[name] = read_record(PerturbationTable, own, f"[perturbations.{name}]")
    parts: dict[str, Part] = {}
    for name in sorted(named, key=lambda name: named[name].get("use") in COMPARED):
        parts[name] = read_treatment(name, named[name], parts, models, loader)
    crossed: dict[str, Condition] = {}
    for name, condition in conditions.items():
        arms = {
            f"{name}.{arm}": Condition(
                condition.speakers, parts[arm], read_schedule(name, arm, read, rules)
            )
            for arm, table in read.items()
            if name in choose_conditions(table, read, conditions, f"[perturbations.{arm}]")
        }
        if arms and condition.countermeasure:
            raise InputError(
                f"[conditions.{name}] has a countermeasure, and {', '.join(arms)} would perturb it "
                "too; leave one out, or name other `conditions`"
            )
        crossed |= arms or {name: condition}
    return crossed


def choose_conditions(
    table: PerturbationTable,
    read: Mapping[str, PerturbationTable],
    known: Iterable[str],
    place: str,
) -> tuple[str, ...]:
    given = read[table.of].conditions if table.conditions is None and table.of else table.conditions
    for name in given or ():
        choose(name, known, f"condition {name!r} in {place}")
    return tuple(known) if given is None else given


def read_treatment(
    name: str,
    table: Mapping[str, Any],
    known: Mapping[str, Part],
    models: Mapping[str, Any],
    loader: PartLoader,
) -> Part:
    """Read what a perturbation does; a sham needs one of the `known` treatments, with a text."""
    place, own = f"[perturbations.{name}]", {f.name for f in fields(PerturbationTable)}
    settings = {key: value for key, value in table.items() if key not in own}
    use, of = settings.get("use"), table.get("of")
    if use not in COMPARED:
        if of is not None:
            raise InputError(f"{place} has of = {of!r}, which is for {' and '.join(COMPARED)}")
        return _read_acting(settings, models, place, loader)
    del settings["use"]
    mark = read_record(Mark, settings, place)
    if of is None and use == Sham.name:
        raise InputError(f"{place} is a sham without a treatment; name it: of = NAME")
    if of is not None:
        treatments = [each for each, part in known.items() if part.use not in COMPARED]
        choose(of, treatments, f"treatment {of!r} in {place}")
    if use == Mark.name:
        return Part(Mark.name, mark)
    part = known[str(of)].settings
    if not callable(getattr(part, "sham", None)):
        raise InputError(
            f"{place} is a sham of {of}, which says nothing that could be neutral; compare it with "
            "use = 'none'"
        )
    return Part(Sham.name, Sham(part))


def read_schedule(
    condition: str, arm: str, read: Mapping[str, PerturbationTable], rules: Rules
) -> Schedule:
    place, table = f"[perturbations.{arm}]", read[arm]
    keys = ("at_turns", "at_shares", "after_onset")
    given = [key for key in keys if getattr(table, key) is not None]
    if table.of is not None and not given:
        table = read[table.of]
        given = [key for key in keys if getattr(table, key) is not None]
    if len(given) != 1:
        raise InputError(
            f"{place} needs one of {', '.join(keys)}" + (", not several" * bool(given))
        )
    if table.after_onset is not None and rules.stop_early:
        raise InputError(
            f"{place} acts after an onset, at which stop_early ends a conversation; leave one out"
        )
    # 1e-9: 0.7 of 10 turns is 7.000000000000001 of them, or a little less.
    shares = [int(share * rules.turns + 1e-9) for share in table.at_shares or ()]
    last = (table.times - 1) * table.every
    for turn in (*(table.at_turns or ()), *shares):
        if not 1 <= turn <= rules.turns - 1 - last:
            raise InputError(
                f"{place} {given[0]}: no turn follows turn {turn + last} of {rules.turns}, so "
                "nothing would be perturbed"
                if turn
                else f"{place} {given[0]}: a share is before turn 1 of {rules.turns}"
            )
    at = tuple(sorted({*(table.at_turns or ()), *shares}))
    return Schedule(condition, arm, at, table.after_onset, table.times, table.every)


def read_extras(tables: Mapping[str, Any], loader: PartLoader) -> dict[str, Any]:
    """Read the tables of later steps; absent ones have their defaults."""
    extras = {}
    for name, cls in EXTRA_TABLES.items():
        # A table that names files or code needs the loader, which knows the folder.
        read: Any = getattr(cls, "read", None)
        given, place = tables.get(name, {}), f"[{name}]"
        extras[name] = read(given, place, loader) if read else read_record(cls, given, place)
    return extras
