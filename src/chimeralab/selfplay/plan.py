"""The tables of a self-play plan: conditions with their speakers, prompts, and who judges."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.core.files import read_text
from chimeralab.core.parts import Part, PartLoader, choose, read_part, read_record, read_value
from chimeralab.core.records import Record
from chimeralab.rating.gate import Gate
from chimeralab.rating.plan import RatersTable, RubricTable
from chimeralab.runner import Prompt, Speaker, interventions
from chimeralab.runner.interventions import COUNTERMEASURES, check_countermeasure, models_of
from chimeralab.selfplay.outcomes import Outcomes
from chimeralab.study.plan import Name, SamplingChange, merge_sampling

# The tables that later steps read. They become part of the lock like all others, and
# `plan.extras["gate"]` holds them.
EXTRA_TABLES: dict[str, type] = {
    "outcomes": Outcomes,
    "rubric": RubricTable,
    "raters": RatersTable,
    "gate": Gate,
}
# A log whose speakers are called so is read as a chat, where only the assistant is judged.
ROLES = frozenset({"user", "assistant", "system", "tool"})


@dataclass(frozen=True, slots=True)
class SpeakerTable(Record):
    """A speaker of a condition that is more than the name of a model."""

    model: str
    name: Name | None = None
    system: str | None = None
    sampling: SamplingChange = field(default_factory=SamplingChange)


@dataclass(frozen=True, slots=True)
class ConditionTable(Record):
    """[conditions.NAME]: who speaks, in turn, and what is done on collapse.

    What counts as one is said by the [detector] of the plan: `locked`, `loops` or one of your own.
    """

    speakers: tuple[str | SpeakerTable, ...]
    system: str | None = None
    sampling: SamplingChange = field(default_factory=SamplingChange)
    countermeasure: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class PromptTable(Record):
    """[prompts]: where the seed prompts stand, in a file or here."""

    file: str | None = None
    items: tuple[dict[str, Any], ...] | None = None


def read_speakers(
    table: ConditionTable,
    sampling: SamplingChange,
    by_model: Mapping[str, SamplingChange],
    place: str,
) -> tuple[Speaker, ...]:
    """The speakers of one condition, in the order in which they take turns."""
    if len(table.speakers) < 2:
        raise InputError(
            f"{place} needs two speakers or more; a model that talks to itself is named twice"
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
    """A speaker without a name is called after its model, with a number where that is not enough.

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
        raise InputError(f"{place} has a speaker called {name!r}, as a role of chat logs is")
    if len(set(names)) < len(names):
        raise InputError(f"{place} has two speakers of one name: {', '.join(names)}")
    return names


def read_prompts(table: PromptTable, folder: Path) -> tuple[Prompt, ...]:
    """The seed prompts in order, from a file or from the plan itself, each with its own id."""
    if (table.file is None) == (table.items is None):
        raise InputError("[prompts] needs either a file or a list of items, and not both")
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
            raise InputError(f"{place}: there are two prompts with the id {prompt.id!r}")
        prompts[prompt.id] = prompt
    if not prompts:
        raise InputError("[prompts] holds no prompt; a study needs at least one")
    return tuple(prompts.values())


def _prompt_lines(path: Path) -> Iterable[tuple[str, Any]]:
    """Every line of a prompt file with its place; a prompt's text may hold any other line break."""
    for number, line in enumerate(read_text(path, "one prompt per line").split("\n"), start=1):
        place = f"{path.name}, line {number}"
        if not line.strip():
            continue
        try:
            yield place, json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{place}: not valid JSON ({error.msg})") from error


def read_countermeasure(
    table: ConditionTable, known: Mapping[str, Any], place: str, loader: PartLoader
) -> Part | None:
    """What is done on collapse, if anything; a model that it brings in must be in the plan."""
    if table.countermeasure is None:
        return None
    place = f"{place} countermeasure"
    part = read_part(COUNTERMEASURES, table.countermeasure, place, loader, interventions.SEAM)
    check_countermeasure(part.settings, f"use = {part.use!r} in {place}")
    for model in models_of(part.settings):
        choose(model, known, f"model {model!r} in {place}")
    return part


def read_extras(tables: Mapping[str, Any], loader: PartLoader) -> dict[str, Any]:
    """The tables of later steps, those that are absent with their defaults."""
    extras = {}
    for name, cls in EXTRA_TABLES.items():
        # A table that names files or code reads itself, as it is told in which folder they lie.
        read: Any = getattr(cls, "read", None)
        given, place = tables.get(name, {}), f"[{name}]"
        extras[name] = read(given, place, loader) if read else read_record(cls, given, place)
    return extras
