"""What a report may claim: as much as the reliability gate of the study allows, and no more."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from chimeralab.core.errors import InputError
from chimeralab.rating.gate import ClaimScope
from chimeralab.rating.gate_record import JSON as RECORD

# Where the record of a study's gate is looked for, as seen from the study's folder.
PLACES = (Path("audit") / RECORD, Path(RECORD))

NO_AUDIT = ClaimScope(
    "descriptive",
    "No reliability audit has been run. Every claim about collapse describes what the detector "
    "marked and compares conditions; whether people would call the same turns collapsed has not "
    "been asked.",
    ("validated", "validates", "validation"),
)


class Reliability(NamedTuple):
    """What the record of a gate says: what may be claimed, and the figures behind that."""

    scope: ClaimScope
    verdict: str
    figures: Mapping[str, Any]
    by_stratum: Mapping[str, Mapping[str, Any]]
    place: str


def read_reliability(folder: Path) -> Reliability | None:
    """The record of the study's gate; None when no audit has left one."""
    path = next((folder / place for place in PLACES if (folder / place).is_file()), None)
    if path is None:
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        consequence, audit = record["consequence"], record["audit"]
        forbidden = tuple(consequence["forbidden"])
        scope = ClaimScope(consequence["name"], consequence["sentence"], forbidden)
        return Reliability(scope, record["verdict"], audit, audit["by_stratum"], path.name)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is no gate record; write it with `chimera audit`") from error


def scope_of(reliability: Reliability | None) -> ClaimScope:
    """What may be claimed. A record that did not pass never allows more than description."""
    if reliability is None:
        return NO_AUDIT
    if reliability.verdict != "passed" and not reliability.scope.forbidden:
        return ClaimScope("descriptive", reliability.scope.sentence, NO_AUDIT.forbidden)
    return reliability.scope


def marked(scope: ClaimScope) -> str:
    """How collapsed turns are spoken of: as marks of the detector, until raters have agreed."""
    return "collapsed" if scope.name == "validated" else "marked as collapsed"
