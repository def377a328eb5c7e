"""Whether a trial can say anything: was it read, was there room to fall, did the stress arrive?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chimeralab.analysis.trial_measures import Tally, unread
from chimeralab.analysis.trial_sessions import Session
from chimeralab.records import Record
from chimeralab.sandbox.script import Arm

MOST_UNREAD = 0.2
# Above chance by less than this, a control has nothing to lose.
LEAST_ROOM = 0.1


@dataclass(frozen=True, slots=True)
class Check(Record):
    """One thing that must hold before an effect is worth printing. `passed` None: can't be told."""

    name: str
    arm: str
    value: float | None
    passed: bool | None
    message: str


def checks(sessions: Sequence[Session], arms: Mapping[str, Arm], control: str) -> tuple[Check, ...]:
    """All checks of one subject, those of the control first."""
    by_arm = {name: [s for s in sessions if s.place.arm == name] for name in arms}
    return (
        _floor(by_arm[control], control),
        *(_readable(group, name) for name, group in by_arm.items()),
        *(
            check
            for name, arm in arms.items()
            if not arm.sham
            for check in _arrivals(by_arm[name], by_arm[control], name, arm)
        ),
    )


def _floor(sessions: Sequence[Session], control: str) -> Check:
    rows = [row for session in sessions for row in session.rows if row.correct is not None]
    if not rows:
        return Check("floor", control, None, False, "the control has no answer that can be judged")
    right = sum(bool(row.correct) for row in rows) / len(rows)
    chance = sum(1 / row.options if row.options else 0.0 for row in rows) / len(rows)
    said = f"the control is right in {right:.0%} of its answers; guessing would give {chance:.0%}"
    return Check("floor", control, right, right - chance >= LEAST_ROOM, said)


def _readable(sessions: Sequence[Session], name: str) -> Check:
    rows = [row for session in sessions for row in session.rows]
    share = _quotient(unread(rows))
    if share is None:
        return Check("readable", name, None, False, "nothing was asked")
    said = f"{share:.0%} of the replies can't be read"
    return Check("readable", name, share, share <= MOST_UNREAD, said)


def _arrivals(
    sessions: Sequence[Session], control: Sequence[Session], name: str, arm: Arm
) -> Iterator[Check]:
    rows = [row for session in sessions for row in session.rows]
    if "amnesia" in arm.stressors:
        share = _quotient(Tally(sum(row.disturbed for row in rows), len(rows)))
        idle = _is_idle(arm)
        said = f"memory is disturbed at {share or 0:.0%} of the trials"
        yield Check("memory disturbed", name, share, bool(share) or idle, said)
    if "conformity" in arm.stressors:
        share = _quotient(Tally(sum(row.bias for row in rows), len(rows)))
        said = f"a false signal stands at {share or 0:.0%} of the trials"
        yield Check("signal given", name, share, bool(share) or _is_idle(arm), said)
    if "infallibility" in arm.stressors:
        yield _noticed(sessions, control, name)


def _noticed(sessions: Sequence[Session], control: Sequence[Session], name: str) -> Check:
    """Whether the wrong belief is stated as likelier than in the control, before the evidence."""
    here, there = _stated(sessions), _stated(control)
    if here is None or there is None:
        return Check("feedback noticed", name, None, None, "no belief was stated in numbers")
    said = f"the wrong belief is held at {here:.2f}, in the control at {there:.2f}"
    return Check("feedback noticed", name, here - there, here > there, said)


def _stated(sessions: Sequence[Session]) -> float | None:
    rows = (row for session in sessions for row in session.rows if row.phase == "held")
    stated = [row.belief for row in rows if row.belief is not None]
    return _quotient(Tally(sum(stated), len(stated)))


def _is_idle(arm: Arm) -> bool:
    """A dose of nothing leaves no trace, as it should."""
    return arm.dose == 0


def _quotient(tally: Tally) -> float | None:
    return tally.hits / tally.among if tally.among else None
