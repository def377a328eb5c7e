"""Whether a trial can say anything: was it read, was there room to move, did the stress arrive?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chimeralab.analysis.trial.effects import measures_against
from chimeralab.analysis.trial.measures import HitRate, unread, unread_aside
from chimeralab.analysis.trial.sessions import MeasuredSession
from chimeralab.core.records import Record
from chimeralab.sandbox.scored import Scored
from chimeralab.sandbox.script import Arm

MOST_UNREAD = 0.2
# Above chance by less than this, a control has nothing to lose, and a signal was not noticed.
LEAST_ROOM = 0.1
CEILING = "ceiling"
Rows = Sequence[Scored]


@dataclass(frozen=True, slots=True)
class Check(Record):
    """One thing that must hold before an effect is worth printing. `passed` None: can't be told."""

    name: str
    arm: str
    value: float | None
    passed: bool | None
    message: str


def checks(
    sessions: Sequence[MeasuredSession], arms: Mapping[str, Arm], control: str
) -> tuple[Check, ...]:
    """All checks of one subject, those of the control first."""
    by_arm = {name: [s for s in sessions if s.place.arm == name] for name in arms}
    rows = {name: [row for s in group for row in s.rows] for name, group in by_arm.items()}
    bare = [
        name for q in measures_against(arms) for name, weight in q.weights.items() if weight < 0
    ]
    return (
        _floor(rows[control], control),
        *(_ceiling(rows[name], name) for name in dict.fromkeys((control, *bare))),
        *(check for name in arms for check in _readable(rows[name], name)),
        *(
            check
            for name, arm in arms.items()
            if not arm.sham
            for check in _arrivals(rows[name], name, arm)
        ),
    )


def full(found: Sequence[Check]) -> dict[str, str]:
    """The arms that have no room for gains, with what was found."""
    return {each.arm: each.message for each in found if each.name == CEILING and not each.passed}


def first_failures(found: Sequence[Check]) -> dict[str, str]:
    """Of each arm that fails, what it fails first: what can't be read needs no further reason."""
    failed: dict[str, str] = {}
    for check in found:
        if check.passed is False:
            failed.setdefault(check.arm, check.message)
    return failed


def _floor(rows: Rows, control: str) -> Check:
    judged = [row for row in rows if row.answered.correct is not None]
    if not judged:
        return Check("floor", control, None, False, "the control has no answer that can be judged")
    right = sum(bool(row.answered.correct) for row in judged) / len(judged)
    chance = _chance(judged)
    said = f"the control is right in {right:.0%} of its answers; guessing would give {chance:.0%}"
    return Check("floor", control, right, right - chance >= LEAST_ROOM, said)


def _ceiling(rows: Rows, name: str) -> Check:
    """An arm at the ceiling is no failure: stress can still pull it down."""
    answers = [row.answered.correct for row in rows]
    answers += [row.recalled.correct for row in rows if row.recalled]
    judged = [flag for flag in answers if flag is not None]
    share, wrong = _quotient(HitRate(sum(judged), len(judged))), len(judged) - sum(judged)
    if share is None:
        return Check(CEILING, name, None, None, "no answer can be judged")
    if not wrong:
        said = f"right in all of its {len(judged)} answers: harm can show there, but gains cannot"
        return Check(CEILING, name, share, None, said)
    said = f"wrong in {wrong} of its {len(judged)} answers: gains can show"
    return Check(CEILING, name, share, True, said)


def _readable(rows: Rows, name: str) -> Iterator[Check]:
    """Answers decide; what was asked aside is only told, since other measures stand without it."""
    share = _quotient(unread(rows))
    if share is None:
        yield Check("readable", name, None, False, "there is no whole session")
        return
    said = f"{share:.0%} of the answers can't be read"
    yield Check("readable", name, share, share <= MOST_UNREAD, said)
    aside = _quotient(unread_aside(rows))
    if aside is not None:
        said = f"{aside:.0%} of the replies to what was asked aside can't be read"
        yield Check("readable aside", name, aside, aside <= MOST_UNREAD or None, said)


def _arrivals(rows: Rows, name: str, arm: Arm) -> Iterator[Check]:
    """That a stressor did its work is a fact of the record; that it was noticed is asked."""

    def fact(title: str, hits: int, said: str) -> Check:
        share = _quotient(HitRate(hits, len(rows)))
        stated = f"{said} at {share or 0:.0%} of the trials"
        return Check(title, name, share, bool(share) or _is_idle(arm), stated)

    for _, part in sorted(arm.stressors.items()):
        for check in part.checks:
            shown = sum(check.shows(row) for row in rows)
            yield fact(check.title, shown, check.said)
            if check.signal is not None:
                yield _noticed(check.signal, [row for row in rows if check.asks(row)], name)


def _noticed(what: str, rows: Rows, name: str) -> Check:
    """Whether the subject can say what it was told. What it made of it is an outcome, no check."""
    title, asked = f"{what} noticed", [row for row in rows if row.confided.noticed is not None]
    noticed = sum(bool(row.confided.noticed) for row in asked)
    share = _quotient(HitRate(noticed, len(asked)))
    if share is None:
        said = f"whether the false {what} was noticed was not asked, or no reply could be read"
        return Check(title, name, None, None, said)
    chance = _chance(asked)
    said = (
        f"the false {what} was noticed in {noticed} of {len(asked)} cases asked; "
        f"guessing would give {chance:.0%}"
    )
    return Check(title, name, share, share - chance >= LEAST_ROOM, said)


def _chance(rows: Rows) -> float:
    return sum(1 / row.posed.options if row.posed.options else 0.0 for row in rows) / len(rows)


def _is_idle(arm: Arm) -> bool:
    """A dose of nothing leaves no trace, as it should."""
    return arm.dose == 0


def _quotient(tally: HitRate) -> float | None:
    return tally.hits / tally.among if tally.among else None
