"""The grid of a study: each conversation a cell that says how far it is and how it went."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chimeralab.core.numbers import counted
from chimeralab.core.result_words import MARK
from chimeralab.core.text import inert
from chimeralab.study import Plan
from chimeralab.study.store import Archive
from chimeralab.web.live import Patch, patch

_CELLS = """
    SELECT t.id, t.condition, t.prompt, t.repeat, t.outcome, t.reason,
        (SELECT count(*) FROM turns u WHERE u.trajectory = t.id) AS turns
    FROM trajectories t
"""


@dataclass(frozen=True, slots=True)
class TalkCell:
    """One conversation in the grid. `mark` is what a guard says of it: collapsed, loops, or ''."""

    id: str
    condition: str
    prompt: str
    repeat: int
    outcome: str | None = None
    reason: str | None = None
    turns: int = 0
    mark: str = ""

    @property
    def state(self) -> str:
        if self.outcome == "completed":
            return "done"
        if self.outcome is not None:
            return "failed"
        return "running" if self.turns else "planned"

    @property
    def text(self) -> str:
        """What stands in the cell; signs as well as colours say how it went."""
        sign = {"failed": "✕", "running": "…"}.get(self.state, "")
        return (str(self.turns) if self.turns else "·") + sign + ("↻" if self.mark else "")

    @property
    def look(self) -> str:
        return f"cell {self.state} {self.mark}".strip()

    @property
    def title(self) -> str:
        """The cell in words."""
        mark = {"collapsed": f", {MARK.collapsed}", "looping": ", loops"}.get(self.mark, "")
        outcome = self.outcome or self.state
        why = f" ({self.reason})" if self.reason else ""
        what = f"{self.condition}, {self.prompt}, repeat {self.repeat}"
        return inert(f"{what}: {outcome}{why}, {counted(self.turns, 'turn')}{mark}")

    def patch(self) -> Patch:
        return patch(f"cell-{self.id}", self.text, look=self.look, title=self.title)


Grid = dict[str, dict[str, list[TalkCell]]]
"""Cells by prompt and condition."""


def arranged(cells: Iterable[TalkCell], plan: Plan) -> Grid:
    """The conversations by prompt and condition, in the order of the plan."""
    found: Grid = {prompt.id: {name: [] for name in plan.conditions} for prompt in plan.prompts}
    for cell in sorted(cells, key=lambda cell: cell.repeat):
        found.setdefault(cell.prompt, {}).setdefault(cell.condition, []).append(cell)
    return found


def stored_cells(archive: Archive, wanted: set[str] | None) -> Iterator[TalkCell]:
    """The conversations that are wanted (None: all) as the store has them."""
    if wanted is None:
        yield from (TalkCell(**row) for row in archive.rows(_CELLS))
        return
    for talk in wanted:
        yield from (TalkCell(**row) for row in archive.rows(f"{_CELLS} WHERE t.id = ?", talk))
