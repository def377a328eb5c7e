"""Where a study stands, condition by condition, as a table, or in a line when all is done."""

from collections.abc import Mapping, Sequence

from rich.table import Table

from chimeralab.cli.terminal import plain
from chimeralab.study import ConditionFlow

COUNTS = ("planned", "begun", "completed", "open", "turns")
# So many rows that all say the same are a line.
MANY = 10


def where_it_stands(arms: Sequence[ConditionFlow], order: Sequence[str]) -> Table | str:
    """What was planned, what became of it, and which questions had to be asked again."""
    if len(arms) > MANY and all(arm.completed == arm.planned for arm in arms):
        talks, turns = sum(arm.planned for arm in arms), sum(arm.turns for arm in arms)
        return (
            f"all {talks:,} conversations of {len(arms)} conditions are complete: {turns:,} turns"
        )
    places = {name: place for place, name in enumerate(order)}
    return _table(sorted(arms, key=lambda arm: places.get(arm.condition, len(places))))


def _table(arms: Sequence[ConditionFlow]) -> Table:
    ends = [_listed(arm.outcomes, "completed") for arm in arms]
    failed = [_listed(arm.attempts, "answered") for arm in arms]
    # A column that has nothing to say would only squeeze the names.
    told = {"other ends": ends, "failed attempts": failed}
    told = {heading: column for heading, column in told.items() if set(column) != {"–"}}
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("condition", overflow="fold")
    for heading in COUNTS:
        table.add_column(heading, justify="right")
    for heading in told:
        table.add_column(heading)
    for place, arm in enumerate(arms):
        counts = (arm.planned, arm.attempted, arm.completed, arm.open, arm.turns)
        cells = (f"{count:,}" for count in counts)
        table.add_row(plain(arm.condition), *cells, *(column[place] for column in told.values()))
    return table


def _listed(counts: Mapping[str, int], but: str) -> str:
    return ", ".join(f"{n:,} {name}" for name, n in counts.items() if name != but) or "–"
