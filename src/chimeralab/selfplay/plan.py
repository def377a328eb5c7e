"""The tables of a self-play plan: conditions with their speakers, prompts, raters and gate."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chimeralab.core.errors import InputError
from chimeralab.core.files import parse_json, read_text
from chimeralab.core.parts import Part, PartLoader, choose, read_part, read_record, read_value
from chimeralab.core.records import Record
from chimeralab.rating.gate import Gate
from chimeralab.rating.plan import RatersTable, RubricTable
from chimeralab.runner import Prompt, Speaker, interventions
from chimeralab.runner.interventions import COUNTERMEASURES, check_countermeasure, models_of
from chimeralab.selfplay.outcomes import Outcomes
from chimeralab.study.plan import Name, SamplingChange, merge_sampling

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
    place = f"{place} countermeasure"
    part = read_part(COUNTERMEASURES, table.countermeasure, place, loader, interventions.SEAM)
    check_countermeasure(part.settings, f"use = {part.use!r} in {place}")
    for model in models_of(part.settings):
        choose(model, known, f"model {model!r} in {place}")
    return part


def read_extras(tables: Mapping[str, Any], loader: PartLoader) -> dict[str, Any]:
    """Read the tables of later steps; absent ones have their defaults."""
    extras = {}
    for name, cls in EXTRA_TABLES.items():
        # A table that names files or code needs the loader, which knows the folder.
        read: Any = getattr(cls, "read", None)
        given, place = tables.get(name, {}), f"[{name}]"
        extras[name] = read(given, place, loader) if read else read_record(cls, given, place)
    return extras
