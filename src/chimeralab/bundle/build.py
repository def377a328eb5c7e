"""Build a bundle: copy the study, derive everything else from the copy, write the manifest."""

import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from pathlib import Path
from posixpath import normpath
from typing import Any, NamedTuple

from chimeralab.bundle.documents import (
    BLANK,
    CITATION,
    CRATE,
    PROMPTS,
    citation,
    codebook,
    crate,
    datasheet,
    preregistration,
    readme,
    versions,
)
from chimeralab.bundle.manifest import (
    bundle_hash,
    hashes_of,
    is_bundle,
    read_manifest,
    write_manifest,
)
from chimeralab.core.errors import InputError
from chimeralab.core.files import atomic_folder, read_text, write_text
from chimeralab.core.tables import open_table
from chimeralab.core.text import secrets
from chimeralab.rating.audit import JSON, MARKDOWN
from chimeralab.rating.study_audit import FOLDER, VALIDITY
from chimeralab.report.files import require_run, write_report
from chimeralab.study import Study, steps
from chimeralab.study.estimates import Estimates
from chimeralab.study.export import copy_records, export_study, write_conversations
from chimeralab.study.verdicts import load_detections

# Documents that the author completes; edits survive the next export.
OWN: dict[str, Callable[[Study], str]] = {CITATION: citation, "datasheet.md": datasheet}
TABLES = "tables"


class Bundle(NamedTuple):
    """A bundle as written.

    `withheld` counts labels and packets held back until the gate is decided. `kept` files have
    edits of the author; `stale` ones could not be updated around them. `blanks` are open fields.
    """

    path: Path
    root: str | None
    sha256: str
    withheld: int
    kept: tuple[str, ...]
    stale: tuple[str, ...]
    blanks: dict[str, int]
    files: int


def write_bundle(
    study: Study, folder: Path, on_progress: Callable[[str], None] = lambda text: None
) -> Bundle:
    """Write a study as a bundle, atomically, replacing an earlier bundle of it."""
    require_run(study)
    if is_bundle(study.path):
        raise InputError(f"{study.path} is a bundle already; copy it as it is")
    _refuse_unjudged(study)
    target = folder.resolve()
    with atomic_folder(target) as new:
        edits = _read_edits(target, study)
        on_progress("copying the records")
        _copy_plan(study, new)
        withheld = copy_records(study, new / "study.db")
        copy = _open_copy(new)
        on_progress("writing tables")
        write_derived(copy, new)
        write_text(new / "versions.json", versions(copy))
        write_report(copy, on_progress, estimates=Estimates(study))
        own, stale = {}, []
        for name, write in OWN.items():
            own[name] = write(copy)
            if name in edits:
                base, edited = edits[name]
                carried = carry_over(base, edited, own[name])
                own[name] = edited if carried is None else carried
                stale += [name] if carried is None else []
            write_text(new / name, own[name])
        write_text(new / "README.md", readme(copy))
        write_text(new / CRATE, crate(copy))
        _refuse_keys(study, new)
        write_manifest(new)
        blanks = {name: text.count(BLANK) for name, text in own.items() if BLANK in text}
        files = 1 + len(read_manifest(new))
        root, sha256 = copy.root, bundle_hash(new)
    return Bundle(folder, root, sha256, withheld, tuple(edits), tuple(stale), blanks, files)


def write_derived(study: Study, folder: Path) -> None:
    """Write the files that depend only on the plan and the records, on any machine."""
    export_study(study, "csv", folder / TABLES)
    with open_table(folder / TABLES / "prompts.csv", PROMPTS) as write:
        for prompt in study.plan.prompts:
            write(prompt.as_dict())
    write_conversations(study, folder / "trajectories.jsonl")
    write_text(folder / "preregistration.md", preregistration(study))
    write_text(folder / "codebook.md", codebook(study))


def _refuse_unjudged(study: Study) -> None:
    if not study.plan.kind.judged:
        return
    judged = {each.id for each in load_detections(study)}
    with study.archive() as archive:
        waiting = [talk["id"] for talk in archive.talks() if talk["turns"]]
    missing = len(set(waiting) - judged)
    if missing:
        raise InputError(
            f"{missing} finished conversations have no verdict yet, so their outcomes are unknown; "
            f"run `chimera detect {study.path}` first"
        )


def _read_edits(target: Path, study: Study) -> dict[str, tuple[str, str]]:
    """Read the documents that the author edited in an earlier bundle: original and edited text.

    Raises an error if the folder is not a bundle of this study.
    """
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return {}
    if not target.is_dir() or not is_bundle(target):
        raise InputError(f"{target} is neither empty nor a bundle; choose another folder")
    others = hashes_of(target).keys() - read_manifest(target).keys()
    if others:
        raise InputError(
            f"{target} holds {min(others)}, which is not part of the bundle; move it, or choose "
            "another folder"
        )
    earlier = Study(target)
    with study.archive() as archive:
        rows = archive.rows("SELECT head FROM chain") if archive.head else ()
        heads = {bytes(row["head"]).hex() for row in rows}
    if earlier.root not in heads | {study.root}:
        raise InputError(
            f"{target} is the bundle of another study, or of this one before its records were "
            "changed; choose another folder"
        )
    found = {
        name: (write(earlier), read_text(target / name))
        for name, write in OWN.items()
        if (target / name).is_file()
    }
    return {name: (base, text) for name, (base, text) in found.items() if text != base}


def carry_over(base: str, edited: str, new: str) -> str | None:
    """Apply the edits between the base and the edited text to the new text (three-way merge).

    Returns None if an edited line is no longer in the new text.

    >>> carry_over("by: ?\\nturns: 4\\n", "by: Ada\\nturns: 4\\n", "by: ?\\nturns: 9\\n")
    'by: Ada\\nturns: 9\\n'
    """
    before, after, lines = (text.splitlines(keepends=True) for text in (base, edited, new))
    places = {
        block.a + offset: block.b + offset
        for block in SequenceMatcher(None, before, lines, autojunk=False).get_matching_blocks()
        for offset in range(block.size)
    }
    # Allow insertions at both ends.
    places |= {-1: -1, len(before): len(lines)}
    changes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for kind, start, end, first, last in reversed(changes):
        if kind == "equal":
            continue
        there = [places.get(place) for place in range(start, end)]
        at = there[0] if there else _insertion_point(places, start)
        if at is None or there != list(range(at, at + len(there))):
            return None
        lines[at : at + len(there)] = after[first:last]
    return "".join(lines)


def _insertion_point(places: dict[int, int], start: int) -> int | None:
    """Where an insertion before a line of the base belongs in the new text."""
    if start - 1 in places:
        return places[start - 1] + 1
    return places.get(start)


def _copy_plan(study: Study, new: Path) -> None:
    """Copy the plan, the locks, the files it names, and the records of its gate."""
    present = {p.relative_to(study.path).as_posix() for p in study.path.rglob("*") if p.is_file()}
    tables = tomllib.loads(study.plan_path.read_text(encoding="utf-8-sig"))
    locks = (f"{steps.FOLDER}/{step}.lock" for step in ("run", "detect", "audit"))
    named = {study.plan_path.name, study.lock_path.name, *locks, *_files_in(tables)}
    records = "|".join(map(re.escape, (JSON, MARKDOWN, VALIDITY)))
    for name in present:
        if name in named or re.fullmatch(rf"{FOLDER}/(attempt-\d+/)?({records})", name):
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(study.path / name, new / name)


def _files_in(value: Any) -> Iterator[str]:
    """Every string of a plan as a file name, and as the module of a custom part."""
    if isinstance(value, str):
        yield normpath(value)
        yield f"{value.partition(':')[0]}.py"
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _files_in(item)


def _open_copy(new: Path) -> Study:
    """Open the copy, which must be readable without the original."""
    copy = Study(new)
    try:
        copy.plan  # noqa: B018 - reading it is the test
    except InputError as error:
        raise InputError(
            f"the plan needs files outside of the study: {error}; copy them into the folder of the "
            "study and refer to them there"
        ) from error
    return copy


def _refuse_keys(study: Study, new: Path) -> None:
    named = (getattr(each.part.settings, "key_env", None) for each in study.plan.models.values())
    keys = secrets(*filter(None, named))
    for path in sorted(new.rglob("*")):
        content = path.read_bytes() if path.is_file() and keys else b""
        for name, value in keys.items():
            if value.encode() in content:
                raise InputError(
                    f"{path.relative_to(new)} would contain the value of the environment variable "
                    f"{name}; remove it from the study first"
                )
