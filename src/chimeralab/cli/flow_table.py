"""Where a study stands, condition by condition, as a table."""

from collections.abc import Mapping, Sequence

from rich.table import Table

from chimeralab.study import Arm


def flow_table(arms: Sequence[Arm]) -> Table:
    """What was planned, what became of it, and which questions had to be asked again."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("condition", "planned", "begun", "completed", "open", "turns"):
        table.add_column(heading, justify="left" if heading == "condition" else "right")
    table.add_column("other ends")
    table.add_column("failed attempts")
    for arm in arms:
        ends = {name: n for name, n in arm.outcomes.items() if name != "completed"}
        failed = {name: n for name, n in arm.attempts.items() if name != "answered"}
        counts = (arm.planned, arm.attempted, arm.completed, arm.open, arm.turns)
        cells = (f"{count:,}" for count in counts)
        table.add_row(arm.condition, *cells, _listed(ends), _listed(failed))
    return table


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {name}" for name, n in counts.items()) or "–"
