"""Where model files lie on this machine, and whether they are still the ones that were pinned."""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from platformdirs import user_cache_dir

from chimeralab.weights.catalogue import ModelFile, known_model

FileState = Literal["present", "missing", "damaged"]


class FileCheck(NamedTuple):
    """One pinned file and how it was found."""

    file: ModelFile
    path: Path
    state: FileState


def cache_root() -> Path:
    """The folder everything re-creatable lives in; CHIMERA_CACHE moves it."""
    chosen = os.environ.get("CHIMERA_CACHE")
    return Path(chosen or user_cache_dir("chimera-lab", appauthor=False)).expanduser()


def models_root() -> Path:
    """The folder with one folder per model: the one to copy to a machine without a network."""
    return cache_root() / "models"


def model_folder(name: str) -> Path:
    """Where the files of a model belong, whether they are there or not."""
    return models_root() / name / known_model(name).hub.revision[:12]


def locate(name: str) -> Path | None:
    """The folder with all files of a model intact; None when any is missing or damaged."""
    intact = all(check.state == "present" for check in glance(name))
    return model_folder(name) if intact else None


def ensure(name: str, *, say: Callable[[str], None] | None = None) -> Path:
    """The folder with all files of a model; pulls what is missing and tells so on stderr."""
    folder = locate(name)
    if folder is None:
        # The network parts take a third of a second to import, and a cached model needs none.
        from chimeralab.weights.pull import pull, to_stderr  # noqa: PLC0415

        folder = pull(name, say=say or to_stderr)
    return folder


def glance(name: str) -> list[FileCheck]:
    """The state of each file, hashing only those that changed since they were last verified."""
    return _checks(name, trust_stamps=True)


def verify(name: str) -> list[FileCheck]:
    """The state of each file, hashing all of them again."""
    return _checks(name, trust_stamps=False)


def stamp(path: Path, sha256: str) -> None:
    """Note that this file, as it lies there now, has been found to have this hash."""
    _keep_note(path, _note(path, sha256))


def _checks(name: str, *, trust_stamps: bool) -> list[FileCheck]:
    folder = model_folder(name)
    paths = [(file, folder / file.name) for file in known_model(name).files]
    return [FileCheck(file, path, _state(file, path, trust_stamps)) for file, path in paths]


def _state(file: ModelFile, path: Path, trust_stamps: bool) -> FileState:
    try:
        # taken before hashing: a change while we read must not be vouched for
        note = _note(path, file.sha256)
    except OSError:
        return "missing"
    with suppress(OSError, UnicodeDecodeError):
        if trust_stamps and _note_path(path).read_text(encoding="ascii") == note:
            return "present"
    with suppress(OSError), path.open("rb") as opened:
        if hashlib.file_digest(opened, "sha256").hexdigest() == file.sha256:
            _keep_note(path, note)
            return "present"
    _keep_note(path, "damaged")
    return "damaged"


def _note(path: Path, sha256: str) -> str:
    seen = path.stat()
    return f"{sha256} {seen.st_size} {seen.st_mtime_ns}"


def _keep_note(path: Path, note: str) -> None:
    # A cache that can't be written still works: its files are hashed every time instead.
    with suppress(OSError):
        _note_path(path).write_text(note, encoding="ascii")


def _note_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.verified")
