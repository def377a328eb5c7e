"""The tables of a plan, each a frozen record with its defaults, and what they resolve to."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from chimeralab.core.errors import InputError
from chimeralab.core.files import read_text
from chimeralab.core.parts import choose, read_record, read_value
from chimeralab.core.records import Record
from chimeralab.models.seam import Sampling
from chimeralab.rating.plan import GateTable, RatersTable, RubricTable
from chimeralab.runner import Price, Prompt, Speaker
from chimeralab.selfplay.outcomes import Outcomes

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True)
class About(Record):
    """[study]: what is asked."""

    name: Annotated[str, Field(min_length=1)]
    question: str = ""
    kind: Literal["selfplay", "trial"] = "selfplay"


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


@dataclass(frozen=True, slots=True)
class RunTable(Record):
    """[run]: how the work is done. Each run may set other limits on the command line."""

    seed: int = 0
    concurrency: Count = 8
    interleave: bool = True
    max_cost: Annotated[float, Field(ge=0)] | None = None
    max_hours: Annotated[float, Field(gt=0)] | None = None
    retry_wait: Annotated[float, Field(ge=0)] = 1.0


# Tables that later steps read are named here, each with its record. They become part of the lock
# like all others, and `plan.extras["gate"]` holds them.
EXTRA_TABLES: dict[str, type] = {
    "outcomes": Outcomes,
    "rubric": RubricTable,
    "raters": RatersTable,
    "gate": GateTable,
}

# A log whose speakers are called so is read as a chat, where only the assistant is judged.
ROLES = frozenset({"user", "assistant", "system", "tool"})


def cast(
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
            sampling=innermost(sampling, by_model[row.model], table.sampling, row.sampling),
            system=table.system if row.system is None else row.system,
        )
        for name, row in zip(names, rows, strict=True)
    )


def named_tables(tables: Mapping[str, Any], key: str, *, needed: bool = False) -> Mapping[str, Any]:
    """The tables [KEY.NAME] of a plan, under names that can stand in a file name."""
    named = tables.get(key, {})
    if not isinstance(named, Mapping) or (needed and not named):
        raise InputError(
            f"[{key}] takes tables [{key}.NAME]" + (", one at least" if needed else "")
        )
    for name in named:
        read_value(Name, name, f"[{key}] the name")
    return named


def innermost(*changes: SamplingChange) -> Sampling:
    """How replies are drawn once every change is made, the last one winning."""
    sampling = Sampling()
    for change in changes:
        sampling = change.on(sampling)
    return sampling


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
