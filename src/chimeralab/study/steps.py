"""The lock of a step: the chain's length and head, and the hash of every file that the step wrote.

A chain that was cut off, and a file that was edited, contradict it.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chimeralab.core.files import file_hash, make_folder, parse_json, read_regular, write_text
from chimeralab.core.schema import SCHEMA
from chimeralab.study.chain import Chain
from chimeralab.study.folder import Study
from chimeralab.study.lock import digest
from chimeralab.study.store import Archive
from chimeralab.version import __version__

FOLDER = "steps"
# What each step writes: rows of a table, or files.
ROWS = {"run": "runs", "detect": "detections"}
FILES = {"audit": "audit", "report": "report", "estimates": "estimates.json"}


def lock_step(study: Study, step: str, files: Mapping[str, str] | None = None) -> None:
    """Write the lock of a step; without the hashes of its files, it has only begun."""
    with Archive(study.store_path) as archive:
        last = next(archive.rows("SELECT id, head FROM chain ORDER BY id DESC LIMIT 1"), {})
    values = {
        "schema": SCHEMA,
        "step": step,
        "chimeralab": __version__,
        "records": last.get("id", 0),
        "head": bytes(last.get("head", b"")).hex(),
        "files": files if files is None else dict(sorted(files.items())),
    }
    make_folder(study.path / FOLDER)
    text = json.dumps({**values, "sha256": digest(values)}, indent=1, ensure_ascii=False)
    write_text(study.path / FOLDER / f"{step}.lock", text + "\n")


@contextmanager
def record_step(study: Study, step: str) -> Iterator[None]:
    """Lock a step as begun, and at its end with what it wrote."""
    lock_step(study, step, None if step in FILES else {})
    yield
    lock_step(study, step, hash_files(study.path, step))


def hash_files(folder: Path, step: str) -> dict[str, str]:
    """Hash the files that a step writes, except hidden ones."""
    root = folder / FILES[step] if step in FILES else folder / FOLDER / "none"
    paths = [root, *sorted(root.rglob("*"))]
    return {
        path.relative_to(folder).as_posix(): file_hash(path)
        for path in paths
        if path.is_file() and not path.name.startswith(".")
    }


def read_step(folder: Path, step: str) -> dict[str, Any]:
    """Read the lock of a step; empty if there is none, and a `ValueError` if it was edited."""
    path = folder / FOLDER / f"{step}.lock"
    if not path.is_file():
        return {}
    values: dict[str, Any] = parse_json(read_regular(path))
    if not isinstance(values, dict) or values.pop("sha256", None) != digest(values):
        raise ValueError("it was edited: its contents do not match its hash")
    return values


def check_steps(
    study: Study, archive: Archive, chain: Chain | None, *, is_reporting: bool = False
) -> Iterator[tuple[str, str]]:
    """Compare the chain and the files with the lock of each step; yield place and problem.

    While a report is made, the one that it replaces does not matter.
    """
    for step in (*ROWS, *FILES):
        if is_reporting and step in ("report", "estimates"):
            continue
        place = f"{FOLDER}/{step}.lock"
        try:
            yield from _misfits(study, step, read_step(study.path, step), chain, archive)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            yield place, str(error)
        except OSError as error:
            yield place, f"it can't be read ({error.strerror})"
    known = {f"{step}.lock" for step in (*ROWS, *FILES)}
    for name in sorted({path.name for path in (study.path / FOLDER).glob("[!.]*")} - known):
        yield f"{FOLDER}/{name}", "no step wrote it: added from outside"


def _misfits(
    study: Study, step: str, lock: Mapping[str, Any], chain: Chain | None, archive: Archive
) -> Iterator[tuple[str, str]]:
    place = f"{FOLDER}/{step}.lock"
    present = hash_files(study.path, step)
    if not lock:
        # A trial counts by code of its own in the table of verdicts, without that step.
        table = ROWS.get(step) if study.plan.kind.judged or step == "run" else None
        if present or (table and archive.value(f"SELECT count(*) FROM {table}")):  # noqa: S608
            what = FILES.get(step) or f"rows in the table {table}"
            yield place, f"it is missing, but what the step wrote is there: {what}"
        return
    records, files = int(lock["records"]), lock["files"]
    heads = [each.head.hex() for each in chain.records[records - 1 : records]] if chain else []
    if chain and records and heads != [str(lock["head"])]:
        yield (
            place,
            f"it was locked at {records:,} records, the last of which the chain lacks or has "
            "replaced",
        )
    if files is None:
        yield FILES[step], f"it is incomplete; `chimera {step}` writes it again"
        return
    for name in sorted(files.keys() | present.keys()):
        if name not in files:
            yield name, f"`chimera {step}` did not write it: added from outside"
        elif name not in present and step != "estimates":
            yield name, f"it is missing; `chimera {step}` writes it again"
        elif name in present and files[name] != present[name]:
            yield name, f"it is not the file that `chimera {step}` wrote: changed from outside"
