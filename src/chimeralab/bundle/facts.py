"""What the documents of a bundle say of a study in the same words."""

from chimeralab.core.numbers import counted
from chimeralab.study import Study

_DAYS = """
    SELECT {what}(day) FROM (
        SELECT started AS day FROM runs UNION ALL SELECT ended FROM runs
        UNION ALL SELECT ended FROM trajectories UNION ALL SELECT at FROM ratings
    ) WHERE day IS NOT NULL
"""


def first_day(study: Study) -> str:
    return _day(study, "min")


def last_day(study: Study) -> str:
    """The day of the last record: the same bundle has the same date whenever it is made."""
    return _day(study, "max")


def _day(study: Study, what: str) -> str:
    with study.archive() as archive:
        return str(archive.value(_DAYS.format(what=what)))[:10]


def design(study: Study) -> str:
    """What is crossed with what, in words."""
    plan = study.plan
    if plan.trial is None:
        sides = [counted(len(plan.conditions), "condition"), counted(len(plan.prompts), "prompt")]
    else:
        subjects = len(set(plan.trial.subjects.values()))
        sides = [
            counted(subjects, "subject"),
            counted(len(plan.trial.arms) // subjects, "arm"),
            counted(len(plan.trial.courses), "scenario"),
        ]
    return " × ".join([*sides, counted(plan.conversation.repeats, "repeat")])
