"""Verify a bundle: verify its study, and recreate every other file."""

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from chimeralab import pipeline
from chimeralab.bundle.build import write_derived
from chimeralab.bundle.documents import CRATE, crate, readme, versions
from chimeralab.bundle.manifest import bundle_hash, hashes_of, read_manifest
from chimeralab.core.errors import InputError
from chimeralab.core.files import parse_json, read_regular, write_text
from chimeralab.report.files import write_report
from chimeralab.study import Study
from chimeralab.study.database import MANIFEST
from chimeralab.study.verdicts import CheckResult, Finding
from chimeralab.study.verify import Verification
from chimeralab.version import __version__

FIGURES, SOFTWARE = "report/figures/", "report/tables/software.csv"
# Drawings, and versions of software, may differ between machines.
_OF_MACHINE = re.compile(
    r'<svg.*?</svg>|<tr><td data-heading="what" .*?</tr>|"software": \{.*?\}', re.DOTALL
)
# Floats may differ in their last digits between machines; 12e3 inside a hash is not one.
CLOSE = 1e-6
_DECIMAL = re.compile(r"(-?\d+\.\d+(?:e[+-]?\d+)?|(?<!\w)-?\d+e[+-]?\d+(?!\w))")


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
    # The crate has the hashes of the other files, so whatever changes them contradicts it, too.
    named = {each.place for each in changed} | ({CRATE} if changed else set())
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
        found = parse_json(read_regular(folder / "versions.json"))
        return str(found["bundle_made_with"])
    except (OSError, ValueError, KeyError, TypeError):
        return "of an unknown version"


def _recreate(study: Study, *, quick: bool) -> CheckResult:
    """Recreate the files that follow from the records, and compare their content."""
    made = _read_version(study.path)
    if made != __version__:
        with study.archive() as archive:
            used = {row["version"] for row in archive.rows("SELECT DISTINCT version FROM runs")}
        used |= {str(study.lock.resolved.get("chimeralab"))} if study.lock else set()
        if used == {made}:
            aside = f"what chimera-lab {made} derived from the records, apart from its hashes"
            return CheckResult(unchecked=(aside,))
        problem = (
            f"report, numbers and tables are not checked: it says that chimera-lab {made} made "
            f"them, but the study was locked and run with {', '.join(sorted(used))}; check them "
            f"with the version that made them (this is {__version__})"
        )
        return CheckResult((Finding("versions.json", problem),))
    what, aside = "tables and texts", "the report, apart from its hashes (--quick)"
    with TemporaryDirectory() as temporary:
        again = Path(temporary)
        write_derived(study, again)
        for name, text in (
            ("README.md", readme(study)),
            ("versions.json", versions(study)),
            (CRATE, crate(study)),
        ):
            write_text(again / name, text)
        if not quick:
            write_report(study, folder=again / "report")
            what, aside = f"{what}, the report and its numbers", "figures, apart from their hashes"
        written = hashes_of(again).keys()
        folders = tuple({f"{name.partition('/')[0]}/" for name in written if "/" in name})
        names = written | {name for name in hashes_of(study.path) if name.startswith(folders)}
        wrong = [
            name
            for name in sorted(names)
            if not name.startswith(FIGURES) and not _same_content(study.path / name, again / name)
        ]
    if CRATE in wrong and len(wrong) > 1:
        wrong.remove(CRATE)
    if SOFTWARE in wrong:
        aside = f"the versions of software, which differ here, and {aside}"
        wrong.remove(SOFTWARE)
    findings = (Finding(name, "it does not match the records of the bundle") for name in wrong)
    return CheckResult(tuple(findings), (f"{what}, rebuilt from the records",), (aside,))


def _same_content(stored: Path, again: Path) -> bool:
    """Whether two files have the same content, up to rounding errors of decimals."""
    if not stored.is_file() or not again.is_file():
        return False
    one, other = stored.read_bytes(), again.read_bytes()
    if one == other:
        return True
    texts = (_OF_MACHINE.sub("", each.decode(errors="replace")) for each in (one, other))
    sides = [_DECIMAL.split(text) for text in texts]
    if len(sides[0]) != len(sides[1]):
        return False
    pairs = enumerate(zip(*sides, strict=True))
    return all(
        a == b or (place % 2 == 1 and math.isclose(float(a), float(b), rel_tol=CLOSE))
        for place, (a, b) in pairs
    )
