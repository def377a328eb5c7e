"""What a guard says of each conversation of a study, turn by turn as it is stored."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from chimeralab.core.parts import StandIn
from chimeralab.core.records import Turn
from chimeralab.detection.guard import Guard
from chimeralab.study import Study
from chimeralab.study.detecting import stored_detections
from chimeralab.study.run import watcher
from chimeralab.study.store import Archive
from chimeralab.web.conversation import ENCODING
from chimeralab.web.grid import TalkCell


class Listening(NamedTuple):
    """A guard, and the last turn that it has heard."""

    guard: Guard
    heard: int


class TalkGuards:
    """A guard for each conversation that is going on. Sessions of a trial have none."""

    def __init__(self, study: Study) -> None:
        self._listening: dict[str, Listening] = {}
        self._start = _factory(study)

    def mark(self, archive: Archive, cell: TalkCell) -> str:
        """What is to be said of a conversation after its new turns: collapsed, looping, or ''."""
        if self._start is None:
            return cell.mark
        if cell.id not in self._listening:
            self._listening[cell.id] = Listening(self._start(), 0)
        guard, heard = self._listening.pop(cell.id)
        mark = cell.mark
        for row in archive.turns(cell.id):
            if row["turn"] <= heard:
                continue
            heard = row["turn"]
            with ENCODING:
                seen = guard.update(Turn(row["text"], row["speaker"], model=row["model"]))
            if seen.collapsed:
                mark = "collapsed"
            elif not mark and seen.loop and seen.loop.level != "notice":
                mark = "looping"
        if cell.outcome is None:
            self._listening[cell.id] = Listening(guard, heard)
        return mark


def _factory(study: Study) -> Callable[[], Guard] | None:
    plan = study.plan
    if plan.trial is not None:
        return None
    if isinstance(plan.acting.settings, StandIn):  # code of others is not run to show a page
        return lambda: Guard(vectors=False)
    return watcher(plan, wanted=True)


def stored_marks(study: Study) -> Mapping[str, str]:
    """The verdicts that the study has stored already, by conversation."""
    if not study.store_path.is_file() or study.plan.trial is not None:
        return {}
    return {
        row["id"]: "collapsed" if row["collapsed"] else "looping" if row.get("looping") else ""
        for row in stored_detections(study)
    }
