"""`chimera audit STUDY`: the raters of a study, its gate, and the detector against the raters."""

from pathlib import Path
from typing import Any

from rich.text import Text

from chimeralab import pipeline
from chimeralab.cli.terminal import out, percent, plain, say
from chimeralab.core.errors import InputError
from chimeralab.rating.audit import audit_json
from chimeralab.stats.clusters import Share
from chimeralab.study import Study
from chimeralab.study.auditing import StudyAudit
from chimeralab.study.validating import ValidityAgainst

OF_THE_PLAN = ("statistic", "threshold", "rule", "record", "rubric", "table")


def held_audit(path: Path, options: dict[str, Any]) -> StudyAudit:
    """The audit as the plan declares it; nothing of it can be set on the command line."""
    given = next((name for name in OF_THE_PLAN if options[name] is not None), None)
    if given:
        raise InputError(f"the gate of a study is declared in its plan: leave out --{given}")
    found = pipeline.audit(Study(path), options["only"])
    if found.record:
        say(f"{found.sample} is used; the record is in {found.record}")
    return found


def study_json(found: StudyAudit) -> dict[str, Any]:
    """The audit as one JSON object, with the sample and the validity beside it."""
    return {
        **audit_json(found.audit),
        "sample": found.sample,
        "validity": [each.as_dict() for each in found.validity],
    }


def print_validity(found: StudyAudit) -> None:
    for each in found.validity:
        out.print(Text(plain(_line(each))))


def _line(each: ValidityAgainst) -> str:
    start = f"The detector against {each.rater}: "
    if each.result is None:
        return f"{start}unknown ({each.reason})."
    diagnosis = each.result.diagnosis
    kappa = diagnosis.agreement.kappa
    classes = ", ".join(f"{count} {name}" for name, count in each.classes.items())
    return (
        f"{start}sensitivity {_share(diagnosis.sensitivity)}, "
        f"specificity {_share(diagnosis.specificity)}, "
        f"kappa {'undefined' if kappa is None else f'{kappa:.3f}'}; "
        f"they differ on {len(each.result.differences)}{f' ({classes})' if classes else ''}."
    )


def _share(share: Share) -> str:
    if share.value is None or share.interval is None:
        return percent(share.value)
    return (
        f"{percent(share.value)} ({percent(share.interval.low)} – {percent(share.interval.high)})"
    )
