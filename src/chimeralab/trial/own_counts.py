"""What the code of a plan counts in each session: when it is run, for all that only read later.

A measure of the user's own is counted, and the checks of a stressor of the user's own are made.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import groupby
from typing import Any, NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.core.parts import StandIn
from chimeralab.study.database import open_to_write, transaction
from chimeralab.study.folder import Study
from chimeralab.study.lock import digest
from chimeralab.study.store import now
from chimeralab.trial.measures import HitRate, OwnMeasure
from chimeralab.trial.plan import TrialPlan
from chimeralab.trial.rows import stored_trials, trial_plan
from chimeralab.trial.scored import Scored
from chimeralab.trial.stressors import Arrival, Stressor

Rows = tuple[Scored, ...]


class OwnCount(NamedTuple):
    """One part of the user's own in one session; `key` is all that its count depends on."""

    session: str
    name: str
    key: str
    part: Any
    rows: Rows

    def value(self) -> Any:
        """What the part makes of the session, as plain values."""
        if not isinstance(self.part, Stressor):
            tally = OwnMeasure(self.name, self.part).measure.tally
            assert tally is not None
            return list(tally(self.rows))
        return [
            {
                "words": [check.title, check.said, check.signal],
                "shows": [bool(check.shows(row)) for row in self.rows],
                "asks": [bool(check.asks(row)) for row in self.rows],
            }
            for check in self.part.checks
        ]


def own_counts(study: Study) -> Iterator[OwnCount]:
    """Every session with every part of the user's own that counts in it."""
    plan, code = trial_plan(study), study.plan.code
    if not (plan.measures or plan.own):
        return
    for where, session in groupby(stored_trials(study, whole=True), key=lambda each: each.place):
        rows = tuple(each.row for each in session)
        acting = {f"stressors.{name}" for name in plan.arms[where.arm].stressors}
        stressors = {name: part for name, part in plan.own.items() if name in acting}
        for name, part in {**plan.measures, **stressors}.items():
            key = digest(["counted", name, code[part.use].sha256, part.as_dict()])
            yield OwnCount(where.session, name, key, part.settings, rows)


def count_sessions(study: Study) -> None:
    """Count what was not counted yet; the code of the plan is run for it."""
    known = stored_counts(study)
    missing = [each for each in own_counts(study) if (each.session, each.key) not in known]
    if not missing:
        return
    with closing(open_to_write(study.store_path)) as db:
        for each in missing:
            row = (each.session, each.key, json.dumps(each.value()), now())
            with transaction(db, study.store_path):
                db.execute("INSERT OR IGNORE INTO detections VALUES (?, ?, ?, ?)", row)


def stored_counts(study: Study) -> dict[tuple[str, str], Any]:
    """What was counted, by session and key; it stands beside the verdicts of detectors."""
    with study.archive() as archive:
        rows = archive.rows("SELECT trajectory, detector, detection FROM detections")
        return {(r["trajectory"], r["detector"]): json.loads(r["detection"]) for r in rows}


def recalled_plan(study: Study) -> TrialPlan:
    """The plan of a trial for whoever counts: what stands in for parts answers as those did."""
    recalled: dict[str, dict[Any, Any]] = {}
    known = stored_counts(study)
    for each in own_counts(study):
        part = each.part
        if not isinstance(part, StandIn):
            continue
        if (each.session, each.key) not in known:
            raise InputError(
                f"{each.name} has not been counted in every session, by {part.code}; "
                f"`chimera run {study.path} --allow-code` counts it"
            )
        found = known[each.session, each.key]
        answers = recalled.setdefault(each.name, {})
        if isinstance(part, Stressor):
            _take_checks(type(part), answers, found, each.rows)
        else:
            answers[each.rows] = HitRate(*found)
            type(part).tally = staticmethod(answers.__getitem__)  # type: ignore[attr-defined]
    return trial_plan(study)


def _take_checks(
    cls: type[Stressor], answers: dict[Any, Any], found: list[Mapping[str, Any]], rows: Rows
) -> None:
    """The checks of a stressor, which answer for every trial that was there."""
    for number, check in enumerate(found):
        for name in ("shows", "asks"):
            flags = answers.setdefault((number, name), {})
            flags.update(zip(rows, check[name], strict=True))
    cls.checks = tuple(
        Arrival(
            title=check["words"][0],
            said=check["words"][1],
            shows=answers[number, "shows"].__getitem__,
            signal=check["words"][2],
            asks=answers[number, "asks"].__getitem__,
        )
        for number, check in enumerate(found)
    )
