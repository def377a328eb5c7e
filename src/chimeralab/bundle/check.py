"""Verify a bundle: verify its study, and recreate every other file."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from chimeralab import pipeline
from chimeralab.bundle.build import write_derived
from chimeralab.bundle.manifest import MANIFEST, bundle_hash, hashes_of, read_manifest
from chimeralab.core.errors import InputError
from chimeralab.report.files import write_report
from chimeralab.study import Study
from chimeralab.study.verdicts import CheckResult, Finding
from chimeralab.study.verify import Verification
from chimeralab.version import __version__

FIGURES, PAGE, SOFTWARE = "report/figures/", "report/index.html", "report/tables/software.csv"
_DRAWING = re.compile(r"<svg.*?</svg>", re.DOTALL)
# Floats may differ in their last digits between machines.
CLOSE = 1e-6
_DECIMAL = re.compile(r"(-?\d+\.\d+(?:e[+-]?\d+)?|-?\d+e[+-]?\d+)")


def verify_bundle(study: Study, *, quick: bool = False, expect: str | None = None) -> Verification:
    """Verify the study in a bundle, and that all other files follow from its records.

    `expect` is a root hash or the hash of the bundle.
    """
    changed = tuple(find_changed_files(study.path))
    sha256 = bundle_hash(study.path)
    is_whole = expect is not None and expect.strip().lower() == sha256
    try:
        found = pipeline.verify(study, quick=quick, expect=None if is_whole else expect)
    except InputError as error:
        if not changed:
            raise
        problem = Finding("the study", f"it can't be verified: {error}")
        return Verification(False, 0, 0, (*changed, problem))
    try:
        # Without the code of the study, as when the bundle was made.
        again = _recreate(Study(study.path), quick=quick)
    except InputError as error:
        problem = Finding("the report", f"it can't be recreated: {error}")
        again = CheckResult((problem,))
    named = {each.place for each in changed}
    derived = (each for each in again.findings if each.place not in named)
    return replace(
        found,
        findings=(*changed, *derived, *found.findings),
        notes=(*found.notes, f"the hash of this bundle is {sha256}"),
        checked=(*found.checked, "every file against the manifest", *again.checked),
        unchecked=(*found.unchecked, *again.unchecked),
    )


def find_changed_files(folder: Path) -> Iterator[Finding]:
    """Find files that were changed, removed or added since the export."""
    try:
        listed = read_manifest(folder)
    except InputError as error:
        yield Finding(MANIFEST, str(error))
        return
    present = hashes_of(folder)
    for name in sorted(listed.keys() | present.keys()):
        if name not in present:
            yield Finding(name, f"it is in {MANIFEST}, but not in the bundle")
        elif name not in listed:
            yield Finding(name, f"it is not in {MANIFEST}: added since the export")
        elif present[name] != listed[name]:
            yield Finding(name, f"it is not the file in {MANIFEST}: one of the two was changed")


def _read_version(folder: Path) -> str:
    """The version of chimera-lab that made a bundle."""
    try:
        found = json.loads((folder / "versions.json").read_text(encoding="utf-8"))
        return str(found["bundle_made_with"])
    except (OSError, ValueError, KeyError, TypeError):
        return "of an unknown version"


def _recreate(study: Study, *, quick: bool) -> CheckResult:
    """Recreate the files that follow from the records, and compare their content."""
    made = _read_version(study.path)
    if made != __version__:
        aside = f"what chimera-lab {made} derived from the records, apart from its hashes"
        return CheckResult(unchecked=(aside,))
    what, aside = "tables and texts", "the report, apart from its hashes (--quick)"
    with TemporaryDirectory() as temporary:
        again = Path(temporary)
        write_derived(study, again)
        if not quick:
            write_report(study, folder=again / "report")
            what, aside = f"{what}, the report and its numbers", "figures, apart from their hashes"
        names = [name for name in hashes_of(again) if not name.startswith(FIGURES)]
        wrong = [name for name in names if not _same_content(study.path / name, again / name)]
    if SOFTWARE in wrong:
        # The page lists software versions, which differ here.
        what, aside = f"{what} except its page", f"the page of the report and its {aside}"
        wrong = [name for name in wrong if name not in (SOFTWARE, PAGE)]
    findings = (Finding(name, "it does not match the records of the bundle") for name in wrong)
    return CheckResult(tuple(findings), (f"{what}, rebuilt from the records",), (aside,))


def _same_content(stored: Path, again: Path) -> bool:
    """Whether two files have the same content, up to rounding errors of decimals."""
    if not stored.is_file():
        return True  # reported by the manifest
    one, other = stored.read_bytes(), again.read_bytes()
    if one == other:
        return True
    texts = (_DRAWING.sub("", each.decode(errors="replace")) for each in (one, other))
    sides = [_DECIMAL.split(text) for text in texts]
    if len(sides[0]) != len(sides[1]):
        return False
    pairs = enumerate(zip(*sides, strict=True))
    return all(
        a == b or (place % 2 == 1 and math.isclose(float(a), float(b), rel_tol=CLOSE))
        for place, (a, b) in pairs
    )
