"""Who speaks in a condition: names, models and sampling, resolved from the outer tables inwards."""

from collections import Counter
from collections.abc import Mapping

from chimeralab.core.errors import InputError
from chimeralab.core.parts import choose
from chimeralab.models.seam import Sampling
from chimeralab.runner import Speaker
from chimeralab.study.sections import ConditionTable, SamplingChange, SpeakerTable

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
