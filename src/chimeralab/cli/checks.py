"""Checks of `chimera detect` for CI: what fails, and a JUnit file."""

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Set
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from chimeralab.core.errors import InputError
from chimeralab.core.files import atomic_file
from chimeralab.core.numbers import plural
from chimeralab.core.records import Detection
from chimeralab.core.text import neutralize
from chimeralab.detection.loops import DetectorPair
from chimeralab.detection.verdict import findings

LOOP, COLLAPSE, NOTHING_JUDGED = "loop", "collapse", "nothing-judged"
NOT_XML = {0xFFFE: "\ufffd", 0xFFFF: "\ufffd"}


def parse_checks(options: Mapping[str, Any], judges: DetectorPair) -> tuple[set[str], float]:
    """Parse --fail-on and --max-share; reject checks that could never fail."""
    failing = {*options["fail_on"], *([COLLAPSE] if options["fail_on_collapse"] else [])}
    max_share = options["max_share"]
    if max_share is not None and not failing & {LOOP, COLLAPSE}:
        failing.add(LOOP if judges.loops else COLLAPSE)
    if LOOP in failing and judges.loops is None:
        raise InputError("--fail-on loop needs the loop detector; leave out --detector locked")
    if COLLAPSE in failing and judges.collapse is None:
        raise InputError(
            "--fail-on collapse needs the collapse verdict; leave out --no-vectors and"
            " --detector loops"
        )
    return failing, max_share or 0.0


class VerdictReport(Protocol):
    """Takes each verdict, and then writes all of them, with the summary and failed checks."""

    def add(self, detection: Detection) -> None: ...

    def write(self, summary: str) -> None: ...


def open_reports(options: Mapping[str, Any], failing: Set[str]) -> list[VerdictReport]:
    """Open what --junit, --github and --notify ask for."""
    reports: list[VerdictReport] = [JUnit(options["junit"], failing)]
    if options["github"] or options["notify"]:
        from chimeralab.cli.alerts import list_alerts  # noqa: PLC0415 - start-up time

        given = {"github": options["github"], "notify": options["notify"]}
        reports += list_alerts(**given, failing=bool(failing & {LOOP, COLLAPSE}))
    return reports


class JUnit:
    """Write verdicts as JUnit test cases, if there is a path.

    A loop or a collapse is a failure; if --fail-on names only one of the two, only that one is.
    """

    def __init__(self, path: Path | None, failing: Set[str]) -> None:
        if path and path.suffix.lower() != ".xml":
            raise InputError(f"--junit {path}: the file name must end in .xml")
        if path and not path.parent.is_dir():
            raise InputError(f"--junit {path}: folder {path.parent} does not exist")
        self._path = path
        self._counted = failing & {LOOP, COLLAPSE} or {LOOP, COLLAPSE}
        self._cases: list[ET.Element] = []

    def add(self, detection: Detection) -> None:
        if self._path is None:
            return
        place = (detection.source or "chimera").rpartition(":")[0] or detection.source or "chimera"
        case = ET.Element("testcase", classname=_xml(place), name=_xml(detection.id), time="0")
        found = {LOOP: bool(detection.looping), COLLAPSE: bool(detection.collapsed)}
        kinds = [name for name in found if found[name] and name in self._counted]
        if kinds:
            lines = list(findings(detection))
            attributes = {"message": _xml(lines[0]), "type": " and ".join(kinds)}
            ET.SubElement(case, "failure", attributes).text = _xml("\n".join(lines))
        elif detection.collapse_rate is None and (detection.steps or 0) <= 2:
            reason = detection.reason or f"no verdict: {plural(detection.steps or 0, 'step')}"
            ET.SubElement(case, "skipped", message=_xml(reason))
        self._cases.append(case)

    def write(self, summary: str) -> None:
        """Write the file, with the summary as its output."""
        if self._path is None:
            return
        failures, skipped = (
            str(sum(case.find(tag) is not None for case in self._cases))
            for tag in ("failure", "skipped")
        )
        root = ET.Element("testsuites")
        suite = ET.SubElement(
            root,
            "testsuite",
            id="0",
            package="chimera",
            name="detect",
            tests=str(len(self._cases)),
            failures=failures,
            errors="0",
            time="0",
            skipped=skipped,
            timestamp=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S"),
            hostname="localhost",
        )
        ET.SubElement(suite, "properties")
        suite.extend(self._cases)
        ET.SubElement(suite, "system-out").text = _xml(summary)
        ET.SubElement(suite, "system-err")
        ET.indent(root)
        with atomic_file(self._path) as part:
            ET.ElementTree(root).write(part, encoding="utf-8", xml_declaration=True)


def _xml(text: str) -> str:
    """Replace the characters that XML doesn't allow."""
    return neutralize(text).translate(NOT_XML)
