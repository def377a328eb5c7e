"""Checks for CI: what `--fail-on` and `--max-share` demand of the verdicts, and a JUnit file."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chimeralab.cli.verdict_table import VerdictCounts
from chimeralab.core.errors import InputError
from chimeralab.core.files import replacing
from chimeralab.core.numbers import counted, percent
from chimeralab.core.records import Detection, Record
from chimeralab.core.text import inert
from chimeralab.detection.loops import Judges
from chimeralab.detection.verdict import findings

LOOP, COLLAPSE, NOTHING_JUDGED = "loop", "collapse", "nothing-judged"
NOT_XML = {0xFFFE: "\ufffd", 0xFFFF: "\ufffd"}


@dataclass(frozen=True, slots=True)
class Checks(Record):
    """What makes the command fail. Whoever checks anything wants something to be judged."""

    failing: frozenset[str]
    max_share: float = 0.0

    def complaints(self, counts: VerdictCounts) -> Iterator[str]:
        """Why the check failed, in sentences; none where it did not."""
        if self.failing and not counts.judged:
            yield "nothing could be judged: no conversation is long enough"
            return
        tallies = {LOOP: counts.loops, COLLAPSE: counts.collapses}
        for name, tally in tallies.items():
            if name not in self.failing:
                continue
            if not tally.judged:
                yield f"no conversation could be judged for {name}"
            elif tally.hits > self.max_share * tally.judged:
                share = percent(tally.hits / tally.judged)
                allowed = f"at most {percent(self.max_share)} may" if self.max_share else "none may"
                total = counted(tally.judged, "conversation")
                yield f"{name} in {tally.hits:,} of {total} ({share}); {allowed}"


def asked_checks(options: dict[str, Any], judges: Judges) -> Checks:
    """What was asked for; a check that could never fail is refused, as nobody would look."""
    failing = {*options["fail_on"], *([COLLAPSE] if options["fail_on_collapse"] else [])}
    share = options["max_share"]
    if share is not None and not failing & {LOOP, COLLAPSE}:
        failing.add(LOOP if judges.loops else COLLAPSE)
    if LOOP in failing and judges.loops is None:
        raise InputError("--fail-on loop needs the loop detector; leave out --detector locked")
    if COLLAPSE in failing and judges.collapse is None:
        raise InputError(
            "--fail-on collapse needs the collapse verdict; leave out --no-vectors and"
            " --detector loops"
        )
    return Checks(frozenset(failing), share or 0.0)


class JUnit:
    """Verdicts as test cases, the way CI servers read them: what is found is a failure.

    What `--fail-on` names counts; where it names nothing, loops and collapse do. Without a path,
    nothing is kept or written.
    """

    def __init__(self, path: Path | None, checks: Checks) -> None:
        if path and path.suffix.lower() != ".xml":
            raise InputError(f"{path}: JUnit's is an .xml file; give --junit a name that ends so")
        if path and not path.parent.is_dir():
            raise InputError(f"{path}: there is no folder {path.parent}; make it first")
        self._path = path
        self._counted = checks.failing & {LOOP, COLLAPSE} or {LOOP, COLLAPSE}
        self._cases: list[ET.Element] = []

    def add(self, detection: Detection) -> None:
        """Take a verdict."""
        if self._path is None:
            return
        place = (detection.source or "chimera").rpartition(":")[0] or detection.source or "chimera"
        case = ET.Element("testcase", classname=_xml(place), name=_xml(detection.id), time="0")
        found = {LOOP: bool(detection.looping), COLLAPSE: bool(detection.collapsed)}
        kinds = [name for name in found if found[name] and name in self._counted]
        told = list(findings(detection))
        if kinds:
            failure = ET.SubElement(
                case, "failure", message=_xml(told[0]), type=" and ".join(kinds)
            )
            failure.text = _xml("\n".join(told))
        elif detection.collapse_rate is None and (detection.steps or 0) <= 2:
            reason = detection.reason or f"no verdict: {counted(detection.steps or 0, 'step')}"
            ET.SubElement(case, "skipped", message=_xml(reason))
        self._cases.append(case)

    def write(self, summary: str) -> None:
        """Write the file, with the summary as its output."""
        if self._path is None:
            return
        counts = {
            "tests": str(len(self._cases)),
            "failures": str(sum(case.find("failure") is not None for case in self._cases)),
            "errors": "0",
            "time": "0",
        }
        root = ET.Element("testsuites")
        named = {"id": "0", "package": "chimera", "name": "detect"}
        suite = ET.SubElement(root, "testsuite", {**named, **counts})
        skipped = sum(case.find("skipped") is not None for case in self._cases)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
        suite.attrib |= {"skipped": str(skipped), "timestamp": now, "hostname": "localhost"}
        ET.SubElement(suite, "properties")
        suite.extend(self._cases)
        ET.SubElement(suite, "system-out").text = _xml(summary)
        ET.SubElement(suite, "system-err")
        ET.indent(root)
        with replacing(self._path) as part:
            ET.ElementTree(root).write(part, encoding="utf-8", xml_declaration=True)


def _xml(text: str) -> str:
    """Text of others with no character that XML can't hold."""
    return inert(text).translate(NOT_XML)
